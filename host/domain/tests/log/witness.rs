//! Cosignatures of witnesses, compared with one that another implementation made, and the lies that a witness can tell.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::ids::Hex32;
use gateway_domain::log::checkpoint::SignedCheckpointError;
use gateway_domain::log::note::{NoteError, VerifierKeyError};
use gateway_domain::log::witness::{
    ANSWER_BYTES_MAX, AnswerError, CLOCK_SKEW_SECONDS_MAX, Cosignature, RequestError, WitnessesError,
    add_checkpoint, conflict_size,
};
use gateway_domain::log::{LogStanding, SignedCheckpoint, VerifierKey, WitnessKey, Witnesses, empty_root};
use proptest::prelude::*;

// Made with the Python package `cryptography`: Ed25519 seeds of 32 times 1 (log) and 2 (witness), time 1700000000.
const LOG: &str = "example.com/log+9be5d3c6+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
const WITNESS: &str = "witness.example/w1+df1c0a35+BIE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU";
const NAME: &str = "witness.example/w1";
const CHECKPOINT: &str = "example.com/log\n3\nBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\n\n\
    \u{2014} example.com/log m+XTxqsK69OQMqcDmEDXLHGledo9TfDB9Y/sY5l1opMsIjf9UCVB6tCGk7kFEvhMsiJ1SOiMV9He6LK11Afx5ME7Ogw=\n";
const COSIGNATURE: &str = "\u{2014} witness.example/w1 3xwKNQAAAABlU/EAc9/zmRcbSSOjK897KQVCykr/y+CWRhvF/huP/BhdmUahUAUTH5HhFZ630T4uXOMNiSJbsjn5CJbGPFBhHg2cAQ==\n";
const NOW: u64 = 1_700_000_000;

fn checkpoint() -> SignedCheckpoint {
    CHECKPOINT.parse().unwrap()
}

fn witness() -> WitnessKey {
    WITNESS.parse().unwrap()
}

fn witnesses(threshold: usize) -> Witnesses {
    Witnesses::new(&[WITNESS.to_owned()], threshold).unwrap()
}

fn log() -> [VerifierKey; 1] {
    [LOG.parse().unwrap()]
}

/// A line that names the witness, with a cosignature by the key `seed` over `text`.
fn line(seed: u8, time_seconds: u64, text: &str) -> String {
    let message = format!("cosignature/v1\ntime {time_seconds}\n{text}");
    let signature = SigningKey::from_bytes(&[seed; 32]).sign(message.as_bytes()).to_bytes();
    let bytes = [hex::decode("df1c0a35").unwrap(), time_seconds.to_be_bytes().to_vec(), signature.to_vec()];
    format!("\u{2014} {NAME} {}\n", STANDARD.encode(bytes.concat()))
}

fn body() -> String {
    checkpoint().unverified().to_string()
}

fn answer(text: &str) -> Result<SignedCheckpoint, AnswerError> {
    checkpoint().with_answer(text, &witness(), NOW)
}

#[test]
fn cosignature_of_another_implementation_verifies_and_is_written_back() {
    let witnessed = answer(COSIGNATURE).unwrap();
    assert_eq!(witnessed.to_string(), format!("{CHECKPOINT}{COSIGNATURE}"));
    let found = Cosignature { witness: NAME.parse().unwrap(), time_seconds: NOW };
    assert_eq!(witnessed.cosignatures(&witnesses(1)), Ok(vec![found]));
    assert_eq!(checkpoint().cosignatures(&witnesses(1)), Ok(vec![]));
    assert_eq!(witness().to_string(), WITNESS);
    assert_eq!(line(2, NOW, &body()), COSIGNATURE);
    // The log's own signature still verifies, and readers that do not know the witness ignore its line.
    assert!(witnessed.verify(&log()).is_ok());
}

