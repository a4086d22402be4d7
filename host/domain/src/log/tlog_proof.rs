//! Inclusion proofs for offline verification with the log's verifier key (C2SP `tlog-proof`).

use super::checkpoint::{Checkpoint, SignedCheckpoint, SignedCheckpointError};
use super::note::VerifierKey;
use super::proof::{ProofError, verify_inclusion};
use super::{hash_from_base64, hash_to_base64, number};
use crate::ids::Hex32;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::str::FromStr;

/// The first line.
const HEADER: &str = "c2sp.org/tlog-proof@v1";

/// The most hashes: the height of the largest log.
const HASHES_MAX: usize = 64;

/// A proof that a leaf is in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlogProof {
    /// Unsigned data added by the maker of the proof; may be empty.
    pub extra: Vec<u8>,
    /// The leaf's index.
    pub index: u64,
    /// The hashes from the leaf's sibling to the root's child.
    pub hashes: Vec<Hex32>,
    /// The signed head that the proof leads to.
    pub checkpoint: SignedCheckpoint,
}

/// The reason why a text is not a proof, or does not verify.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlogProofError {
    /// The first line is not the header.
    #[error("the proof does not begin with `{HEADER}`")]
    Header,
    /// The `extra` line is not base64 of at least one byte.
    #[error("the extra data of the proof is not base64")]
    Extra,
    /// The `index` line is missing, or has no decimal number.
    #[error("the proof has no index")]
    Index,
    /// A hash is not base64 of 32 bytes.
    #[error("hash {number} of the proof is not base64 of 32 bytes")]
    Hash {
        /// From 1.
        number: usize,
    },
    /// There are more hashes than any log needs.
    #[error("the proof has more than {HASHES_MAX} hashes")]
    TooManyHashes,
    /// No empty line separates the hashes from the checkpoint.
    #[error("the proof has no checkpoint")]
    NoCheckpoint,
    /// What follows is not a signed checkpoint, or it is not trusted.
    #[error(transparent)]
    Checkpoint(#[from] SignedCheckpointError),
    /// The hashes do not prove that the leaf is in the log.
    #[error(transparent)]
    Inclusion(#[from] ProofError),
}

impl TlogProof {
    /// Checks that one of these keys signed the log's head, and that the log with this head has the leaf hash. Returns the
    /// head.
    ///
    /// # Errors
    /// [`TlogProofError::Checkpoint`], [`TlogProofError::Inclusion`].
    pub fn verify(&self, leaf_hash: Hex32, keys: &[VerifierKey]) -> Result<&Checkpoint, TlogProofError> {
        let head = self.checkpoint.verify(keys)?;
        verify_inclusion(leaf_hash, self.index, head.size(), &self.hashes, head.root())?;
        Ok(head)
    }
}

impl fmt::Display for TlogProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        if !self.extra.is_empty() {
            writeln!(f, "extra {}", STANDARD.encode(&self.extra))?;
        }
        writeln!(f, "index {}", self.index)?;
        self.hashes.iter().try_for_each(|hash| writeln!(f, "{}", hash_to_base64(*hash)))?;
        write!(f, "\n{}", self.checkpoint)
    }
}

impl FromStr for TlogProof {
    type Err = TlogProofError;

    fn from_str(text: &str) -> Result<Self, TlogProofError> {
        let text = text.strip_prefix(HEADER).and_then(|text| text.strip_prefix('\n'));
        let text = text.ok_or(TlogProofError::Header)?;
        let (extra, text) = extra(text)?;
        let (index, text) = text.split_once('\n').ok_or(TlogProofError::Index)?;
        let index = index.strip_prefix("index ").and_then(number).ok_or(TlogProofError::Index)?;
        // Without any hash, the empty line follows immediately.
        let (hashes, checkpoint) = match text.strip_prefix('\n') {
            Some(checkpoint) => (Vec::new(), checkpoint),
            None => {
                let (lines, checkpoint) = text.split_once("\n\n").ok_or(TlogProofError::NoCheckpoint)?;
                (hashes(lines)?, checkpoint)
            }
        };
        Ok(Self { extra, index, hashes, checkpoint: checkpoint.parse()? })
    }
}

/// The extra data, if the text begins with it, and the remaining text.
fn extra(text: &str) -> Result<(Vec<u8>, &str), TlogProofError> {
    let Some(text) = text.strip_prefix("extra ") else { return Ok((Vec::new(), text)) };
    let (extra, rest) = text.split_once('\n').ok_or(TlogProofError::Extra)?;
    let extra = STANDARD.decode(extra).ok().filter(|extra| !extra.is_empty());
    Ok((extra.ok_or(TlogProofError::Extra)?, rest))
}

fn hashes(lines: &str) -> Result<Vec<Hex32>, TlogProofError> {
    if lines.split('\n').count() > HASHES_MAX {
        return Err(TlogProofError::TooManyHashes);
    }
    let parse = |(number, line)| hash_from_base64(line).ok_or(TlogProofError::Hash { number });
    (1..).zip(lines.split('\n')).map(parse).collect()
}
