//! Checkpoints: which log, how large, which root; signed by the log's operator (C2SP `tlog-checkpoint`).

use super::note::{KeyName, NoteError, SignedNote, VerifierKey};
use super::{hash_from_base64, hash_to_base64, number};
use crate::ed25519::SIGNATURE_BYTES;
use crate::ids::Hex32;
use std::fmt;
use std::str::FromStr;

/// A log's head at one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    // INVARIANT: one line, and so is each extension; none is empty. Kept by `new` and `from_str`.
    origin: String,
    size: u64,
    root: Hex32,
    extensions: Vec<String>,
}

/// A checkpoint with signatures, which nobody has checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCheckpoint {
    // INVARIANT: what the note's text says.
    checkpoint: Checkpoint,
    note: SignedNote,
}

/// Why a text is not a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The last line has no end.
    #[error("the checkpoint does not end with a line feed")]
    Unterminated,
    /// There are not the three lines that each checkpoint has.
    #[error("the checkpoint has no {0}")]
    Missing(&'static str),
    /// A line is empty, or has a control character.
    #[error("line {line} of the checkpoint is empty or has a control character")]
    Line {
        /// From 1.
        line: usize,
    },
    /// The second line is no number, or one with a zero in front or above 2^64 - 1.
    #[error("the size of the checkpoint, `{0}`, is not a decimal number")]
    Size(String),
    /// The third line is not base64 of 32 bytes.
    #[error("the root of the checkpoint is not base64 of 32 bytes")]
    Root,
}

/// Why a text is not a signed checkpoint, or is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignedCheckpointError {
    /// It is no signed note, or is not signed by whoever is believed.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// What is signed is no checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// It is of a log for which no key is believed.
    #[error("no key is trusted for the log `{0}`")]
    UnknownOrigin(String),
}

impl Checkpoint {
    /// A head of the log `origin`, without extensions.
    #[must_use]
    pub fn new(origin: &KeyName, size: u64, root: Hex32) -> Self {
        Self { origin: origin.as_str().to_owned(), size, root, extensions: Vec::new() }
    }

    /// Which log.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// How many leaves it has.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Its root at that size.
    #[must_use]
    pub const fn root(&self) -> Hex32 {
        self.root
    }

    /// What else stands there: nobody checks it.
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
    /// The checkpoint, signed by its log with `sign`, which is given the exact bytes.
    ///
    /// # Errors
    /// Whatever `sign` gives.
    pub fn sign<E>(
        key: &VerifierKey,
        size: u64,
        root: Hex32,
        sign: impl FnOnce(&[u8]) -> Result<[u8; SIGNATURE_BYTES], E>,
    ) -> Result<Self, E> {
        let checkpoint = Checkpoint::new(key.name(), size, root);
        let text = checkpoint.to_string();
        let signature = sign(text.as_bytes())?;
        Ok(Self { checkpoint, note: SignedNote::signed(text, key, signature) })
    }

    /// What it says, whoever signed it.
    #[must_use]
    pub const fn unverified(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// What it says, if the log that it is of signed it with one of these keys.
    ///
    /// # Errors
    /// [`SignedCheckpointError::UnknownOrigin`] when none of the keys has the log's origin as its name;
    /// [`SignedCheckpointError::Note`] when those that have did not sign it, or one of them wrongly.
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