#[test]
fn second_cosignature_replaces_the_first_and_no_other_line_is_kept() {
    let other = COSIGNATURE.replace(NAME, "other.example/w2");
    let witnessed = answer(&format!("{other}{COSIGNATURE}")).unwrap();
    assert_eq!(witnessed.to_string(), format!("{CHECKPOINT}{COSIGNATURE}"));
    let later = line(2, NOW + 1, &body());
    let again = witnessed.with_answer(&later, &witness(), NOW).unwrap();
    assert_eq!(again.to_string(), format!("{CHECKPOINT}{later}"));
}

#[test]
fn lies_of_a_witness_are_rejected() {
    let name = || NAME.parse().unwrap();
    let body = body();
    let other_body = body.replacen("\n3\n", "\n4\n", 1);
    let at = |time| line(2, time, &body);
    let edge = CLOCK_SKEW_SECONDS_MAX;
    let dated = |time_seconds| Err(AnswerError::Time { time_seconds, now_seconds: NOW });
    assert_eq!(answer(&line(3, NOW, &body)), Err(AnswerError::BadCosignature(name())), "wrong key");
    assert_eq!(answer(&line(2, NOW, &other_body)), Err(AnswerError::BadCosignature(name())), "other body");
    assert!(answer(&at(NOW - edge)).is_ok() && answer(&at(NOW + edge)).is_ok());
    assert_eq!(answer(&at(NOW - edge - 1)), dated(NOW - edge - 1), "old");
    assert_eq!(answer(&at(NOW + edge + 1)), dated(NOW + edge + 1), "future");
    assert_eq!(answer(&at(u64::MAX)), Err(AnswerError::BadCosignature(name())), "above 2^63 - 1");
    let other_name = COSIGNATURE.replace(NAME, "other.example/w2");
    assert_eq!(answer(&other_name), Err(AnswerError::NoCosignature(name())), "other name");
    for text in ["", "\n", "<html>\n", COSIGNATURE.trim_end(), &format!("\n{COSIGNATURE}")] {
        assert_eq!(answer(text), Err(AnswerError::NotLines), "{text:?}");
    }
    let huge = COSIGNATURE.repeat(ANSWER_BYTES_MAX / COSIGNATURE.len() + 1);
    assert_eq!(answer(&huge), Err(AnswerError::TooLong));
}

#[test]
fn wrong_line_of_a_known_witness_in_a_checkpoint_is_an_error() {
    let forged: SignedCheckpoint = format!("{CHECKPOINT}{}", line(3, NOW, &body())).parse().unwrap();
    assert_eq!(forged.cosignatures(&witnesses(1)), Err(NoteError::BadSignature(NAME.parse().unwrap())));
    assert_eq!(forged.cosignatures(&Witnesses::default()), Ok(vec![]));
}

#[test]
fn contradictory_witnesses_are_rejected() {
    let new = |keys: &[&str], threshold| {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        Witnesses::new(&keys, threshold).map(|witnesses| witnesses.threshold())
    };
    assert_eq!(new(&[WITNESS], 1), Ok(1));
    assert_eq!(new(&[WITNESS], 2), Err(WitnessesError::Threshold { threshold: 2, witnesses: 1 }));
    assert_eq!(new(&[WITNESS, WITNESS], 2), Err(WitnessesError::Duplicate(NAME.parse().unwrap())));
    // The key of `WITNESS` under another name, with the id that belongs to it.
    let renamed = "witness.example/w2+92e6b37c+BIE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU";
    let name = "witness.example/w2".parse().unwrap();
    assert_eq!(new(&[WITNESS, renamed], 2), Err(WitnessesError::Duplicate(name)));
    assert_eq!(LOG.parse::<WitnessKey>(), Err(VerifierKeyError::NotAWitness(1)));
    assert_eq!(WITNESS.parse::<VerifierKey>(), Err(VerifierKeyError::Type(4)));
    let other_id = WITNESS.replace("df1c0a35", "df1c0a36");
    assert_eq!(other_id.parse::<WitnessKey>(), Err(VerifierKeyError::OtherId));
}

