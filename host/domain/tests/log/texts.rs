//! Valid texts of signed notes, checkpoints and proofs are parsed and written back unchanged; malformed ones are rejected.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::canonical::digest_bytes;
use gateway_domain::ed25519::PublicKey;
use gateway_domain::ids::Hex32;
use gateway_domain::log::checkpoint::{CheckpointError, SignedCheckpointError};
use gateway_domain::log::note::{InvalidKeyName, NoteError, VerifierKeyError};
use gateway_domain::log::tlog_proof::TlogProofError;
use gateway_domain::log::{
    Checkpoint, KeyName, ProofError, SignedCheckpoint, SignedNote, TlogProof, VerifierKey, leaf_hash,
    node_hash,
};
use proptest::prelude::*;
use std::convert::Infallible;
use std::str::FromStr;

const ORIGIN: &str = "example.com/log";

fn signer(byte: u8) -> SigningKey {
    SigningKey::from_bytes(&[byte; 32])
}

fn verifier(name: &str, byte: u8) -> VerifierKey {
    let key = PublicKey::from_bytes(&signer(byte).verifying_key().to_bytes()).unwrap();
    VerifierKey::new(name.parse().unwrap(), key)
}

fn checkpoint(origin: &str, size: u64, root: Hex32) -> SignedCheckpoint {
    let sign = |bytes: &[u8]| Ok::<_, Infallible>(signer(1).sign(bytes).to_bytes());
    SignedCheckpoint::sign(&verifier(origin, 1), size, root, sign).unwrap()
}

fn event(byte: u8) -> Hex32 {
    digest_bytes("event", &[byte])
}

/// A proof of the second event in a log of two.
fn proof() -> TlogProof {
    let hashes = [leaf_hash(event(0)), leaf_hash(event(1))];
    let checkpoint = checkpoint(ORIGIN, 2, node_hash(hashes[0], hashes[1]));
    TlogProof { extra: b"seq 2".to_vec(), index: 1, hashes: vec![hashes[0]], checkpoint }
}

#[test]
fn example_of_the_specification_verifies() {
    let text = include_str!("../vectors/c2sp-signed-note.txt");
    let key: VerifierKey = include_str!("../vectors/c2sp-signed-note.vkey").trim_end().parse().unwrap();
    let note: SignedNote = text.parse().unwrap();
    assert_eq!(note.verify([&key]), Ok(()));
    assert_eq!(note.to_string(), text);
    assert_eq!(key.to_string(), include_str!("../vectors/c2sp-signed-note.vkey").trim_end());
    let other: SignedNote = text.replace("example message", "Example message").parse().unwrap();
    assert_eq!(other.verify([&key]), Err(NoteError::BadSignature(key.name().clone())));
    let unknown = verifier("example.com/foo", 1);
    assert_eq!(note.verify([&unknown]), Err(NoteError::UnknownSigner));
    assert_eq!(note.verify([&unknown, &key]), Ok(()));
}

#[test]
fn key_names_are_one_word_without_plus() {
    for wrong in ["", " ", "a b", "a\u{a0}b", "a\u{2003}b", "a+b", "a\nb", "a\u{7f}b", "a\tb"] {
        assert_eq!(KeyName::from_str(wrong).unwrap_err().0, wrong);
    }
    for right in ["a", "example.com/log", "caf\u{e9}", "oid/1.2.3"] {
        assert_eq!(KeyName::from_str(right).unwrap().as_str(), right);
    }
}

#[test]
fn malformed_verifier_key_is_rejected() {
    use VerifierKeyError::{Id, Key, Name, NotAPoint, OtherId, Shape, Type};
    let right = verifier(ORIGIN, 1).to_string();
    let [name, id, key] = right.splitn(3, '+').collect::<Vec<_>>().try_into().unwrap();
    let base64 = |kind: u8, key: &[u8]| STANDARD.encode([&[kind], key].concat());
    let bytes = signer(1).verifying_key().to_bytes();
    // No point of the curve has y = 2.
    let mut no_point = [0; 32];
    no_point[0] = 2;
    let cases = [
        (String::new(), Shape),
        (format!("{name}+{id}"), Shape),
        (format!("+{id}+{key}"), Name(InvalidKeyName(String::new()))),
        (format!("{name}+{}+{key}", id.to_uppercase()), Id),
        (format!("{name}+{}+{key}", &id[1..]), Id),
        (format!("{name}+0{id}+{key}"), Id),
        (format!("{name}+{id}+{key}="), Key),
        (format!("{name}+{id}+"), Key),
        (format!("{name}+{id}+{}", base64(1, &bytes[1..])), Key),
        (format!("{name}+{id}+{}", base64(5, &bytes)), Type(5)),
        (format!("{name}+{id}+{}", base64(1, &no_point)), NotAPoint),
        (format!("x{name}+{id}+{key}"), OtherId),
        (format!("{name}+{id}+{}", base64(1, &signer(2).verifying_key().to_bytes())), OtherId),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<VerifierKey>(), Err(error), "{text}");
    }
    assert_eq!(right.parse(), Ok(verifier(ORIGIN, 1)));
}

