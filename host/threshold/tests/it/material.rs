//! Encodings of keys and shares, and the secrecy of types with secrets.

use gateway_threshold::keygen;
use gateway_threshold::sign::{self, Nonces};
use gateway_threshold::{KeyShare, Message, Output, PublicKeys, Session, SignatureProfile, ThresholdError};
use serde_json::Value;

use crate::harness::{ED, Key, TR, every_protocol, params, rng, secret};

const MALFORMED_KEYS: ThresholdError = ThresholdError::MalformedMaterial { what: "public keys" };
const MALFORMED_SHARE: ThresholdError = ThresholdError::MalformedMaterial { what: "key share" };

#[test]
fn profile_names_are_stable() {
    assert_eq!(ED.to_string(), "frost-ed25519-sha512");
    assert_eq!(TR.to_string(), "frost-secp256k1-sha256-tr");
    for profile in SignatureProfile::ALL {
        assert_eq!(profile.to_string().parse(), Ok(profile));
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(json, format!("\"{profile}\""));
        assert_eq!(serde_json::from_str::<SignatureProfile>(&json).unwrap(), profile);
    }
    for name in ["", "FROST-ED25519-SHA512", "frost-ed25519-sha512 ", "ed25519"] {
        let unknown = name.parse::<SignatureProfile>().unwrap_err();
        assert_eq!(unknown.to_string(), format!("`{name}` is not a signature profile"));
    }
}

#[test]
fn public_keys_round_trip_through_bytes_and_json() {
    for profile in SignatureProfile::ALL {
        let keys = Key::generate(profile, &[0, 5, 300], 2, 1).keys;
        assert_eq!(PublicKeys::from_bytes(&keys.to_bytes()).unwrap(), keys);
        let json = serde_json::to_string(&keys).unwrap();
        assert_eq!(serde_json::from_str::<PublicKeys>(&json).unwrap(), keys);
        assert_eq!(keys.public_key().len(), 32);
        assert_eq!((keys.profile(), keys.threshold()), (profile, 2));
    }
}

#[test]
fn only_the_canonical_encoding_of_public_keys_is_accepted() {
    for profile in SignatureProfile::ALL {
        let keys = Key::generate(profile, &[0, 5, 300], 2, 1).keys;
        let bytes = keys.to_bytes();
        let changed = |at: usize, to: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + to.len()].copy_from_slice(to);
            PublicKeys::from_bytes(&bytes).unwrap_err()
        };
        for length in 0..bytes.len() {
            assert_eq!(
                PublicKeys::from_bytes(&bytes[..length]).unwrap_err(),
                MALFORMED_KEYS,
                "{length} bytes"
            );
        }
        assert_eq!(PublicKeys::from_bytes(&[bytes.as_slice(), &[0]].concat()).unwrap_err(), MALFORMED_KEYS);
        assert_eq!(changed(0, &[2]), MALFORMED_KEYS);
        assert_eq!(changed(1, &[3]), MALFORMED_KEYS);
        assert_eq!(changed(2, &[0, 1]), ThresholdError::Threshold { threshold: 1, participants: 3 });
        assert_eq!(changed(2, &[0, 4]), ThresholdError::Threshold { threshold: 4, participants: 3 });
        let point = keys.verifying_key().len();
        assert_eq!(changed(6, &vec![0xff; point]), MALFORMED_KEYS);
        assert_eq!(changed(6 + point + 2, &vec![0xff; point]), MALFORMED_KEYS);
        // Indexes out of order, or duplicate.
        assert_eq!(changed(6 + point, &[0, 9]), MALFORMED_KEYS);
        assert_eq!(changed(6 + point, &[0, 5]), MALFORMED_KEYS);
        if profile == TR {
            assert_eq!(changed(6, &[0x05]), MALFORMED_KEYS);
            assert_eq!(changed(6 + point + 2, &[0x05]), MALFORMED_KEYS);
        }
    }
}

#[test]
fn malformed_json_public_keys_are_rejected() {
    let keys = Key::generate(TR, &[0, 1, 2], 2, 1).keys;
    let good = serde_json::to_value(&keys).unwrap();
    let refuse = |change: &dyn Fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        assert!(serde_json::from_value::<PublicKeys>(value).is_err());
    };
    refuse(&|value| value["threshold"] = 4.into());
    refuse(&|value| value["threshold"] = 1.into());
    refuse(&|value| value["profile"] = "frost-ed25519-sha512".into());
    refuse(&|value| value["verifying_key"] = "zz".into());
    refuse(&|value| value["chain_code"] = "00".into());
    refuse(&|value| value["verifying_shares"]["1"] = "02".into());
    refuse(&|value| value["more"] = 1.into());
    refuse(&|value| _ = value.as_object_mut().unwrap().remove("chain_code"));
}

