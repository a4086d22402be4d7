//! Verification of Merkle proofs (RFC 9162, sections 2.1.3.2 and 2.1.4.2).

use super::tree::node_hash;
use crate::ids::Hex32;

/// The reason why a proof does not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// A log of this size does not have the leaf.
    #[error("a log of {size} has no leaf {index}")]
    NoSuchLeaf {
        /// The leaf's index.
        index: u64,
        /// The log's size.
        size: u64,
    },
    /// No consistency can be proved between these sizes.
    #[error("there is no consistency proof from a log of {first} to a log of {second}")]
    Sizes {
        /// The size of the smaller log.
        first: u64,
        /// The size of the larger log.
        second: u64,
    },
    /// There are more hashes than these sizes need.
    #[error("the proof has too many hashes")]
    TooLong,
    /// There are fewer hashes than these sizes need.
    #[error("the proof has too few hashes")]
    TooShort,
    /// The hashes give another root than the log's; in a consistency proof, than the larger log's.
    #[error("the proof leads to another root")]
    Root,
    /// The hashes give another root than the smaller log's.
    #[error("the proof leads to another root of the smaller log")]
    FirstRoot,
}

/// Checks that the log of `size` with this `root` has the leaf hash at `index`.
pub fn verify_inclusion(
    leaf_hash: Hex32,
    index: u64,
    size: u64,
    proof: &[Hex32],
    root: Hex32,
) -> Result<(), ProofError> {
    // Step 1.
    if index >= size {
        return Err(ProofError::NoSuchLeaf { index, size });
    }
    // Steps 2 and 3.
    let mut at = Path { node: index, last: size.saturating_sub(1) };
    let mut hash = leaf_hash;
    // Step 4.
    for sibling in proof {
        hash = match at.climb()? {
            Side::Left => node_hash(*sibling, hash),
            Side::Right => node_hash(hash, *sibling),
        };
    }
    // Step 5.
    at.check_end(hash == root)
}

/// Checks that the log of `second` leaves with `second_root` begins with the log of `first` leaves with `first_root`. For
/// equal sizes the roots must be equal and the proof empty. An empty first log is an error, because it proves nothing.
pub fn verify_consistency(
    first: u64,
    second: u64,
    proof: &[Hex32],
    first_root: Hex32,
    second_root: Hex32,
) -> Result<(), ProofError> {
    if first == 0 || first > second {
        return Err(ProofError::Sizes { first, second });
    }
    if first == second {
        return match proof {
            [] if first_root == second_root => Ok(()),
            [] => Err(ProofError::Root),
            [..] => Err(ProofError::TooLong),
        };
    }
    // Steps 1 and 2: a complete first log is itself the first hash.
    let (start, rest) = match proof.split_first() {
        None => return Err(ProofError::TooShort),
        Some(_) if first.is_power_of_two() => (first_root, proof),
        Some((start, rest)) => (*start, rest),
    };
    // Steps 3 and 4.
    let mut at = Path { node: first.saturating_sub(1), last: second.saturating_sub(1) };
    while at.node & 1 == 1 {
        at.rise();
    }
    // Step 5.
    let (mut old, mut new) = (start, start);
    // Step 6.
    for sibling in rest {
        match at.climb()? {
            Side::Left => (old, new) = (node_hash(*sibling, old), node_hash(*sibling, new)),
            Side::Right => new = node_hash(new, *sibling),
        }
    }
    // Step 7.
    at.check_end(new == second_root)?;
    if old == first_root { Ok(()) } else { Err(ProofError::FirstRoot) }
}

/// The side of the path that the next hash of the proof is on.
enum Side {
    Left,
    Right,
}

/// A path from a leaf to the root: `fn` and `sn` in both sections.
struct Path {
    /// The index of the path's node within its level.
    node: u64,
    /// The index of the last node of that level.
    last: u64,
}

impl Path {
    /// Moves up by one hash of the proof, and returns that hash's side.
    fn climb(&mut self) -> Result<Side, ProofError> {
        if self.last == 0 {
            return Err(ProofError::TooLong);
        }
        let side = if self.node & 1 == 1 || self.node == self.last {
            // A node at the right edge without a sibling is its own parent.
            while self.node & 1 == 0 && self.node != 0 {
                self.rise();
            }
            Side::Left
        } else {
            Side::Right
        };
        self.rise();
        Ok(side)
    }

    const fn rise(&mut self) {
        self.node >>= 1;
        self.last >>= 1;
    }

    /// Checks, at the end of the proof, that the path is at the root and that the root is right.
    fn check_end(&self, is_root: bool) -> Result<(), ProofError> {
        if self.last != 0 {
            return Err(ProofError::TooShort);
        }
        if is_root { Ok(()) } else { Err(ProofError::Root) }
    }
}