#[test]
fn malformed_note_is_rejected() {
    use NoteError::{
        ControlCharacter, NoSeparator, NoSignature, SignatureLine, TooLong, TooManySignatures, Unterminated,
    };
    let line = "\u{2014} example.com/log AAAAAAE=\n";
    let cases = [
        (String::new(), NoSeparator),
        ("text\n".to_owned(), NoSeparator),
        (format!("text\n{line}"), NoSeparator),
        (format!("\n{line}"), NoSeparator),
        ("text\n\n".to_owned(), NoSignature),
        (format!("text\n\n{line}\n"), NoSignature),
        (format!("text\n\n{}", line.trim_end()), Unterminated),
        (format!("text\r\n\n{line}"), ControlCharacter { line: 1 }),
        (format!("text\n\t\n\n{line}"), ControlCharacter { line: 2 }),
        (format!("text\n\n{line}\0"), ControlCharacter { line: 4 }),
        (format!("text\n\n{line}- example.com/log AAAAAAE=\n"), SignatureLine { number: 2 }),
        ("text\n\n\u{2014} AAAAAAE=\n".to_owned(), SignatureLine { number: 1 }),
        ("text\n\n\u{2014}  AAAAAAE=\n".to_owned(), SignatureLine { number: 1 }),
        ("text\n\n\u{2014} a+b AAAAAAE=\n".to_owned(), SignatureLine { number: 1 }),
        ("text\n\n\u{2014} a AAAAAA==\n".to_owned(), SignatureLine { number: 1 }),
        ("text\n\n\u{2014} a AAAAAAF=\n".to_owned(), SignatureLine { number: 1 }),
        ("text\n\n\u{2014} a AAAAAAE\n".to_owned(), SignatureLine { number: 1 }),
        ("text\n\n\u{2014} a AAAAAAE= \n".to_owned(), SignatureLine { number: 1 }),
        (format!("text\n\n{}", line.repeat(65)), TooManySignatures),
        (format!("{}\n\n{line}", "x".repeat(256 * 1024)), TooLong),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<SignedNote>(), Err(error), "{text:.80}");
    }
    for right in [format!("text\n\n{}", line.repeat(64)), format!("te\n\nxt\n\n\n{line}")] {
        assert_eq!(right.parse::<SignedNote>().unwrap().to_string(), right);
    }
}

#[test]
fn malformed_checkpoint_is_rejected() {
    use CheckpointError::{Line, Missing, Root, Size, Unterminated};
    let root = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let cases = [
        (String::new(), Unterminated),
        (format!("log\n1\n{root}"), Unterminated),
        ("\n".to_owned(), Line { line: 1 }),
        (format!("\n1\n{root}\n"), Line { line: 1 }),
        (format!("log\n\n{root}\n"), Line { line: 2 }),
        (format!("log\n1\n{root}\n\n"), Line { line: 4 }),
        (format!("log\n1\n{root}\nx\ty\n"), Line { line: 4 }),
        ("log\n".to_owned(), Missing("size")),
        ("log\n1\n".to_owned(), Missing("root")),
        (format!("log\n01\n{root}\n"), Size("01".into())),
        (format!("log\n00\n{root}\n"), Size("00".into())),
        (format!("log\n+1\n{root}\n"), Size("+1".into())),
        (format!("log\n-1\n{root}\n"), Size("-1".into())),
        (format!("log\n1 \n{root}\n"), Size("1 ".into())),
        (format!("log\n18446744073709551616\n{root}\n"), Size("18446744073709551616".into())),
        ("log\n1\nAAAA\n".to_owned(), Root),
        (format!("log\n1\n {root}\n"), Root),
        (format!("log\n1\n{}B=\n", &root[..42]), Root),
        (format!("log\n1\n{}\n", &root[..43]), Root),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<Checkpoint>(), Err(error), "{text:?}");
    }
    let right = format!("log\n18446744073709551615\n{root}\nan extension\nanother\n");
    let checkpoint: Checkpoint = right.parse().unwrap();
    assert_eq!((checkpoint.origin(), checkpoint.size(), checkpoint.root()), ("log", u64::MAX, Hex32::ZERO));
    assert_eq!(checkpoint.extensions(), ["an extension", "another"]);
    assert_eq!(checkpoint.to_string(), right);
}

#[test]
fn checkpoint_is_trusted_only_with_a_key_of_its_own_log() {
    let signed = checkpoint(ORIGIN, 7, event(0));
    let (own, other) = (verifier(ORIGIN, 1), verifier("example.com/other", 1));
    assert_eq!(signed.verify(&[other.clone(), own.clone()]), Ok(&Checkpoint::new(own.name(), 7, event(0))));
    assert_eq!(signed.verify(&[]), Err(SignedCheckpointError::UnknownOrigin(ORIGIN.into())));
    assert_eq!(signed.verify(&[other]), Err(SignedCheckpointError::UnknownOrigin(ORIGIN.into())));
    let key_of_another = verifier(ORIGIN, 2);
    assert_eq!(signed.verify(&[key_of_another]), Err(NoteError::UnknownSigner.into()));
    // The signature covers every byte of the text.
    let text = signed.to_string();
    let end = text.find("\n\n").unwrap();
    for at in 0..end {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        let changed = String::from_utf8(bytes).unwrap().parse::<SignedCheckpoint>();
        assert!(
            changed.is_err() || changed.unwrap().verify(std::slice::from_ref(&own)).is_err(),
            "byte {at}"
        );
    }
    assert_eq!(text.parse(), Ok(signed));
}

