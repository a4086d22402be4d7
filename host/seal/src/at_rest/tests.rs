//! Attacks with the database but without the key.

use super::*;
use crate::limits::{MEMORY_KIB_MAX, MEMORY_KIB_MIN, PASSES_MAX, PASSES_MIN, SHARE_BYTES_MAX};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use zeroize::Zeroizing;

const SHARE: &[u8] = b"canary: a key share";
const ID: SecretId<'_> = SecretId { node: "node-0", key_id: "key-1", epoch: "e1", index: 0 };
const PASSPHRASE: &str = "correct horse battery staple";

fn kek(byte: u8) -> Kek {
    Kek::new(Zeroizing::new([byte; 32]))
}

#[test]
fn sealed_share_opens_to_the_same_bytes() {
    for bytes in [0, 1, 134, SHARE_BYTES_MAX] {
        let share = vec![5; bytes];
        let sealed = seal_share(&kek(1), &ID, &share).unwrap();
        assert_eq!(sealed.len(), bytes + 129);
        assert_eq!(*open_share(&kek(1), &ID, &sealed).unwrap(), share);
    }
    let bytes = SHARE_BYTES_MAX + 1;
    assert_eq!(seal_share(&kek(1), &ID, &vec![5; bytes]), Err(AtRestError::Oversize(bytes)));
}

#[test]
fn every_flipped_bit_of_a_row_is_detected() {
    let sealed = seal_share(&kek(1), &ID, SHARE).unwrap();
    for at in 0..sealed.len() {
        for bit in 0..8 {
            let mut other = sealed.clone();
            other[at] ^= 1 << bit;
            let error = open_share(&kek(1), &ID, &other).unwrap_err();
            let named = match at {
                0 => matches!(error, AtRestError::Version(_)),
                1..=16 => matches!(error, AtRestError::WrongKek { .. }),
                _ => error == AtRestError::AlteredOrMoved,
            };
            assert!(named, "bit {bit} of byte {at}: {error}");
        }
    }
    for bytes in 0..sealed.len() {
        assert!(open_share(&kek(1), &ID, &sealed[..bytes]).is_err(), "{bytes} bytes");
    }
    assert!(open_share(&kek(1), &ID, &[sealed.as_slice(), &[0]].concat()).is_err());
    assert_eq!(open_share(&kek(1), &ID, &[]), Err(AtRestError::Malformed));
}

#[test]
fn row_does_not_open_with_another_id() {
    let sealed = seal_share(&kek(1), &ID, SHARE).unwrap();
    let ids = [
        SecretId { node: "node-1", ..ID },
        SecretId { key_id: "key-2", ..ID },
        SecretId { epoch: "e2", ..ID },
        SecretId { index: 1, ..ID },
        // The same characters, split differently between the fields.
        SecretId { node: "node-0k", key_id: "ey-1", ..ID },
        SecretId { key_id: "key-1e", epoch: "1", ..ID },
    ];
    for id in ids {
        assert_eq!(open_share(&kek(1), &id, &sealed), Err(AtRestError::AlteredOrMoved), "{id:?}");
    }
}

/// Not even for the same id and key.
#[test]
fn halves_of_different_rows_do_not_combine() {
    let (one, two) = (seal_share(&kek(1), &ID, SHARE).unwrap(), seal_share(&kek(1), &ID, SHARE).unwrap());
    assert_ne!(one[17..41], two[17..41]);
    assert_ne!(one[89..113], two[89..113]);
    let mixed = [&one[..89], &two[89..]].concat();
    assert_eq!(open_share(&kek(1), &ID, &mixed), Err(AtRestError::AlteredOrMoved));
    // A whole row of another id.
    let elsewhere = seal_share(&kek(1), &SecretId { epoch: "e2", ..ID }, SHARE).unwrap();
    assert_eq!(open_share(&kek(1), &ID, &elsewhere), Err(AtRestError::AlteredOrMoved));
}

/// Tests the wrapping and the share separately: two rows with different ids have the same DEK.
#[test]
fn wrapping_and_share_are_both_bound_to_the_id() {
    let moved = SecretId { epoch: "e2", ..ID };
    let made = |id: &SecretId<'_>| {
        let fresh = Fresh { dek: Zeroizing::new([1; 32]), wrapping_nonce: [2; 24], share_nonce: [3; 24] };
        seal_from(&fresh, &kek(1), id, SHARE).unwrap()
    };
    let (here, there) = (made(&ID), made(&moved));
    let other_wrapping = [&there[..89], &here[89..]].concat();
    let other_share = [&here[..89], &there[89..]].concat();
    for row in [other_wrapping, other_share] {
        assert_eq!(open_share(&kek(1), &ID, &row), Err(AtRestError::AlteredOrMoved));
    }
}

#[test]
fn row_sealed_under_another_key_names_that_key() {
    let sealed = seal_share(&kek(1), &ID, SHARE).unwrap();
    let other = AtRestError::WrongKek { sealed: kek(1).id(), ours: kek(2).id() };
    assert_eq!(open_share(&kek(2), &ID, &sealed), Err(other));
    assert_eq!(kek(2).verify(&kek(1).check_value()), Err(other));
    assert_eq!(kek(1).verify(&kek(1).check_value()), Ok(()));
    let mut close = kek(1).check_value();
    close[31] ^= 1;
    assert!(kek(1).verify(&close).is_err());
    // A row that is sealed under another key but has our key's id.
    let mut claims = sealed;
    claims.splice(1..17, kek(2).id().0);
    assert_eq!(open_share(&kek(2), &ID, &claims), Err(AtRestError::AlteredOrMoved));
}