#[test]
fn key_shares_round_trip_through_secret_bytes() {
    for profile in SignatureProfile::ALL {
        let mut key = Key::generate(profile, &[0, 5, 300], 2, 1);
        for share in key.shares.values_mut() {
            let bytes = share.to_secret_bytes();
            *share = KeyShare::from_secret_bytes(profile, &bytes).unwrap();
            assert_eq!(share.to_secret_bytes(), bytes);
            share.check_belongs(&key.keys).unwrap();
        }
        let owners: Vec<_> =
            key.shares.values().map(|share| (share.profile(), share.participant())).collect();
        assert_eq!(owners, [(profile, 0), (profile, 5), (profile, 300)]);
        let signature = key.sign(&[5, 300], b"m", None, 2);
        assert!(crate::harness::verifies(profile, &key.keys.public_key(), b"m", &signature));
    }
}

#[test]
fn only_the_canonical_encoding_of_a_key_share_is_accepted() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let bytes = key.shares[&0].to_secret_bytes();
        let read = |bytes: &[u8]| KeyShare::from_secret_bytes(profile, bytes).map(drop).unwrap_err();
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), MALFORMED_SHARE);
        }
        assert_eq!(read(&[bytes.as_slice(), &[0]].concat()), MALFORMED_SHARE);
        let changed = |at: usize, to: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[at..at + to.len()].copy_from_slice(to);
            read(&bytes)
        };
        assert_eq!(changed(0, &[2]), MALFORMED_SHARE);
        assert_eq!(changed(1, &[0]), MALFORMED_SHARE);
        assert_eq!(changed(4, &[0, 1]), MALFORMED_SHARE);
        assert_eq!(changed(6, &[0; 32]), MALFORMED_SHARE);
        assert_eq!(changed(6, &[0xff; 32]), MALFORMED_SHARE);
        assert_eq!(changed(38, &vec![0xff; key.keys.verifying_key().len()]), MALFORMED_SHARE);
        let other = if profile == ED { TR } else { ED };
        let mismatch = ThresholdError::ProfileMismatch { expected: other, actual: profile };
        assert_eq!(KeyShare::from_secret_bytes(other, &bytes).map(drop).unwrap_err(), mismatch);
    }
}

/// A share with a changed secret, participant or threshold has the same group key, like a share of another epoch.
#[test]
fn share_of_another_epoch_does_not_belong_to_the_public_keys() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let low = if profile == ED { 6 } else { 6 + 31 };
        for (at, participant) in [(low, 0), (3, 1), (5, 0)] {
            let mut bytes = key.shares[&0].to_secret_bytes();
            bytes[at] ^= 1;
            let share = KeyShare::from_secret_bytes(profile, &bytes).unwrap();
            let error = share.check_belongs(&key.keys).unwrap_err();
            assert_eq!(error, ThresholdError::ShareMismatch { participant });
        }
        let mut bytes = key.shares[&0].to_secret_bytes();
        let other_key = Key::generate(profile, &[0, 1, 2], 2, 2).keys;
        bytes[38..].copy_from_slice(other_key.verifying_key());
        let share = KeyShare::from_secret_bytes(profile, &bytes).unwrap();
        assert!(share.check_belongs(&key.keys).is_err() && share.check_belongs(&other_key).is_err());
    }
}

#[test]
fn debug_output_contains_no_secret() {
    let assert_hidden = |shown: &str, secret: &[u8]| {
        assert!(!shown.contains(&hex::encode(secret)), "{shown}");
        assert!(!shown.contains(format!("{secret:?}").trim_matches(['[', ']'])), "{shown}");
    };
    for profile in SignatureProfile::ALL {
        for mut network in every_protocol(profile) {
            network.run(|flight| {
                assert_hidden(
                    &format!("{:?}", flight.message),
                    &flight.message.body[crate::harness::BINDING..],
                );
                true
            });
            let sessions = format!("{:?}", network.sessions);
            let output = format!("{:?}", network.outputs);
            assert!(output.contains("<redacted>") && sessions.contains("Session"));
            for share in network.key().shares.values() {
                for shown in [&output, &sessions, &format!("{share:?}")] {
                    assert_hidden(shown, &secret(share));
                }
            }
        }
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let (nonces, _) = sign::commit(&key.shares[&0], &mut rng(1)).unwrap();
        assert_eq!(format!("{nonces:?}"), "Nonces(<redacted>)");
    }
}

/// Compiles only if `T` does not implement the trait: otherwise two candidate impls make the call ambiguous.
macro_rules! assert_not {
    ($($T:ty),+ : $Trait:path) => {{
        trait Probe<Marker> {
            fn probe() {}
        }
        impl<T: ?Sized> Probe<()> for T {}
        impl<T: ?Sized + $Trait> Probe<u8> for T {}
        $(<$T as Probe<_>>::probe();)+
    }};
}

#[test]
fn secrets_are_neither_clone_nor_serialize() {
    assert_not!(KeyShare, Nonces, Message, Session, Output: Clone);
    assert_not!(KeyShare, Nonces, Message, Session, Output: serde::Serialize);
}

#[test]
fn sessions_and_nonces_are_send_and_sync() {
    fn assert_send_sync<T: Send + Sync>(_: &T) {}
    let (session, _) = keygen::start(params(ED, 0, &[0, 1], 2), &mut rng(1)).unwrap();
    assert_send_sync(&session);
    let key = Key::generate(TR, &[0, 1], 2, 1);
    assert_send_sync(&sign::commit(&key.shares[&0], &mut rng(1)).unwrap().0);
    assert_send_sync(&key.shares[&0]);
}
