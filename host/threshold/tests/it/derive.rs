//! Keys for payments, compared with an independent implementation, child keys, compared with the `bip32` crate, Taproot output keys,
//! compared with libsecp256k1, and signatures under all of them.

use std::collections::BTreeSet;
use std::str::FromStr;

use bip32::{ChildNumber, ExtendedKeyAttrs, PublicKey, XPub};
use gateway_threshold::derive::{Derivation, derive, extended_public_key};
use gateway_threshold::{PublicKeys, SignatureProfile, ThresholdError, Tweak};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::harness::{ED, Key, TR, verifies};

/// What `host/domain/vectors/payments_key.py` writes, which shares no code with this crate.
#[derive(Deserialize)]
struct Vector {
    signature_profile: SignatureProfile,
    key_id: String,
    group_key: String,
    public_key: String,
    chain_code: Option<String>,
    payments: Derived,
    path: Option<Vec<u32>>,
    child: Option<Derived>,
    merkle_root: Option<String>,
    output: Option<Derived>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Derived {
    point: String,
    public_key: String,
    tweak: String,
}

impl From<Derivation> for Derived {
    fn from(derivation: Derivation) -> Self {
        Self {
            point: hex::encode(derivation.point),
            public_key: hex::encode(derivation.public_key),
            tweak: hex::encode(derivation.tweak.as_bytes()),
        }
    }
}

fn bytes(hexadecimal: &str) -> [u8; 32] {
    hex::decode(hexadecimal).unwrap().try_into().unwrap()
}

/// Public keys with this group key, whose verifying shares are not used.
fn keys_of(profile: SignatureProfile, point: &[u8], chain_code: &[u8; 32]) -> PublicKeys {
    let code = if profile == TR { 2 } else { 1 };
    let share = |index: u8| [&[0, index], point].concat();
    let bytes = [&[1, code, 0, 2, 0, 2], point, &share(0), &share(1), chain_code].concat();
    PublicKeys::from_bytes(&bytes).unwrap()
}

#[test]
fn keys_for_payments_are_those_of_an_independent_implementation() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../domain/vectors/payments_key.json")).unwrap();
    let mut parities = BTreeSet::new();
    for vector in &vectors {
        let chain_code = vector.chain_code.as_deref().map_or([7; 32], bytes);
        let keys = keys_of(vector.signature_profile, &hex::decode(&vector.group_key).unwrap(), &chain_code);
        assert_eq!(hex::encode(keys.public_key()), vector.public_key);
        let payments = Derivation::of(&keys).unwrap().payments(&bytes(&vector.key_id)).unwrap();
        assert_eq!(Derived::from(payments.clone()), vector.payments);
        let Some((path, expected)) = vector.path.as_ref().zip(vector.child.as_ref()) else { continue };
        let child = payments.child(path).unwrap();
        let output = child.taproot(Some(&bytes(vector.merkle_root.as_ref().unwrap()))).unwrap();
        parities.insert((vector.group_key[..2].to_owned(), vector.payments.point[..2].to_owned()));
        assert_eq!(Derived::from(child), *expected);
        assert_eq!(Some(Derived::from(output)), vector.output);
    }
    assert_eq!(parities.len(), 4, "odd and even keys with odd and even keys for payments");
}

#[test]
fn key_for_payments_signs_for_every_profile_and_the_key_itself_does_not() {
    for profile in SignatureProfile::ALL {
        for seed in 0..6 {
            let key = Key::generate(profile, &[0, 1, 2], 2, seed);
            let own = Derivation::of(&key.keys).unwrap();
            let payments = own.payments(&[9; 32]).unwrap();
            let signature = key.sign(&[0, 2], b"pay", Some(payments.tweak), seed);
            assert!(verifies(profile, &payments.public_key, b"pay", &signature));
            assert!(!verifies(profile, &own.public_key, b"pay", &signature));
            let signature = key.sign(&[0, 2], b"pay", None, seed);
            assert!(!verifies(profile, &payments.public_key, b"pay", &signature));
        }
    }
}

