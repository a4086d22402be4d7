//! Signed notes: a text and its Ed25519 signatures (C2SP `signed-note`, signature type 1).

use crate::ed25519::{PublicKey, SIGNATURE_BYTES};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// The longest note that is parsed: room for sixteen signatures of the largest type, and far more text than a checkpoint
/// has.
pub const NOTE_BYTES_MAX: usize = 256 * 1024;

/// The most signatures in a note; the specification requires room for sixteen.
pub const SIGNATURES_MAX: usize = 64;

/// The signature type of plain Ed25519 signatures.
const ED25519: u8 = 1;

/// The signature type of timestamped Ed25519 cosignatures (C2SP `tlog-cosignature`).
pub(super) const COSIGNATURE: u8 = 4;

pub(super) const KEY_ID_BYTES: usize = 4;

/// The start of a signature line: an em dash and a space.
const SIGNATURE_LINE: &str = "\u{2014} ";

/// The name of a signing key: text without white space and without `+`, which separates it in a [`VerifierKey`]. By
/// convention a URL without a scheme, so that it is unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyName(String);

/// The public key of a signer. Its text is `name+id+key`, with the id in hexadecimal, and the type and key in base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierKey {
    name: KeyName,
    // INVARIANT: follows from name and key; kept by `new`, checked by `from_str`.
    id: [u8; KEY_ID_BYTES],
    key: PublicKey,
}

/// A text with signatures that are not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedNote {
    // INVARIANT: ends with a line feed and has no other control character.
    text: String,
    // INVARIANT: never empty.
    signatures: Vec<NoteSignature>,
}

/// One signature line. The meaning of its bytes depends on the key that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoteSignature {
    pub(super) name: KeyName,
    pub(super) id: [u8; KEY_ID_BYTES],
    pub(super) bytes: Vec<u8>,
}

/// The text is empty, or has white space, a control character or `+`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a key name: it must be text without white space and without `+`")]
pub struct InvalidKeyName(pub String);

/// The reason why a text is not a verifier key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifierKeyError {
    /// It does not have three parts.
    #[error("a verifier key is `name+id+key`")]
    Shape,
    /// Its name is not a key name.
    #[error(transparent)]
    Name(#[from] InvalidKeyName),
    /// Its id is not eight lowercase hexadecimal characters.
    #[error("the key id is not 8 lowercase hexadecimal characters")]
    Id,
    /// Its key is not base64 of a type and 32 bytes.
    #[error("the key is not base64 of a type and 32 bytes")]
    Key,
    /// Its key is not an Ed25519 key.
    #[error("keys of type {0} are not supported, only Ed25519, which is type 1")]
    Type(u8),
    /// Its key is not one of a witness.
    #[error("keys of type {0} are not keys of witnesses, only Ed25519 cosignatures, which are type 4")]
    NotAWitness(u8),
    /// The 32 bytes are not an Ed25519 public key.
    #[error("the key is not an Ed25519 public key")]
    NotAPoint,
    /// The id does not belong to the name and the key.
    #[error("the key id does not belong to this name and key")]
    OtherId,
}

/// The reason why a text is not a signed note, or is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// It is longer than [`NOTE_BYTES_MAX`].
    #[error("the note is longer than {NOTE_BYTES_MAX} bytes")]
    TooLong,
    /// It has a control character other than the line feed.
    #[error("line {line} of the note has a control character")]
    ControlCharacter {
        /// From 1.
        line: usize,
    },
    /// Text and signatures are not separated by an empty line.
    #[error("the note has no empty line between its text and its signatures")]
    NoSeparator,
    /// There is no signature.
    #[error("the note has no signature")]
    NoSignature,
    /// The last line has no line feed.
    #[error("the note does not end with a line feed")]
    Unterminated,
    /// There are more than [`SIGNATURES_MAX`].
    #[error("the note has more than {SIGNATURES_MAX} signatures")]
    TooManySignatures,
    /// A signature line is not an em dash, a name, and base64 of a key id and a signature.
    #[error("signature {number} of the note is not of the form `\u{2014} name base64`")]
    SignatureLine {
        /// From 1.
        number: usize,
    },
    /// A signature by a known key is wrong.
    #[error("the signature of `{0}` does not verify")]
    BadSignature(KeyName),
    /// No signature is by a known key.
    #[error("no signature is by a trusted key")]
    UnknownSigner,
}

impl KeyName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyName {
    type Err = InvalidKeyName;

