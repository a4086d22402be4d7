//! Recomputes hashes independently, as `protocols.md` defines them.

use std::collections::BTreeMap;

use frost_core::{Ciphersuite, Field, Group};
use gateway_threshold::repair::{self, Admitted};
use gateway_threshold::{Message, SignatureProfile, Tweak};
use rand_chacha::rand_core::RngCore;

use crate::harness::{
    BINDING, CEREMONY, InFlight, Key, Network, PROOF, TR, h, nonce_point_and_challenge, number,
    redistribute_params, repair_params, rng, secret, with_suite,
};

#[test]
fn key_generation_hashes_are_as_specified() {
    for profile in SignatureProfile::ALL {
        let mut network = Network::start(profile, &[0, 5, 300], 2, 1);
        let mut round_1: Vec<_> = network.in_flight.iter().map(|flight| &flight.message).collect();
        round_1.sort_by_key(|message| message.from);
        round_1.dedup_by_key(|message| message.from);
        let name = profile.to_string().into_bytes();
        let parameters = [CEREMONY.into(), name, number(2), number(0), number(5), number(300)];
        // Step 1.2
        let binding = h("svc/keygen/v2", &parameters);
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

/// The binding, and the broadcasts of round 1 ascending by sender: the sender, then its payload.
fn broadcasts(network: &Network) -> (Vec<u8>, Vec<Vec<u8>>) {
    let round_1 = network.in_flight.iter().filter(|flight| flight.message.round == 1);
    let round_1: BTreeMap<u16, &Vec<u8>> =
        round_1.map(|flight| (flight.message.from, &*flight.message.body)).collect();
    let fields = round_1.iter().flat_map(|(from, body)| [number((*from).into()), body[BINDING..].to_vec()]);
    (round_1.values().next().unwrap()[..BINDING].to_vec(), fields.collect())
}

/// Runs a ceremony to its end. Returns its transcript, and the one computed by step 0.6.
fn transcript(tag: &str, mut network: Network) -> ([u8; 32], [u8; 32]) {
    let (binding, broadcasts) = broadcasts(&network);
    network.run(|_| true);
    let key = network.key();
    let encoded = key.keys.to_bytes();
    let public_keys = encoded[..encoded.len() - 32].to_vec();
    (key.transcript, h(tag, &[[binding].as_slice(), &broadcasts, &[public_keys]].concat()))
}

#[test]
fn redistribution_hashes_are_as_specified() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 5, 300], 2, 1);
        let params = redistribute_params(&key, 0, &[0, 300], &[5, 6, 7], 3);
        let network = Network::redistribute(&key, &params, 1);
        let dealers = [number(2), number(0), number(300)];
        let roster = [number(3), number(5), number(6), number(7)];
        let agreed = [CEREMONY.into(), key.keys.to_bytes(), number(3)];
        let agreed = [agreed.as_slice(), &dealers, &roster].concat();
        assert_eq!(broadcasts(&network).0, h("svc/redistribute/v2", &agreed));
        let (transcript, expected) = transcript("svc/redistribute-transcript/v1", network);
        assert_eq!(transcript, expected);
    }
}

#[test]
fn repair_hashes_are_as_specified() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 5, 300], 2, 1);
        let network = Network::repair(&key, 5, &[0, 300], 1);
        let case = [vec![5; 32], key.keys.to_bytes(), number(5), number(2), number(0), number(300)];
        let case = h("svc/repair-case/v1", &case);
        // Step 1.2, without admitted contributions and with them.
        assert_eq!(broadcasts(&network).0, h("svc/repair/v3", &[CEREMONY.into(), case.into(), vec![]]));
        let mut params = repair_params(&key, 5, 5, &[0, 300]);
        let ids = [0, 300].map(|helper| params.case.contribution(&key.shares[&helper]).unwrap());
        let payloads = broadcasts(&network).1;
        let commitments =
            [&payloads[1], &payloads[3]].map(|payload| payload[..payload.len() - PROOF].to_vec());
        for (id, (helper, commitments)) in ids.iter().zip([0, 300].into_iter().zip(commitments)) {
            let fields = [case.into(), number(helper), commitments];
            assert_eq!(*id, h("svc/repair-contribution/v1", &fields));
        }
        let root = [case.into(), number(0), ids[0].into(), number(300), ids[1].into()];
        let root = h("svc/repair-contributions/v1", &root);
        assert_eq!(params.case.root(&ids), root);
        params.admitted = Admitted { contributions: ids.to_vec(), root: Some(root) };
        let agreed = [CEREMONY.into(), case.into(), root.into(), ids[0].into(), ids[1].into()];
        let admitted = Network::repair_admitted(&key, &params, 1);
        assert_eq!(broadcasts(&admitted).0, h("svc/repair/v3", &agreed));
        let (transcript, expected) = transcript("svc/repair-transcript/v1", network);
        assert_eq!(transcript, expected);
    }
}

