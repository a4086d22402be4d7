//! Test vectors of RFC 9591, and pinned values of this crate's formats.

use std::collections::BTreeMap;

use curve25519_dalek::{EdwardsPoint, Scalar};
use gateway_threshold::sign::{self, SigningPackage};
use gateway_threshold::{KeyShare, PublicKeys, SignatureProfile};
use rand_chacha::rand_core::{CryptoRng, Error, RngCore};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::{Key, verifies};

#[derive(Deserialize)]
struct Rfc {
    verifying_key: String,
    threshold: u16,
    message: String,
    shares: BTreeMap<u16, String>,
    signers: BTreeMap<u16, Signer>,
    signature: String,
}

#[derive(Deserialize)]
struct Signer {
    hiding_nonce_randomness: String,
    binding_nonce_randomness: String,
    hiding_nonce_commitment: String,
    binding_nonce_commitment: String,
    signature_share: String,
}

/// A random generator that returns the bytes of the test vector.
struct Replay(Vec<u8>);

impl CryptoRng for Replay {}

impl RngCore for Replay {
    fn next_u32(&mut self) -> u32 {
        panic!("the vectors only have bytes")
    }

    fn next_u64(&mut self) -> u64 {
        panic!("the vectors only have bytes")
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        out.copy_from_slice(&self.0[..out.len()]);
        self.0.drain(..out.len());
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Error> {
        self.fill_bytes(out);
        Ok(())
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    hex::decode(hex).unwrap()
}

/// The shares and public keys of the vector in our own encodings.
fn key(profile: SignatureProfile, rfc: &Rfc) -> (PublicKeys, BTreeMap<u16, KeyShare>) {
    let share = |(identifier, secret): (&u16, &String)| {
        let head =
            [vec![1, 1], (identifier - 1).to_be_bytes().into(), rfc.threshold.to_be_bytes().into()].concat();
        let bytes = [head, bytes(secret), bytes(&rfc.verifying_key)].concat();
        (identifier - 1, KeyShare::from_secret_bytes(profile, &bytes).unwrap())
    };
    let verifying_share = |(identifier, secret): (&u16, &String)| {
        let secret = Scalar::from_canonical_bytes(bytes(secret).try_into().unwrap()).unwrap();
        let point = EdwardsPoint::mul_base(&secret).compress();
        ((identifier - 1).to_string(), Value::from(hex::encode(point.as_bytes())))
    };
    let keys = json!({
        "profile": profile,
        "threshold": rfc.threshold,
        "verifying_key": rfc.verifying_key,
        "verifying_shares": rfc.shares.iter().map(verifying_share).collect::<serde_json::Map<_, _>>(),
        "chain_code": "00".repeat(32),
    });
    (serde_json::from_value(keys).unwrap(), rfc.shares.iter().map(share).collect())
}

/// Appendix E.1: commitments, signature shares and signature.
#[test]
fn rfc_9591_ed25519_vector_is_reproduced() {
    let rfc: Rfc = serde_json::from_str(include_str!("../../vectors/rfc9591-e1-ed25519.json")).unwrap();
    let profile = SignatureProfile::FrostEd25519Sha512;
    let (keys, shares) = key(profile, &rfc);
    let mut nonces = BTreeMap::new();
    let mut commitments = BTreeMap::new();
    for (identifier, signer) in &rfc.signers {
        let randomness =
            [bytes(&signer.hiding_nonce_randomness), bytes(&signer.binding_nonce_randomness)].concat();
        let (secret, public) = sign::commit(&shares[&(identifier - 1)], &mut Replay(randomness)).unwrap();
        let expected =
            [bytes(&signer.hiding_nonce_commitment), bytes(&signer.binding_nonce_commitment)].concat();
        assert_eq!(public, expected);
        nonces.insert(identifier - 1, secret);
        commitments.insert(identifier - 1, public);
    }
    let package = SigningPackage { message: bytes(&rfc.message), commitments, tweak: None };
    let mut signature_shares = BTreeMap::new();
    for (participant, nonces) in nonces {
        let share = nonces.sign(&package, &shares[&participant], &keys).unwrap();
        assert_eq!(share, bytes(&rfc.signers[&(participant + 1)].signature_share));
        signature_shares.insert(participant, share);
    }
    let signature = sign::aggregate(&package, &signature_shares, &keys).unwrap();
    assert_eq!(signature.as_slice(), bytes(&rfc.signature));
    assert!(verifies(profile, &keys.public_key(), &package.message, &signature));
}

/// Stored and hashed values, from fixed randomness. A change here makes stored keys unreadable.
#[test]
fn formats_are_pinned() {
    let pinned: Value = serde_json::from_str(include_str!("../../vectors/formats.json")).unwrap();
    let now: serde_json::Map<_, _> =
        SignatureProfile::ALL.into_iter().map(|p| (p.to_string(), formats(p))).collect();
    let now = Value::from(now);
    assert_eq!(now, pinned, "{}", serde_json::to_string_pretty(&now).unwrap());
}

fn formats(profile: SignatureProfile) -> Value {
    let key = Key::generate(profile, &[0, 1, 2], 2, 42);
    let signing = key.commit(&[0, 2], b"pinned", None, 42);
    let package_hash = hex::encode(signing.package.hash());
    let signature = hex::encode(key.sign(&[0, 2], b"pinned", None, 42));
    json!({
        "public_keys": &key.keys,
        "public_keys_bytes": hex::encode(key.keys.to_bytes()),
        "key_share_0_bytes": hex::encode(&*key.shares[&0].to_secret_bytes()),
        "transcript": hex::encode(key.transcript),
        "signing_package_hash": package_hash,
        "signature": signature,
    })
}
