//! Signed checkpoints: the log's name, size and root (C2SP `tlog-checkpoint`).

use super::note::{KeyName, NoteError, SignedNote, VerifierKey};
use super::{hash_from_base64, hash_to_base64, number};
use crate::ed25519::SIGNATURE_BYTES;
use crate::ids::Hex32;
use std::fmt;
use std::str::FromStr;

/// The head of a log at one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    // INVARIANT: `origin` and each extension is one line that is not empty; kept by `new` and `from_str`.
    origin: String,
    size: u64,
    root: Hex32,
    extensions: Vec<String>,
}

/// A checkpoint with signatures that are not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCheckpoint {
    // INVARIANT: equal to the text of `note`.
    pub(super) checkpoint: Checkpoint,
    pub(super) note: SignedNote,
}

/// The reason why a text is not a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The last line has no line feed.
    #[error("the checkpoint does not end with a line feed")]
    Unterminated,
    /// One of the three required lines is missing.
    #[error("the checkpoint has no {0}")]
    Missing(&'static str),
    /// A line is empty, or has a control character.
    #[error("line {line} of the checkpoint is empty or has a control character")]
    Line {
        /// From 1.
        line: usize,
    },
    /// The second line is not a number, has a leading zero, or is above 2^64 - 1.
    #[error("the size of the checkpoint, `{0}`, is not a decimal number")]
    Size(String),
    /// The third line is not base64 of 32 bytes.
    #[error("the root of the checkpoint is not base64 of 32 bytes")]
    Root,
}

/// The reason why a text is not a signed checkpoint, or is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignedCheckpointError {
    /// It is not a signed note, or no trusted key signed it.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The signed text is not a checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// No key is trusted for this log.
    #[error("no key is trusted for the log `{0}`")]
    UnknownOrigin(String),
}

impl Checkpoint {
    /// A checkpoint of the log `origin`, without extensions.
    #[must_use]
    pub fn new(origin: &KeyName, size: u64, root: Hex32) -> Self {
        Self { origin: origin.as_str().to_owned(), size, root, extensions: Vec::new() }
    }

    /// The log's name.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The number of leaves.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The root at that size.
    #[must_use]
    pub const fn root(&self) -> Hex32 {
        self.root
    }

    /// Further lines, which are signed and not interpreted.
    #[must_use]
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }
}

impl fmt::Display for Checkpoint {
    /// The text that is signed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n{}", self.origin, self.size, hash_to_base64(self.root))?;
        self.extensions.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl FromStr for Checkpoint {
    type Err = CheckpointError;

    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        let text = text.strip_suffix('\n').ok_or(CheckpointError::Unterminated)?;
        let is_wrong = |line: &str| line.is_empty() || line.bytes().any(|byte| byte < b' ');
        if let Some(index) = text.split('\n').position(is_wrong) {
            return Err(CheckpointError::Line { line: index.saturating_add(1) });
        }
        let mut lines = text.split('\n');
        let mut line = |what| lines.next().ok_or(CheckpointError::Missing(what));
        let (origin, size, root) = (line("origin")?, line("size")?, line("root")?);
        Ok(Self {
            origin: origin.to_owned(),
            size: number(size).ok_or_else(|| CheckpointError::Size(size.to_owned()))?,
            root: hash_from_base64(root).ok_or(CheckpointError::Root)?,
            extensions: lines.map(str::to_owned).collect(),
        })
    }
}

impl SignedCheckpoint {
    /// Signs a checkpoint with `sign`, which receives the exact bytes.
    ///
    /// # Errors
    /// The error of `sign`.
    pub fn sign<E>(
        key: &VerifierKey,
        size: u64,
        root: Hex32,
        sign: impl FnOnce(&[u8]) -> Result<[u8; SIGNATURE_BYTES], E>,
    ) -> Result<Self, E> {
        let checkpoint = Checkpoint::new(key.name(), size, root);
        let text = checkpoint.to_string();
        let signature = sign(text.as_bytes())?;
        Ok(Self { checkpoint, note: SignedNote::with_signature(text, key, signature) })
    }

    /// The checkpoint, without verification.
    #[must_use]
    pub const fn unverified(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The checkpoint, if a key with the log's name signed it. Keys with other names are not used.
    ///
    /// # Errors
    /// [`SignedCheckpointError::UnknownOrigin`] when no key has the log's origin as its name;
    /// [`SignedCheckpointError::Note`] when none of the keys that do signed it, or one of their signatures is wrong.
    pub fn verify(&self, keys: &[VerifierKey]) -> Result<&Checkpoint, SignedCheckpointError> {
        let is_of_log = |key: &&VerifierKey| key.name().as_str() == self.checkpoint.origin;
        let of_log: Vec<&VerifierKey> = keys.iter().filter(is_of_log).collect();
        if of_log.is_empty() {
            return Err(SignedCheckpointError::UnknownOrigin(self.checkpoint.origin.clone()));
        }
        self.note.verify(of_log)?;
        Ok(&self.checkpoint)
    }
}

impl fmt::Display for SignedCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.note.fmt(f)
    }
}

impl FromStr for SignedCheckpoint {
    type Err = SignedCheckpointError;

    fn from_str(text: &str) -> Result<Self, SignedCheckpointError> {
        let note: SignedNote = text.parse()?;
        Ok(Self { checkpoint: note.text().parse()?, note })
    }
}
