//! The nodes that make up a proof.
//!
//! A log stores the roots of its complete subtrees. Every hash of a proof is the root of some subtree. The subtree at the
//! log's right edge may be incomplete; its root is computed from the complete subtrees that it consists of.

use super::tree::node_hash;
use crate::ids::Hex32;

/// The position of a complete subtree's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePosition {
    /// 0 for a leaf, 1 for the parent of two leaves.
    pub level: u32,
    /// 0-based position within the level.
    pub index: u64,
}

/// A subtree of a log: the leaves `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subtree {
    // INVARIANT: `start < end`, and `start` is a multiple of each power of two up to `end - start`; kept by `split`.
    start: u64,
    end: u64,
}

/// The subtrees whose roots prove that a log of `size` leaves has the leaf `index`, in the proof's order: from the leaf's
/// sibling to the root's child (RFC 6962, section 2.1.1). `None` when the log has no such leaf.
#[must_use]
pub fn inclusion(index: u64, size: u64) -> Option<Vec<Subtree>> {
    let mut subtree = Subtree::whole(size).filter(|log| index < log.end)?;
    let mut siblings = Vec::new();
    while let Some((left, right)) = subtree.split() {
        let (with_leaf, sibling) = if index < left.end { (left, right) } else { (right, left) };
        siblings.push(sibling);
        subtree = with_leaf;
    }
    siblings.reverse();
    Some(siblings)
}

/// The subtrees whose roots prove that a log of `second` leaves begins with the log of `first` leaves, in the proof's order
/// (RFC 6962, section 2.1.2); empty for equal sizes. `None` when `first` is zero or above `second`.
#[must_use]
pub fn consistency(first: u64, second: u64) -> Option<Vec<Subtree>> {
    let mut subtree = Subtree::whole(second).filter(|log| 0 < first && first <= log.end)?;
    let mut parts = Vec::new();
    // Until the descent goes right, the subtree begins with the whole first log, whose root the verifier knows.
    let mut is_known = true;
    while first < subtree.end {
        let Some((left, right)) = subtree.split() else { break };
        if first <= left.end {
            parts.push(right);
            subtree = left;
        } else {
            parts.push(left);
            subtree = right;
            is_known = false;
        }
    }
    if !is_known {
        parts.push(subtree);
    }
    parts.reverse();
    Some(parts)
}

impl Subtree {
    /// The tree of a log with `size` leaves. `None` for an empty log, which has no nodes.
    #[must_use]
    pub const fn whole(size: u64) -> Option<Self> {
        if size == 0 { None } else { Some(Self { start: 0, end: size }) }
    }

    /// The positions of the complete subtrees that it consists of, largest first. Its own position when it is complete.
    pub fn positions(self) -> impl Iterator<Item = NodePosition> + Send {
        let n_leaves = self.end.saturating_sub(self.start);
        let is_set = move |level: &u32| (n_leaves >> level) & 1 == 1;
        (0..u64::BITS).rev().filter(is_set).map(move |level| {
            let before = (n_leaves >> level).saturating_sub(1);
            NodePosition { level, index: (self.start >> level).saturating_add(before) }
        })
    }

    /// Its root, computed from the roots of the complete subtrees that it consists of.
    ///
    /// # Errors
    /// The first position for which `hash_at` has no hash.
    pub fn root(self, mut hash_at: impl FnMut(NodePosition) -> Option<Hex32>) -> Result<Hex32, NodePosition> {
        let hashes = self.positions().map(|at| hash_at(at).ok_or(at)).collect::<Result<Vec<_>, _>>()?;
        let folded = hashes.into_iter().rev().reduce(|right, left| node_hash(left, right));
        folded.ok_or(NodePosition { level: 0, index: self.start })
    }

