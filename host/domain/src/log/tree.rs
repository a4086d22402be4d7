//! The log's hashes, and appending to it with only its right edge.

use crate::ids::Hex32;
use sha2::{Digest, Sha256};

/// A leaf of the log: `SHA-256(0x00 || event hash)` (RFC 6962, section 2.1).
#[must_use]
pub fn leaf_hash(event_hash: Hex32) -> Hex32 {
    Hex32::new(Sha256::new().chain_update([0]).chain_update(event_hash.as_bytes()).finalize().into())
}

/// An inner node of the log: `SHA-256(0x01 || left || right)` (RFC 6962, section 2.1).
#[must_use]
pub fn node_hash(left: Hex32, right: Hex32) -> Hex32 {
    let hasher = Sha256::new().chain_update([1]).chain_update(left.as_bytes()).chain_update(right.as_bytes());
    Hex32::new(hasher.finalize().into())
}

/// The root of a log without events: `SHA-256("")` (RFC 6962, section 2.1).
#[must_use]
pub fn empty_root() -> Hex32 {
    Hex32::new(Sha256::digest([]).into())
}

/// The right edge of an RFC 6962 log: the roots of its complete subtrees, largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    n_leaves: u64,
    // INVARIANT: one root for each set bit of `n_leaves`, from the highest bit down; kept by `append`.
    peaks: Vec<Hex32>,
}

/// An inner node that an appended leaf completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// 1 for the parent of two leaves.
    pub level: u32,
    /// 0-based position within the level.
    pub index: u64,
    /// Its hash.
    pub hash: Hex32,
}

impl Frontier {
    /// A frontier from its stored parts: the number of leaves and the roots of the complete subtrees, largest first. `None`
    /// when they are inconsistent.
    #[must_use]
    pub fn from_parts(n_leaves: u64, peaks: Vec<Hex32>) -> Option<Self> {
        (peaks.len() == n_leaves.count_ones() as usize).then_some(Self { n_leaves, peaks })
    }

    /// The number of leaves.
    #[must_use]
    pub const fn n_leaves(&self) -> u64 {
        self.n_leaves
    }

    /// Appends a leaf and returns the inner nodes that it completed, lowest first.
    pub fn append(&mut self, leaf: Hex32) -> Vec<Completed> {
        let mut completed = Vec::new();
        let (mut hash, mut position, mut level) = (leaf, self.n_leaves, 0);
        while position & 1 == 1 {
            let Some(left) = self.peaks.pop() else { break };
            hash = node_hash(left, hash);
            position >>= 1;
            level += 1;
            completed.push(Completed { level, index: position, hash });
        }
        self.peaks.push(hash);
        self.n_leaves = self.n_leaves.saturating_add(1);
        completed
    }

    /// The log's root, the contract's `ledger_root`.
    #[must_use]
    pub fn root(&self) -> Hex32 {
        let mut peaks = self.peaks.iter().rev();
        let Some(smallest) = peaks.next() else { return empty_root() };
        peaks.fold(*smallest, |right, left| node_hash(*left, right))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::canonical;

    /// MTH(D[n]) of RFC 6962, section 2.1: split at the largest power of two below n.
    pub(in crate::log) fn merkle_tree_hash(leaves: &[Hex32]) -> Hex32 {
        match leaves {
            [] => empty_root(),
            [leaf] => *leaf,
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                node_hash(merkle_tree_hash(&leaves[..split]), merkle_tree_hash(&leaves[split..]))
            }
        }
    }

    pub(in crate::log) fn leaves(n: u64) -> Vec<Hex32> {
        (0..n).map(|n| leaf_hash(canonical::digest_bytes("test", &n.to_be_bytes()))).collect()
    }

    #[test]
    fn frontier_agrees_with_rfc_6962() {
        let mut frontier = Frontier::default();
        let all = leaves(200);
        for (n, leaf) in all.iter().enumerate() {
            assert_eq!(frontier.root(), merkle_tree_hash(&all[..n]), "{n} leaves");
            for node in frontier.append(*leaf) {
                let width = 1_usize << node.level;
                let start = usize::try_from(node.index).unwrap() * width;
                assert_eq!(node.hash, merkle_tree_hash(&all[start..start + width]));
            }
            let stored = Frontier::from_parts(frontier.n_leaves(), frontier.peaks.clone());
            assert_eq!(stored.as_ref(), Some(&frontier));
        }
    }
}