#[test]
fn malformed_proof_is_rejected() {
    use TlogProofError::{Extra, Hash, Header, Index, NoCheckpoint, TooManyHashes};
    let right = proof().to_string();
    let hash = right.lines().nth(3).unwrap().to_owned();
    let changed = |from: &str, to: &str| {
        assert!(right.contains(from), "{from:?}");
        right.replacen(from, to, 1)
    };
    let cases = [
        (String::new(), Header),
        (changed("@v1", "@v2"), Header),
        (changed("c2sp.org", " c2sp.org"), Header),
        (changed("extra c2VxIDI=", "extra c2VxIDI"), Extra),
        (changed("extra c2VxIDI=", "extra "), Extra),
        (changed("extra c2VxIDI=", "extra"), Index),
        (changed("index 1\n", ""), Index),
        (changed("index 1", "index 01"), Index),
        (changed("index 1", "index -1"), Index),
        (changed("index 1", "index  1"), Index),
        (changed("index 1", "Index 1"), Index),
        (changed(&hash, &hash[1..]), Hash { number: 1 }),
        (changed(&hash, &format!("{hash}\n {hash}")), Hash { number: 2 }),
        (changed(&hash, vec![hash.as_str(); 65].join("\n").as_str()), TooManyHashes),
        (right[..right.find("\n\n").unwrap()].to_owned(), NoCheckpoint),
        (
            changed("example.com/log\n2\n", "example.com/log\nx\n"),
            SignedCheckpointError::from(CheckpointError::Size("x".into())).into(),
        ),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<TlogProof>(), Err(error), "{text}");
    }
    assert_eq!(right.parse(), Ok(proof()));
    assert_eq!(proof().verify(leaf_hash(event(1)), &[verifier(ORIGIN, 1)]).unwrap().size(), 2);
    let of_another = proof().verify(leaf_hash(event(0)), &[verifier(ORIGIN, 1)]).map(Checkpoint::size);
    assert_eq!(of_another, Err(ProofError::Root.into()));
}

#[test]
fn proof_in_a_log_of_one_event_has_no_hashes() {
    let alone = TlogProof {
        extra: vec![],
        index: 0,
        hashes: vec![],
        checkpoint: checkpoint(ORIGIN, 1, leaf_hash(event(1))),
    };
    let text = alone.to_string();
    assert!(text.starts_with("c2sp.org/tlog-proof@v1\nindex 0\n\nexample.com/log\n1\n"), "{text}");
    assert_eq!(text.parse(), Ok(alone.clone()));
    assert!(alone.verify(leaf_hash(event(1)), &[verifier(ORIGIN, 1)]).is_ok());
}

/// Random texts of pieces of the three formats.
fn pieces() -> impl Strategy<Value = String> {
    let texts =
        [proof().to_string(), checkpoint(ORIGIN, 7, event(0)).to_string(), verifier(ORIGIN, 1).to_string()];
    let lines: Vec<String> = texts.iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
    let piece = prop_oneof![
        4 => prop::sample::select(lines),
        3 => Just("\n".to_owned()),
        1 => prop::sample::select(vec!["\n\n", "\u{2014} ", " ", "+", "=", "extra ", "index "]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// If the text can be parsed, it is written back unchanged.
fn check_written_back<T: FromStr + ToString>(text: &str) -> Result<(), TestCaseError> {
    if let Ok(parsed) = text.parse::<T>() {
        prop_assert_eq!(parsed.to_string(), text);
    }
    Ok(())
}

proptest! {
    #[test]
    fn parsed_text_is_written_back_unchanged(text in pieces()) {
        check_written_back::<SignedNote>(&text)?;
        check_written_back::<Checkpoint>(&text)?;
        check_written_back::<SignedCheckpoint>(&text)?;
        check_written_back::<TlogProof>(&text)?;
        check_written_back::<VerifierKey>(&text)?;
    }

    #[test]
    fn proof_text_with_a_flipped_bit_is_rejected(at in any::<prop::sample::Index>(), bit in 0..7_u32) {
        let mut bytes = proof().to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // The extra data is not signed.
        let extra = b"c2sp.org/tlog-proof@v1\n".len()..b"c2sp.org/tlog-proof@v1\nextra c2VxIDI=\n".len();
        if let Ok(Ok(changed)) = String::from_utf8(bytes).map(|text| text.parse::<TlogProof>()) {
            let holds = changed.verify(leaf_hash(event(1)), &[verifier(ORIGIN, 1)]).is_ok();
            prop_assert!(!holds || extra.contains(&at), "byte {}", at);
        }
    }
}