    /// Its two parts, the left one as large as the largest power of two below its size. `None` for a leaf.
    fn split(self) -> Option<(Self, Self)> {
        let below = self.end.saturating_sub(self.start).saturating_sub(1);
        let middle = self.start.saturating_add(1 << below.checked_ilog2()?);
        Some((Self { end: middle, ..self }, Self { start: middle, ..self }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tree::Frontier;
    use crate::log::tree::tests::{leaves, merkle_tree_hash};
    use std::collections::BTreeMap;

    const N: u64 = 130;

    /// The nodes that a store has for these leaves.
    fn stored(leaves: &[Hex32]) -> BTreeMap<NodePosition, Hex32> {
        let mut frontier = Frontier::default();
        let mut nodes = BTreeMap::new();
        for (index, leaf) in (0..).zip(leaves) {
            nodes.insert(NodePosition { level: 0, index }, *leaf);
            let completed = frontier.append(*leaf).into_iter();
            nodes.extend(
                completed.map(|node| (NodePosition { level: node.level, index: node.index }, node.hash)),
            );
        }
        nodes
    }

    fn roots(parts: Vec<Subtree>, nodes: &BTreeMap<NodePosition, Hex32>) -> Vec<Hex32> {
        parts.into_iter().map(|part| part.root(|place| nodes.get(&place).copied()).unwrap()).collect()
    }

    /// PATH(m, D[n]) of RFC 6962, section 2.1.1.
    fn path(m: usize, leaves: &[Hex32]) -> Vec<Hex32> {
        if leaves.len() < 2 {
            return vec![];
        }
        let k = leaves.len().next_power_of_two() / 2;
        let (mut inside, outside) = if m < k {
            (path(m, &leaves[..k]), merkle_tree_hash(&leaves[k..]))
        } else {
            (path(m - k, &leaves[k..]), merkle_tree_hash(&leaves[..k]))
        };
        inside.push(outside);
        inside
    }

    /// SUBPROOF(m, D[n], b) of RFC 6962, section 2.1.2.
    fn subproof(m: usize, leaves: &[Hex32], b: bool) -> Vec<Hex32> {
        if m == leaves.len() {
            return if b { vec![] } else { vec![merkle_tree_hash(leaves)] };
        }
        let k = leaves.len().next_power_of_two() / 2;
        let (mut inside, outside) = if m <= k {
            (subproof(m, &leaves[..k], b), merkle_tree_hash(&leaves[k..]))
        } else {
            (subproof(m - k, &leaves[k..], false), merkle_tree_hash(&leaves[..k]))
        };
        inside.push(outside);
        inside
    }

    #[test]
    fn proofs_agree_with_rfc_6962() {
        let leaves = leaves(N);
        let nodes = stored(&leaves);
        for size in 1..=N {
            let log = &leaves[..usize::try_from(size).unwrap()];
            let root = Subtree::whole(size).unwrap().root(|place| nodes.get(&place).copied());
            assert_eq!(root, Ok(merkle_tree_hash(log)));
            for below in 0..size {
                let m = usize::try_from(below).unwrap();
                assert_eq!(roots(inclusion(below, size).unwrap(), &nodes), path(m, log));
                let proof = roots(consistency(below + 1, size).unwrap(), &nodes);
                assert_eq!(proof, subproof(m + 1, log, true));
            }
        }
    }

    #[test]
    fn leaves_outside_the_log_have_no_proof() {
        for (index, size) in [(0, 0), (1, 1), (u64::MAX, u64::MAX)] {
            assert_eq!(inclusion(index, size), None);
        }
        for (first, second) in [(0, 0), (0, 1), (2, 1), (u64::MAX, 1)] {
            assert_eq!(consistency(first, second), None);
        }
    }

    /// Also at the largest sizes, without overflow.
    #[test]
    fn proof_needs_at_most_twice_the_height_in_nodes() {
        let n_places =
            |parts: Option<Vec<Subtree>>| parts.unwrap().into_iter().flat_map(Subtree::positions).count();
        for size in [1, 2, 3, 1000, 1_000_000, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX] {
            let height = size.ilog2() as usize + 1;
            for at in [0, 1, size / 3, size / 2, size - 1].map(|at| at.min(size - 1)) {
                assert!(n_places(inclusion(at, size)) <= 2 * height, "{at} of {size}");
                assert!(n_places(consistency(at + 1, size)) <= 2 * height, "{at} of {size}");
            }
        }
    }

    #[test]
    fn missing_node_is_named() {
        let subtree = Subtree::whole(3).unwrap();
        let hash = Hex32::ZERO;
        assert_eq!(
            subtree.root(|at| (at.level == 0).then_some(hash)),
            Err(NodePosition { level: 1, index: 0 })
        );
        assert_eq!(
            subtree.root(|at| (at.level == 1).then_some(hash)),
            Err(NodePosition { level: 0, index: 2 })
        );
    }
}