#[test]
fn rewrapped_row_opens_only_under_the_new_key() {
    let sealed = seal_share(&kek(1), &ID, SHARE).unwrap();
    let rewrapped = rewrap(&kek(1), &kek(2), &ID, &sealed).unwrap();
    assert_eq!(open_share(&kek(2), &ID, &rewrapped).unwrap().as_slice(), SHARE);
    assert!(matches!(open_share(&kek(1), &ID, &rewrapped), Err(AtRestError::WrongKek { .. })));
    assert_eq!(rewrapped[89..], sealed[89..]);
    assert_ne!(rewrapped[17..41], sealed[17..41]);
    let again = rewrap(&kek(1), &kek(2), &ID, &rewrapped);
    assert!(matches!(again, Err(AtRestError::WrongKek { .. })));
    let moved = rewrap(&kek(1), &kek(2), &SecretId { index: 1, ..ID }, &sealed);
    assert_eq!(moved, Err(AtRestError::AlteredOrMoved));
    let mut damaged = sealed;
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(rewrap(&kek(1), &kek(2), &ID, &damaged), Err(AtRestError::AlteredOrMoved));
}

#[test]
fn passphrase_and_stored_parameters_determine_the_key() {
    let stretching = Stretching::fresh().unwrap();
    assert_ne!(stretching, Stretching::fresh().unwrap());
    let stored = serde_json::to_string(&stretching).unwrap();
    let read: Stretching = serde_json::from_str(&stored).unwrap();
    let right = Kek::from_passphrase(PASSPHRASE, &stretching).unwrap();
    let sealed = seal_share(&right, &ID, SHARE).unwrap();
    let again = Kek::from_passphrase(PASSPHRASE, &read).unwrap();
    assert_eq!(open_share(&again, &ID, &sealed).unwrap().as_slice(), SHARE);
    let wrong = Kek::from_passphrase("correct horse battery stable", &stretching).unwrap();
    assert!(matches!(open_share(&wrong, &ID, &sealed), Err(AtRestError::WrongKek { .. })));
    assert!(wrong.verify(&right.check_value()).is_err());
}

#[test]
fn weak_passphrases_and_stretching_parameters_are_rejected() {
    let stretching = Stretching::fresh().unwrap();
    for bytes in [0, 11, 1025] {
        let error = Kek::from_passphrase(&"x".repeat(bytes), &stretching).unwrap_err().to_string();
        assert_eq!(error, format!("the passphrase has {bytes} bytes; it must have 12 to 1024"));
    }
    let written = serde_json::to_value(&stretching).unwrap();
    let check = |field: &str, value: Value| {
        let mut changed = written.clone();
        changed[field] = value;
        serde_json::from_value::<Stretching>(changed).is_ok()
    };
    assert!(check("memory_kib", json!(MEMORY_KIB_MIN)) && check("memory_kib", json!(MEMORY_KIB_MAX)));
    assert!(
        !check("memory_kib", json!(MEMORY_KIB_MIN - 1)) && !check("memory_kib", json!(MEMORY_KIB_MAX + 1))
    );
    assert!(check("passes", json!(PASSES_MIN)) && check("passes", json!(PASSES_MAX)));
    assert!(!check("passes", json!(PASSES_MIN - 1)) && !check("passes", json!(PASSES_MAX + 1)));
    assert!(!check("lanes", json!(2)) && !check("lanes", json!(0)));
    assert!(!check("function", json!("argon2i-1.3")));
    assert!(!check("salt", json!("00")) && !check("pepper", json!("00")));
}

#[test]
fn key_file_that_others_may_read_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kek");
    std::fs::write(&path, "01".repeat(32)).unwrap();
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o600);
    assert_eq!(Kek::from_file(&path).unwrap().id(), kek(1).id());
    mode(0o640);
    let line = format!("the file `{}` has mode 0640; it must be 0600 or 0400, or", path.display());
    assert!(Kek::from_file(&path).unwrap_err().to_string().starts_with(&line));
}

#[test]
fn debug_output_and_rows_contain_no_secret() {
    let sealed = seal_share(&kek(1), &ID, SHARE).unwrap();
    assert!(sealed.windows(6).all(|part| SHARE.windows(6).all(|secret| part != secret)));
    assert!(sealed.windows(6).all(|part| part != [1; 6]), "the row contains the KEK");
    assert_eq!(format!("{:?}", kek(1)), format!("Kek {{ id: {}, .. }}", kek(1).id()));
    assert!(!format!("{:?}", kek(1)).contains("0101"));
}

/// A change here makes stored rows unreadable.
#[test]
fn formats_are_pinned() {
    let pinned: Value = serde_json::from_str(include_str!("../../vectors/formats.json")).unwrap();
    let written = &pinned["at_rest"]["stretching"];
    let stretching: Stretching = serde_json::from_value(written.clone()).unwrap();
    let fresh = Fresh { dek: Zeroizing::new([1; 32]), wrapping_nonce: [2; 24], share_nonce: [3; 24] };
    let made = json!({
        "check_value": hex::encode(kek(1).check_value()),
        "kek_id": kek(1).id().to_string(),
        "sealed_share": hex::encode(seal_from(&fresh, &kek(1), &ID, SHARE).unwrap()),
        "stretching": stretching,
        "passphrase_check_value": hex::encode(Kek::from_passphrase(PASSPHRASE, &stretching).unwrap().check_value()),
    });
    assert_eq!(made, pinned["at_rest"], "{made:#}");
    let row = hex::decode(pinned["at_rest"]["sealed_share"].as_str().unwrap()).unwrap();
    assert_eq!(open_share(&kek(1), &ID, &row).unwrap().as_slice(), SHARE);
}