#[test]
fn request_has_the_old_size_the_proof_and_the_checkpoint() {
    let hash = Hex32::new([7; 32]);
    let line = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\n";
    let request = |old, n_hashes| add_checkpoint(old, &vec![hash; n_hashes], &checkpoint());
    assert_eq!(request(0, 0), Ok(format!("old 0\n\n{CHECKPOINT}")));
    assert_eq!(request(3, 0), Ok(format!("old 3\n\n{CHECKPOINT}")));
    assert_eq!(request(2, 2), Ok(format!("old 2\n{line}{line}\n{CHECKPOINT}")));
    assert_eq!(request(4, 0), Err(RequestError::Sizes { old: 4, size: 3 }));
    for (old, n_hashes) in [(0, 1), (3, 1), (2, 0), (2, 64)] {
        assert_eq!(request(old, n_hashes), Err(RequestError::Proof(n_hashes)));
    }
}

#[test]
fn conflict_size_is_one_plain_number() {
    assert_eq!(conflict_size("0\n"), Some(0));
    assert_eq!(conflict_size("18446744073709551615\n"), Some(u64::MAX));
    for text in ["", "\n", "7", "07\n", "+7\n", "-1\n", "7 \n", "7\r\n", "7\n7\n", "18446744073709551616\n"] {
        assert_eq!(conflict_size(text), None, "{text:?}");
    }
}

#[test]
fn only_a_checkpoint_by_the_logs_own_key_proves_that_the_log_went_back() {
    let root = Hex32::new([7; 32]);
    let of = |ours, at| LogStanding::of(ours, at, &checkpoint(), &log());
    assert_eq!(of(3, Some(root)), Ok(LogStanding::Consistent));
    assert_eq!(of(9, Some(root)), Ok(LogStanding::Consistent));
    assert_eq!(of(2, None), Ok(LogStanding::Behind { ours: 2, signed: 3 }));
    assert_eq!(of(9, Some(Hex32::ZERO)), Ok(LogStanding::Forked { size: 3 }));
    assert_eq!(of(9, None), Ok(LogStanding::Forked { size: 3 }));
    // A witness, or anyone else, can write a larger checkpoint, but cannot sign it.
    let forged: SignedCheckpoint = CHECKPOINT.replacen("\n3\n", "\n99\n", 1).parse().unwrap();
    let refused = LogStanding::of(3, None, &forged, &log());
    assert!(matches!(refused, Err(SignedCheckpointError::Note(NoteError::BadSignature(_)))), "{refused:?}");

    let key = &log()[0];
    let sign = |text: &[u8]| Ok::<_, ()>(SigningKey::from_bytes(&[1; 32]).sign(text).to_bytes());
    let empty = SignedCheckpoint::sign(key, 0, empty_root(), sign).unwrap();
    assert_eq!(LogStanding::of(5, None, &empty, &log()), Ok(LogStanding::Consistent));
}

proptest! {
    #[test]
    fn no_altered_byte_of_a_cosignature_verifies(index in 0..72_usize, bit in 0..8_u8) {
        let encoded = COSIGNATURE.trim_end().rsplit(' ').next().unwrap();
        let mut bytes = STANDARD.decode(encoded).unwrap();
        // The first four bytes are the key id.
        bytes[4 + index] ^= 1 << bit;
        let altered = format!("\u{2014} {NAME} {}\n", STANDARD.encode(bytes));
        prop_assert_eq!(answer(&altered), Err(AnswerError::BadCosignature(NAME.parse().unwrap())));
    }

    #[test]
    fn any_answer_is_rejected_or_leaves_a_checkpoint_that_verifies(text in ".{0,200}") {
        if let Ok(witnessed) = answer(&text) {
            prop_assert_eq!(witnessed.cosignatures(&witnesses(1)).unwrap().len(), 1);
        }
    }
}