    fn from_str(text: &str) -> Result<Self, InvalidKeyName> {
        let is_refused = |c: char| c == '+' || c.is_whitespace() || c.is_control();
        if text.is_empty() || text.contains(is_refused) {
            return Err(InvalidKeyName(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl VerifierKey {
    /// The verifier key of this name and Ed25519 key.
    #[must_use]
    pub fn new(name: KeyName, key: PublicKey) -> Self {
        Self { id: key_id(&name, ED25519, key), name, key }
    }

    /// The name of the key.
    #[must_use]
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    fn is_named_by(&self, signature: &NoteSignature) -> bool {
        self.name == signature.name && self.id == signature.id
    }
}

impl FromStr for VerifierKey {
    type Err = VerifierKeyError;

    fn from_str(text: &str) -> Result<Self, VerifierKeyError> {
        let (name, kind, key) = parse_key(text)?;
        if kind == ED25519 { Ok(Self::new(name, key)) } else { Err(VerifierKeyError::Type(kind)) }
    }
}

/// The id of a key: the start of a hash of its name, signature type and bytes.
pub(super) fn key_id(name: &KeyName, kind: u8, key: PublicKey) -> [u8; KEY_ID_BYTES] {
    let hasher = Sha256::new().chain_update(&name.0).chain_update([b'\n', kind]);
    let [a, b, c, d, ..] = <[u8; 32]>::from(hasher.chain_update(key.to_bytes()).finalize());
    [a, b, c, d]
}

/// Parses `name+id+key` into the name, the signature type and an Ed25519 key. Other types than Ed25519's own and that of
/// its cosignatures are errors, because the form of their keys is unknown.
pub(super) fn parse_key(text: &str) -> Result<(KeyName, u8, PublicKey), VerifierKeyError> {
    let mut parts = text.splitn(3, '+');
    let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(VerifierKeyError::Shape);
    };
    let name = name.parse()?;
    if id.len() != 2 * KEY_ID_BYTES || !id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(VerifierKeyError::Id);
    }
    let typed = STANDARD.decode(key).map_err(|_| VerifierKeyError::Key)?;
    let (kind, bytes) = typed.split_first().ok_or(VerifierKeyError::Key)?;
    if !matches!(*kind, ED25519 | COSIGNATURE) {
        return Err(VerifierKeyError::Type(*kind));
    }
    let bytes: &[u8; 32] = bytes.try_into().map_err(|_| VerifierKeyError::Key)?;
    let key = PublicKey::from_bytes(bytes).ok_or(VerifierKeyError::NotAPoint)?;
    if hex::encode(key_id(&name, *kind, key)) == id {
        Ok((name, *kind, key))
    } else {
        Err(VerifierKeyError::OtherId)
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_key(f, &self.name, ED25519, self.key)
    }
}

/// Writes what [`parse_key`] reads.
pub(super) fn write_key(f: &mut fmt::Formatter<'_>, name: &KeyName, kind: u8, key: PublicKey) -> fmt::Result {
    let mut typed = vec![kind];
    typed.extend(key.to_bytes());
    write!(f, "{name}+{}+{}", hex::encode(key_id(name, kind, key)), STANDARD.encode(typed))
}

impl SignedNote {
    /// The text that is signed, including its last line feed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn signatures(&self) -> &[NoteSignature] {
        &self.signatures
    }

    /// This note with one more signature line, without the earlier lines for which `is_replaced` holds.
    pub(super) fn replacing(
        &self,
        is_replaced: impl Fn(&NoteSignature) -> bool,
        line: NoteSignature,
    ) -> Self {
        let mut signatures = self.signatures.clone();
        signatures.retain(|other| !is_replaced(other));
        signatures.push(line);
        Self { text: self.text.clone(), signatures }
    }

    /// A note with one signature over exactly `text`. The caller guarantees the form of `text`.
    pub(super) fn with_signature(text: String, key: &VerifierKey, signature: [u8; SIGNATURE_BYTES]) -> Self {
        let signature = NoteSignature { name: key.name.clone(), id: key.id, bytes: signature.to_vec() };
        Self { text, signatures: vec![signature] }
    }

    /// Checks that at least one of these keys signed the text. Signatures by other keys are ignored, but a wrong
    /// signature by one of these keys is an error.
    ///
    /// # Errors
    /// [`NoteError::BadSignature`], [`NoteError::UnknownSigner`].
    pub fn verify<'a>(&self, keys: impl IntoIterator<Item = &'a VerifierKey>) -> Result<(), NoteError> {
        let mut is_signed = false;
        for key in keys {
            for signature in self.signatures.iter().filter(|signature| key.is_named_by(signature)) {
                let bytes: Result<&[u8; SIGNATURE_BYTES], _> = signature.bytes.as_slice().try_into();
                if !bytes.is_ok_and(|bytes| key.key.verifies(self.text.as_bytes(), bytes)) {
                    return Err(NoteError::BadSignature(key.name.clone()));
                }
                is_signed = true;
            }
        }
        if is_signed { Ok(()) } else { Err(NoteError::UnknownSigner) }
    }
}

impl FromStr for SignedNote {
    type Err = NoteError;

    fn from_str(note: &str) -> Result<Self, NoteError> {
        if note.len() > NOTE_BYTES_MAX {
            return Err(NoteError::TooLong);
        }
        let is_control = |line: &str| line.bytes().any(|byte| byte < b' ');
        if let Some(index) = note.split('\n').position(is_control) {
            return Err(NoteError::ControlCharacter { line: index.saturating_add(1) });
        }
        // The last empty line separates the signatures: the text may have empty lines too.
        let (text, signatures) = note.rsplit_once("\n\n").ok_or(NoteError::NoSeparator)?;
        if signatures.is_empty() {
            return Err(NoteError::NoSignature);
        }
        let lines = signatures.strip_suffix('\n').ok_or(NoteError::Unterminated)?.split('\n');
        if lines.clone().count() > SIGNATURES_MAX {
            return Err(NoteError::TooManySignatures);
        }
        let parse = |(number, line)| NoteSignature::parse(line).ok_or(NoteError::SignatureLine { number });
        let signatures = (1..).zip(lines).map(parse).collect::<Result<_, _>>()?;
        Ok(Self { text: format!("{text}\n"), signatures })
    }
}

impl fmt::Display for SignedNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        for NoteSignature { name, id, bytes } in &self.signatures {
            writeln!(f, "{SIGNATURE_LINE}{name} {}", STANDARD.encode([id.as_slice(), bytes].concat()))?;
        }
        Ok(())
    }
}

impl NoteSignature {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (name, signature) = line.strip_prefix(SIGNATURE_LINE)?.split_once(' ')?;
        let signature = STANDARD.decode(signature).ok()?;
        let (id, bytes) = signature.split_first_chunk::<KEY_ID_BYTES>()?;
        if bytes.is_empty() {
            return None;
        }
        Some(Self { name: name.parse().ok()?, id: *id, bytes: bytes.to_vec() })
    }
}
