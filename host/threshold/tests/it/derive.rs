//! Child keys, compared with the `bip32` crate, and signatures under them.

use bip32::{ChildNumber, ExtendedKeyAttrs, PublicKey, XPub};
use gateway_threshold::derive::derive;
use gateway_threshold::{PublicKeys, ThresholdError, Tweak};

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
    let mut parities = std::collections::BTreeSet::new();
    for seed in 0..12 {
        let key = Key::generate(TR, &[0, 1, 2], 2, seed);
        for path in PATHS {
            let expected = reference(&key.keys, path);
            let child = derive(&key.keys, path).unwrap();
            assert_eq!(child.public_key, expected[1..]);
            parities.insert((key.keys.verifying_key()[0], expected[0]));
            let signature = key.sign(&[1, 2], b"under the child", Some(child.tweak), seed);
            assert!(verifies(TR, &child.public_key, b"under the child", &signature));
            assert!(!verifies(TR, &key.keys.public_key(), b"under the child", &signature));
        }
    }
    assert_eq!(parities.len(), 4, "odd and even parents with odd and even children");
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