/// Two keys with one public key but different ids, such as a key that was imported twice, have different keys for payments.
#[test]
fn key_for_payments_depends_on_the_id_and_not_on_the_shares() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let reshared = key.redistribute(&[0, 1], &[2, 3, 4], 3, 2);
        let of = |keys: &PublicKeys, id| Derivation::of(keys).unwrap().payments(&[id; 32]).unwrap();
        assert_eq!(of(&key.keys, 1), of(&reshared.keys, 1));
        assert_ne!(of(&key.keys, 1).public_key, of(&key.keys, 2).public_key);
    }
}

/// The child's point as the `bip32` crate derives it: 33 bytes, compressed.
fn reference(keys: &PublicKeys, path: &[u32]) -> [u8; 33] {
    let attrs = ExtendedKeyAttrs {
        depth: 0,
        parent_fingerprint: [0; 4],
        child_number: ChildNumber(0),
        chain_code: *keys.chain_code(),
    };
    let point = keys.verifying_key().try_into().unwrap();
    let root = XPub::new(PublicKey::from_bytes(point).unwrap(), attrs);
    let child = path.iter().fold(root, |node, index| node.derive_child(ChildNumber(*index)).unwrap());
    child.to_bytes()
}

#[test]
fn child_keys_equal_those_of_the_bip32_crate_and_sign() {
    const PATHS: [&[u32]; 4] = [&[0], &[0, 17], &[7, (1 << 31) - 1], &[1, 2, 3, 4, 5]];
    let mut parities = BTreeSet::new();
    for seed in 0..12 {
        let key = Key::generate(TR, &[0, 1, 2], 2, seed);
        for path in PATHS {
            let expected = reference(&key.keys, path);
            let child = derive(&key.keys, path).unwrap();
            assert_eq!((&child.public_key[..], &child.point[..]), (&expected[1..], &expected[..]));
            parities.insert((key.keys.verifying_key()[0], expected[0]));
            let signature = key.sign(&[1, 2], b"under the child", Some(child.tweak), seed);
            assert!(verifies(TR, &child.public_key, b"under the child", &signature));
            assert!(!verifies(TR, &key.keys.public_key(), b"under the child", &signature));
        }
    }
    assert_eq!(parities.len(), 4, "odd and even parents with odd and even children");
}

/// The test vectors of BIP-86: its account key, with the first two receiving keys and the first change key.
#[test]
fn taproot_output_keys_are_those_of_bip_86() {
    const ACCOUNT: &str = "xpub6BgBgsespWvERF3LHQu6CnqdvfEvtMcQjYrcRzx53QJjSxarj2afYWcLteoGVky7D3UKDP9QyrLprQ3VCECoY49yfdDEHGCtMMj92pReUsQ";
    let vectors = [
        ([0, 0], "a60869f0dbcf1dc659c9cecbaf8050135ea9e8cdc487053f1dc6880949dc684c"),
        ([0, 1], "a82f29944d65b86ae6b5e5cc75e294ead6c59391a1edc5e016e3498c67fc7bbb"),
        ([1, 0], "882d74e5d0572d5a816cef0041a96b6c1de832f6f9676d9605c44d5e9a97d3dc"),
    ];
    let account = XPub::from_str(ACCOUNT).unwrap();
    let (point, chain_code) = (account.to_bytes(), account.attrs().chain_code);
    let keys = keys_of(TR, &point, &chain_code);
    for (path, output_key) in vectors {
        let output = derive(&keys, &path).unwrap().taproot(None).unwrap();
        assert_eq!(hex::encode(output.public_key), output_key, "{path:?}");
    }
}

