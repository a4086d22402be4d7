//! Signing among honest signers.

use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::CompressedEdwardsY;
use gateway_threshold::SignatureProfile;
use gateway_threshold::sign::{self, SigningPackage};
use gateway_threshold::{ThresholdError, Tweak};

use crate::harness::{ED, Key, TR, verifies};

#[test]
fn messages_of_any_length_are_signed() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        for length in [0, 1, 32, 33, 1000] {
            let message = vec![0xa5; length];
            let signature = key.sign(&[0, 2], &message, None, 2);
            assert!(verifies(profile, &key.keys.public_key(), &message, &signature), "{length} bytes");
        }
    }
}

#[test]
fn fresh_nonces_give_different_signatures() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        assert_ne!(key.sign(&[0, 1], b"m", None, 2), key.sign(&[0, 1], b"m", None, 3));
        // With repeated random bytes, the hedge still gives each signer different nonces.
        let commit = |signer| sign::commit(&key.shares[&signer], &mut crate::harness::rng(4)).unwrap().1;
        assert_ne!(commit(0), commit(1));
    }
}

/// Packages that differ in any field have different hashes.
#[test]
fn package_hash_covers_every_field() {
    let key = Key::generate(TR, &[0, 1, 2, 3], 2, 1);
    let package = key.commit(&[0, 1], b"message", None, 2).package;
    let changed = |change: &dyn Fn(&mut SigningPackage)| {
        let mut other = package.clone();
        change(&mut other);
        other.hash()
    };
    let tweak = |byte| Some(Tweak::new([byte; 32]));
    let hashes = [
        package.hash(),
        changed(&|p| p.message.push(0)),
        changed(&|p| p.message.clear()),
        changed(&|p| p.tweak = tweak(0)),
        changed(&|p| p.tweak = tweak(1)),
        changed(&|p| _ = p.commitments.remove(&1)),
        changed(&|p| p.commitments.get_mut(&1).unwrap()[5] ^= 1),
        changed(&|p| {
            let moved = p.commitments.remove(&1).unwrap();
            p.commitments.insert(2, moved);
        }),
        changed(&|p| {
            // A byte moved from one field to the next.
            let byte = p.commitments.get_mut(&0).unwrap().pop().unwrap();
            p.commitments.get_mut(&1).unwrap().insert(0, byte);
        }),
    ];
    let different: std::collections::BTreeSet<_> = hashes.iter().collect();
    assert_eq!(different.len(), hashes.len());
    assert_eq!(package.hash(), package.clone().hash());
}

#[test]
fn altered_signatures_and_malformed_keys_are_rejected() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let public_key = key.keys.public_key();
        let signature = key.sign(&[0, 1], b"m", None, 2);
        for byte in 0..64 {
            let mut other = signature;
            other[byte] ^= 1;
            assert!(!verifies(profile, &public_key, b"m", &other), "byte {byte}");
        }
        let short = sign::verify(profile, &public_key, b"m", &signature[..63]);
        assert_eq!(short, Err(ThresholdError::InvalidSignature));
        let long = sign::verify(profile, &public_key, b"m", &[signature.as_slice(), &[0]].concat());
        assert_eq!(long, Err(ThresholdError::InvalidSignature));
        for key in [&public_key[..31], &[0xff; 32]] {
            let error = sign::verify(profile, key, b"m", &signature).unwrap_err();
            assert_eq!(error, ThresholdError::MalformedMaterial { what: "public key" });
        }
    }
}

/// Lax Ed25519 verifiers accept `S + L`.
#[test]
fn malleated_ed25519_signature_is_rejected() {
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let key = Key::generate(ED, &[0, 1], 2, 1);
    let mut signature = key.sign(&[0, 1], b"m", None, 2);
    let mut carry = 0;
    for (byte, order) in signature[32..].iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        *byte = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
    assert_eq!(carry, 0);
    assert!(!verifies(ED, &key.keys.public_key(), b"m", &signature));
}

/// Lax verifiers may accept keys that differ only by one of the eight torsion points.
#[test]
fn ed25519_key_with_a_torsion_component_is_rejected() {
    let key = Key::generate(ED, &[0, 1], 2, 1);
    let signature = key.sign(&[0, 1], b"m", None, 2);
    let point = CompressedEdwardsY(key.keys.public_key().try_into().unwrap()).decompress().unwrap();
    for torsion in EIGHT_TORSION {
        for (public_key, good) in [(point + torsion, torsion == EIGHT_TORSION[0]), (torsion, false)] {
            let verified = sign::verify(ED, public_key.compress().as_bytes(), b"m", &signature);
            let refused = Err(ThresholdError::MalformedMaterial { what: "public key" });
            assert_eq!(verified, if good { Ok(()) } else { refused });
        }
    }
}