/// Binding, sender and commitments, to which proof and nonce are bound.
fn statement(message: &Message) -> [Vec<u8>; 3] {
    let (binding, rest) = message.body.split_at(BINDING);
    [binding.into(), number(message.from.into()), rest[..rest.len() - PROOF].into()]
}

/// Steps 0.11 and 0.12.
#[test]
fn challenge_of_a_proof_is_as_specified() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 5, 300], 2, 1);
        let reshare = redistribute_params(&key, 0, &[0, 300], &[5, 6, 7], 3);
        let networks = [
            Network::start(profile, &[0, 5, 300], 2, 1),
            Network::redistribute(&key, &reshare, 1),
            Network::repair(&key, 5, &[0, 300], 1),
        ];
        for (i, network) in networks.iter().enumerate() {
            for InFlight { message, .. } in network.in_flight.iter().filter(|it| it.message.round == 1) {
                let known = match i {
                    0 => &message.body[BINDING..][..key.keys.verifying_key().len()],
                    _ => &key.keys.verifying_shares()[&message.from],
                };
                let (nonce_point, challenge) = nonce_point_and_challenge(profile, known, message);
                let fields = [statement(message).as_slice(), &[nonce_point]].concat();
                let digest = h("svc/proof/v1", &fields);
                let expected = with_suite!(profile, C => {
                    <<C as Ciphersuite>::Group as Group>::Field::serialize(&C::HID(&digest).unwrap()).to_vec()
                });
                assert_eq!(challenge, expected);
            }
        }
    }
}

/// Step 0.10. A helper uses the random generator for nothing else.
#[test]
fn nonce_of_a_proof_is_as_specified() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 5, 300], 2, 1);
        let share = &key.shares[&300];
        let params = repair_params(&key, 300, 5, &[0, 300]);
        let message = repair::start(params, Some(share), &mut rng(7)).unwrap().1.remove(0);
        let mut random = vec![0; 32];
        rng(7).fill_bytes(&mut random);
        let fields = [[random, secret(share)].as_slice(), &statement(&message)].concat();
        let digest = h("svc/proof-nonce/v1", &fields);
        let expected = with_suite!(profile, C => {
            type G = <C as Ciphersuite>::Group;
            G::serialize(&(G::generator() * C::HID(&digest).unwrap())).unwrap().to_vec()
        });
        let known = &key.keys.verifying_shares()[&300];
        assert_eq!(nonce_point_and_challenge(profile, known, &message).0, expected);
    }
}

#[test]
fn signing_package_hash_is_as_specified() {
    let key = Key::generate(TR, &[0, 5, 300], 2, 1);
    let mut package = key.commit(&[5, 300], b"message", None, 2).package;
    let commitments = |signer| package.commitments[&signer].clone();
    let signers = [number(2), number(5), commitments(5), number(300), commitments(300)];
    let fields = [[b"message".to_vec()].as_slice(), &signers].concat();
    let expected = |tail: &[Vec<u8>]| h("svc/signing-package/v1", &[fields.as_slice(), tail].concat());
    assert_eq!(package.hash(), expected(&[number(0)]));
    package.tweak = Some(Tweak::new([9; 32]));
    assert_eq!(package.hash(), expected(&[number(1), vec![9; 32]]));
}