#[test]
fn taproot_output_keys_equal_those_of_libsecp256k1_and_sign() {
    let secp = secp256k1::Secp256k1::verification_only();
    let tag = Sha256::digest(b"TapTweak");
    let mut parities = BTreeSet::new();
    for seed in 0..12 {
        let key = Key::generate(TR, &[0, 1, 2], 2, seed);
        for (path, root) in
            [(&[][..], None), (&[3, 9], None), (&[3, 9], Some([7; 32])), (&[1], Some([0; 32]))]
        {
            let child = derive(&key.keys, path).unwrap();
            let output = child.taproot(root.as_ref()).unwrap();
            let tweak = Sha256::new().chain_update(tag).chain_update(tag).chain_update(child.public_key);
            let tweak = tweak.chain_update(root.as_ref().map_or(&[][..], |root| root)).finalize().into();
            let internal = secp256k1::XOnlyPublicKey::from_byte_array(child.public_key).unwrap();
            let tweak = secp256k1::Scalar::from_be_bytes(tweak).unwrap();
            let (expected, parity) = internal.add_tweak(&secp, &tweak).unwrap();
            assert_eq!(output.public_key, expected.serialize(), "{path:?}");
            parities.insert((child.point[0], parity.to_u8()));
            let signature = key.sign(&[0, 2], b"spend", Some(output.tweak), seed);
            assert!(verifies(TR, &output.public_key, b"spend", &signature));
            assert!(!verifies(TR, &child.public_key, b"spend", &signature));
        }
    }
    assert_eq!(parities.len(), 4, "odd and even internal keys with odd and even output keys");
}

#[test]
fn extended_public_key_has_the_children_that_sign() {
    let keys = Key::generate(TR, &[0, 1, 2], 2, 5).keys;
    let account = XPub::from_str(&extended_public_key(&keys, &[]).unwrap()).unwrap();
    let receiving = XPub::from_str(&extended_public_key(&keys, &[0]).unwrap()).unwrap();
    assert_eq!((account.attrs().depth, receiving.attrs().depth), (0, 1));
    let of_account = account.derive_child(ChildNumber(0)).unwrap().derive_child(ChildNumber(17)).unwrap();
    let of_receiving = receiving.derive_child(ChildNumber(17)).unwrap();
    let child = derive(&keys, &[0, 17]).unwrap();
    assert_eq!(
        (of_account.to_bytes().to_vec(), of_receiving.to_bytes().to_vec()),
        (child.point.clone(), child.point)
    );
    let ed25519 = Key::generate(ED, &[0, 1, 2], 2, 1).keys;
    let error = extended_public_key(&ed25519, &[]).unwrap_err();
    assert_eq!(error, ThresholdError::DerivationUnsupported { profile: ED });
}

#[test]
fn empty_path_is_the_key_itself() {
    let key = Key::generate(TR, &[0, 1, 2], 2, 1);
    let child = derive(&key.keys, &[]).unwrap();
    assert_eq!(child.public_key.as_slice(), key.keys.public_key());
    assert_eq!(child.tweak.as_bytes(), &[0; 32]);
    let signature = key.sign(&[0, 1], b"m", Some(child.tweak), 2);
    assert!(verifies(TR, &child.public_key, b"m", &signature));
}

#[test]
fn hardened_and_too_deep_paths_are_rejected() {
    let keys = Key::generate(TR, &[0, 1, 2], 2, 1).keys;
    for index in [1 << 31, u32::MAX] {
        let error = derive(&keys, &[0, index]).unwrap_err();
        assert_eq!(error, ThresholdError::HardenedIndex { index });
    }
    assert!(derive(&keys, &[0; 255]).is_ok());
    assert_eq!(derive(&keys, &[0; 256]).unwrap_err(), ThresholdError::PathTooDeep { indexes: 256 });
    let ed25519 = Key::generate(ED, &[0, 1, 2], 2, 1).keys;
    assert_eq!(derive(&ed25519, &[0]).unwrap_err(), ThresholdError::DerivationUnsupported { profile: ED });
    let taproot = Derivation::of(&ed25519).unwrap().taproot(None);
    assert_eq!(taproot.unwrap_err(), ThresholdError::DerivationUnsupported { profile: ED });
}

#[test]
fn tweak_not_below_the_group_order_is_rejected() {
    let orders = [
        (TR, "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 31),
        (ED, "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010", 0),
    ];
    for (profile, order, last_byte) in orders {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let order = bytes(order);
        let mut largest = order;
        largest[last_byte] -= 1;
        key.sign(&[0, 1], b"m", Some(Tweak::new(largest)), 1);
        let mut signing = key.commit(&[0, 1], b"m", Some(Tweak::new(order)), 1);
        let nonces = signing.nonces.remove(&0).unwrap();
        let error = nonces.sign(&signing.package, &key.shares[&0], &key.keys).unwrap_err();
        assert_eq!(error, ThresholdError::MalformedMaterial { what: "tweak" });
    }
}
