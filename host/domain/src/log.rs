//! The Merkle tree of all events (RFC 6962, section 2.1), its proofs, and their text formats.
//!
//! A leaf is the hash of an event in its operation's chain; the tree's root is the contract's `ledger_root`. [`tree`]
//! hashes and appends, [`subtree`] selects the nodes of a proof, and [`proof`] verifies one. The log's operator signs
//! its head as a [`checkpoint`], which is a signed [`note`]; a [`tlog_proof`] combines an inclusion proof with a
//! checkpoint, [`witness`] has what witnesses add to it, and [`witness_policy`] how many of them a reader requires. These formats are C2SP specifications, so that other tools
//! can read them.
//!
//! Deliberately absent: storage, and private keys.

pub mod checkpoint;
pub mod note;
pub mod proof;
pub mod statement;
pub mod subtree;
pub mod tlog_proof;
pub mod tree;
pub mod witness;
pub mod witness_policy;

pub use checkpoint::{Checkpoint, SignedCheckpoint};
pub use note::{KeyName, SignedNote, VerifierKey};
pub use proof::{ProofError, verify_consistency, verify_inclusion};
pub use statement::{SignedStatement, StatementError};
pub use subtree::{NodePosition, Subtree};
pub use tlog_proof::TlogProof;
pub use tree::{Completed, Frontier, empty_root, leaf_hash, node_hash};
pub use witness::{LogStanding, WitnessKey};
pub use witness_policy::WitnessPolicy;

use crate::ids::Hex32;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Decodes 32 bytes from strict base64: padded, without unused bits.
fn hash_from_base64(text: &str) -> Option<Hex32> {
    STANDARD.decode(text).ok()?.try_into().ok().map(Hex32::new)
}

fn hash_to_base64(hash: Hex32) -> String {
    STANDARD.encode(hash.as_bytes())
}

/// Parses a decimal number without leading zeros.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}
