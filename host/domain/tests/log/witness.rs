//! Cosignatures of witnesses, compared with one that another implementation made, and the lies that a witness can tell.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::ids::Hex32;
use gateway_domain::log::checkpoint::SignedCheckpointError;
use gateway_domain::log::note::{NoteError, VerifierKeyError};
use gateway_domain::log::witness::{
    ANSWER_BYTES_MAX, AnswerError, CLOCK_SKEW_SECONDS_MAX, Cosignature, RequestError, add_checkpoint,
    conflict_size,
};
use gateway_domain::log::witness_policy::{LineFault, Names, QuorumError, WITNESSES_MAX, WitnessPolicyError};
use gateway_domain::log::{
    LogStanding, SignedCheckpoint, VerifierKey, WitnessKey, WitnessPolicy, empty_root,
};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

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

fn policy(text: &str) -> Result<WitnessPolicy, WitnessPolicyError> {
    text.parse()
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
    assert_eq!(witnessed.cosignatures(&[witness()]), Ok(vec![found]));
    assert_eq!(checkpoint().cosignatures(&[witness()]), Ok(vec![]));
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
    assert_eq!(forged.cosignatures(&[witness()]), Err(NoteError::BadSignature(NAME.parse().unwrap())));
    assert_eq!(forged.cosignatures(&[]), Ok(vec![]));
}

/// The key of `WITNESS` under another name, with the id that belongs to it.
const RENAMED: &str = "witness.example/w2+92e6b37c+BIE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU";

/// Another witness: the seed is 32 times `seed`.
fn other_key(seed: u8) -> String {
    let key = SigningKey::from_bytes(&[seed; 32]).verifying_key().to_bytes();
    let (name, typed) = (format!("witness.example/{seed}"), [&[4][..], &key].concat());
    let id = Sha256::new().chain_update(&name).chain_update(b"\n").chain_update(&typed).finalize();
    format!("{name}+{}+{}", hex::encode(&id[..4]), STANDARD.encode(typed))
}

#[test]
fn keys_of_logs_and_witnesses_are_not_confused() {
    assert_eq!(LOG.parse::<WitnessKey>(), Err(VerifierKeyError::NotAWitness(1)));
    assert_eq!(WITNESS.parse::<VerifierKey>(), Err(VerifierKeyError::Type(4)));
    let other_id = WITNESS.replace("df1c0a35", "df1c0a36");
    assert_eq!(other_id.parse::<WitnessKey>(), Err(VerifierKeyError::OtherId));
}

#[test]
fn policy_names_witnesses_and_the_quorum() {
    let (two, three) = (other_key(5), other_key(6));
    let witnesses = format!("witness a {WITNESS} https://a.example/w\nwitness b {two}\nwitness c {three}\n");
    let read = |rest: &str| policy(&format!("{witnesses}{rest}")).unwrap();
    for (rest, threshold, counting) in [
        ("quorum none", 0, ""),
        ("quorum b\n", 1, "b"),
        ("group g 2 a b\nquorum g\n", 2, "ab"),
        ("  group\tg any  a b c \n\n # all of them\nquorum g", 1, "abc"),
        ("group g all c b a\nquorum g", 3, "abc"),
        ("group g all c b a\nquorum a", 1, "a"),
    ] {
        let policy = read(rest);
        let counts: String =
            policy.witnesses().iter().filter(|one| one.counts).map(|one| &*one.name).collect();
        assert_eq!((policy.threshold(), counts.as_str()), (threshold, counting), "{rest}");
    }
    let none = read("quorum none");
    let witness = &none.witnesses()[0];
    assert_eq!(
        (witness.url.as_deref(), witness.key.to_string()),
        (Some("https://a.example/w"), WITNESS.to_owned())
    );
    assert_eq!(policy("quorum none").unwrap().witnesses(), []);
}

