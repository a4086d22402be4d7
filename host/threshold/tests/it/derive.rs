//! Child keys, compared with the `bip32` crate, Taproot output keys, compared with libsecp256k1, and signatures under both.

use std::collections::BTreeSet;
use std::str::FromStr;

use bip32::{ChildNumber, ExtendedKeyAttrs, PublicKey, XPub};
use gateway_threshold::derive::{derive, extended_public_key};
use gateway_threshold::{PublicKeys, ThresholdError, Tweak};
use sha2::{Digest, Sha256};

use crate::harness::{ED, Key, TR, verifies};

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
            assert_eq!((&child.public_key[..], child.point), (&expected[1..], expected));
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
    let share = |index: u8| [&[0, index], &point[..]].concat();
    let bytes = [&[1, 2, 0, 2, 0, 2], &point[..], &share(0), &share(1), &chain_code].concat();
    let keys = PublicKeys::from_bytes(&bytes).unwrap();
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
    assert_eq!((of_account.to_bytes(), of_receiving.to_bytes()), (child.point, child.point));
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
}

#[test]
fn tweak_not_below_the_group_order_is_rejected() {
    let order = hex::decode("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141").unwrap();
    let order: [u8; 32] = order.try_into().unwrap();
    let mut largest = order;
    largest[31] -= 1;
    assert_eq!(Tweak::from_bytes(largest).unwrap().as_bytes(), &largest);
    assert_eq!(Tweak::from_bytes(order).unwrap_err(), ThresholdError::MalformedMaterial { what: "tweak" });
}
