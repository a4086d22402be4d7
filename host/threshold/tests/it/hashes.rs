//! Every hash, computed a second time from the text of `protocols.md`.

use gateway_threshold::{SignatureProfile, Tweak};
use sha2::{Digest, Sha256};

use crate::harness::{BINDING, CEREMONY, Key, Network, TR};

/// `H(tag, a, b, …)` of `protocols.md`.
fn h(tag: &str, fields: &[Vec<u8>]) -> [u8; 32] {
    let field = |bytes: &[u8]| [&(bytes.len() as u64).to_be_bytes(), bytes].concat();
    let fields = fields.iter().flat_map(|bytes| field(bytes));
    Sha256::digest(field(tag.as_bytes()).into_iter().chain(fields).collect::<Vec<u8>>()).into()
}

fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().into()
}

#[test]
fn key_generation() {
    for profile in SignatureProfile::ALL {
        let mut network = Network::start(profile, &[0, 5, 300], 2, 1);
        let mut round_1: Vec<_> = network.in_flight.iter().map(|flight| &flight.message).collect();
        round_1.sort_by_key(|message| message.from);
        round_1.dedup_by_key(|message| message.from);
        let name = profile.to_string().into_bytes();
        let parameters = [CEREMONY.into(), name, number(2), number(0), number(5), number(300)];
        // Step 1.2
        let binding = h("svc/keygen/v1", &parameters);
        assert!(round_1.iter().all(|message| message.body[..BINDING] == binding));
        let payload = |i: usize| round_1[i].body[BINDING..].to_vec();
        let broadcasts = [number(0), payload(0), number(5), payload(1), number(300), payload(2)];
        network.run(|_| true);
        let key = network.key();
        let encoded = key.keys.to_bytes();
        let (public_keys, chain_code) = encoded.split_at(encoded.len() - 32);
        // Steps 0.6 and 3.4
        let fields = [[binding.to_vec()].as_slice(), &broadcasts, &[public_keys.to_vec()]].concat();
        assert_eq!(key.transcript, h("svc/keygen-transcript/v1", &fields));
        assert_eq!(key.keys.chain_code(), chain_code);
        assert_eq!(chain_code, h("svc/chain-code/v1", &[key.transcript.into()]));
    }
}

#[test]
fn signing_package() {
    let key = Key::generate(TR, &[0, 5, 300], 2, 1);
    let mut package = key.commit(&[5, 300], b"message", None, 2).package;
    let commitments = |signer| package.commitments[&signer].clone();
    let signers = [number(2), number(5), commitments(5), number(300), commitments(300)];
    let fields = [[b"message".to_vec()].as_slice(), &signers].concat();
    let expected = |tail: &[Vec<u8>]| h("svc/signing-package/v1", &[fields.as_slice(), tail].concat());
    assert_eq!(package.hash(), expected(&[number(0)]));
    package.tweak = Some(Tweak::from_bytes([9; 32]).unwrap());
    assert_eq!(package.hash(), expected(&[number(1), vec![9; 32]]));
}