#[test]
fn wrong_policy_is_an_error_that_names_the_line() {
    let two = other_key(5);
    let both = format!("witness a {WITNESS}\nwitness b {two}\n");
    let at = |line, fault| Err(WitnessPolicyError::Line { line, fault });
    let name = |name: &str| LineFault::Name(name.to_owned());
    let unknown = |name: &str| LineFault::Unknown(name.to_owned());
    let threshold = |text: &str, members| LineFault::Threshold { text: text.to_owned(), members };
    let log_key = VerifierKeyError::NotAWitness(1);
    for (rest, fault) in [
        ("log x", LineFault::Keyword("log".to_owned())),
        ("Quorum a", LineFault::Keyword("Quorum".to_owned())),
        ("quorum a\r", LineFault::ControlCharacter),
        ("witness x", LineFault::Form("witness NAME VKEY [URL]")),
        (&format!("witness x {WITNESS} url more"), LineFault::Form("witness NAME VKEY [URL]")),
        (&format!("witness x {LOG}"), LineFault::Key { text: LOG.to_owned(), source: log_key }),
        (&format!("witness x {RENAMED}"), LineFault::SameKey("a".to_owned())),
        (&format!("witness a {}", other_key(6)), name("a")),
        (&format!("witness none {}", other_key(6)), name("none")),
        ("group a 1 b", name("a")),
        ("group none 1 b", name("none")),
        ("group g 1", LineFault::Form("group NAME all|any|K MEMBER...")),
        ("group g 1 c", unknown("c")),
        ("group g 1 none", unknown("none")),
        ("group g 1 g", unknown("g")),
        ("group g 1 a b a", LineFault::Twice("a".to_owned())),
        ("group g 0 a b", threshold("0", 2)),
        ("group g 3 a b", threshold("3", 2)),
        ("group g 01 a b", threshold("01", 2)),
        ("group g most a b", threshold("most", 2)),
        ("quorum c", unknown("c")),
        ("quorum a b", LineFault::Form("quorum NAME|none")),
    ] {
        assert_eq!(policy(&format!("{both}{rest}")), at(3, fault), "{rest}");
    }
    assert_eq!(policy(&format!("{both}group g 1 a\ngroup h 1 b")), at(4, LineFault::Second("group")));
    assert_eq!(policy(&format!("{both}quorum a\nquorum a")), at(4, LineFault::Second("quorum")));
    assert_eq!(policy(&format!("quorum a\n{both}")), at(1, unknown("a")));
    assert_eq!(policy(&both), Err(WitnessPolicyError::NoQuorum));
    assert_eq!(policy(""), Err(WitnessPolicyError::NoQuorum));
    assert_eq!(policy(&"#".repeat(64 * 1024 + 1)), Err(WitnessPolicyError::TooLong));
    let many = (0..=32_u8).map(|seed| format!("witness {seed} {}\n", other_key(seed))).collect::<String>();
    assert_eq!(policy(&many), at(WITNESSES_MAX + 1, LineFault::TooManyWitnesses));
    let shown = policy(&format!("{both}quorum c")).unwrap_err().to_string();
    assert_eq!(shown, "line 3: no earlier line defines `c`");
}

#[test]
fn quorum_counts_each_witness_of_the_policy_once() {
    let two = other_key(5);
    let read = |rest: &str| policy(&format!("witness a {WITNESS}\nwitness b {two}\n{rest}")).unwrap();
    let witnessed = answer(COSIGNATURE).unwrap();
    let found = Cosignature { witness: NAME.parse().unwrap(), time_seconds: NOW };
    let missing = |needed, found, names: &[&str]| {
        let missing = Names(names.iter().map(|name| (*name).to_owned()).collect());
        Err(QuorumError::Missing { needed, found, missing })
    };
    assert_eq!(read("quorum a").quorum(&witnessed), Ok(vec![found.clone()]));
    assert_eq!(read("group g any a b\nquorum g").quorum(&witnessed), Ok(vec![found]));
    assert_eq!(read("quorum none").quorum(&witnessed), Ok(vec![]));
    assert_eq!(read("quorum b").quorum(&witnessed), missing(1, 0, &["b"]));
    assert_eq!(read("group g all a b\nquorum g").quorum(&witnessed), missing(2, 1, &["b"]));
    assert_eq!(read("group g all a b\nquorum g").quorum(&checkpoint()), missing(2, 0, &["a", "b"]));
    let twice: SignedCheckpoint =
        format!("{CHECKPOINT}{COSIGNATURE}{}", line(2, NOW + 1, &body())).parse().unwrap();
    let error = read("group g all a b\nquorum g").quorum(&twice).unwrap_err();
    assert_eq!(error.to_string(), "the quorum needs 2 cosignatures, and there are 1: missing is any of `b`");
    // A wrong line of a known witness is an error, whether it counts or not.
    let forged: SignedCheckpoint = format!("{CHECKPOINT}{}", line(3, NOW, &body())).parse().unwrap();
    let wrong = Err(QuorumError::Signature(NoteError::BadSignature(NAME.parse().unwrap())));
    assert_eq!(read("quorum a").quorum(&forged), wrong);
    assert_eq!(read("quorum none").quorum(&forged), wrong);
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
            prop_assert_eq!(witnessed.cosignatures(&[witness()]).unwrap().len(), 1);
        }
    }
}
