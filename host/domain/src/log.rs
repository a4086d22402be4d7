//! The Merkle log that all events go to (RFC 6962, section 2.1), its proofs, and the texts in which others can check
//! them.
//!
//! A leaf is the hash of an event in its operation's chain; the log's root is the contract's `ledger_root`. [`tree`] is
//! hashes and appending, [`subtree`] says of which nodes a proof is made, [`proof`] checks one. A log's operator signs
//! its head as a [`checkpoint`], which is a [`note`]; a [`tlog_proof`] carries an inclusion proof with such a head. The
//! three texts are those of the C2SP specifications, so that tools which never heard of this gateway read them.
//!
//! Deliberately absent: storage, and private keys.

pub mod checkpoint;
pub mod note;
pub mod proof;
pub mod statement;
pub mod subtree;
pub mod tlog_proof;
pub mod tree;

pub use checkpoint::{Checkpoint, SignedCheckpoint};
pub use note::{KeyName, SignedNote, VerifierKey};
pub use proof::{ProofError, verify_consistency, verify_inclusion};
pub use statement::{SignedStatement, StatementError};
pub use subtree::{Place, Subtree};
pub use tlog_proof::TlogProof;
pub use tree::{Completed, Frontier, empty_root, leaf_hash, node_hash};

use crate::ids::Hex32;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The 32 bytes of exactly this base64: padded, and with no bit that decoding throws away.
fn hash_from_base64(text: &str) -> Option<Hex32> {
    STANDARD.decode(text).ok()?.try_into().ok().map(Hex32::new)
}

fn hash_to_base64(hash: Hex32) -> String {
    STANDARD.encode(hash.as_bytes())
}

/// A number as the texts have it: digits, and no zero in front of another.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}
