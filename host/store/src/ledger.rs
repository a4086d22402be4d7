//! The log of all events, as arithmetic: what an append completes, and where a log's right edge is stored.

use gateway_domain::ids::Hex32;
use gateway_domain::log::{Completed, Frontier, Place, Subtree, leaf_hash};

/// A log with some more events.
pub(crate) struct Appended {
    /// The right edge after them.
    pub(crate) frontier: Frontier,
    /// The inner nodes they completed.
    pub(crate) nodes: Vec<Completed>,
    /// The root after them.
    pub(crate) root: Hex32,
}

/// Adds events, by their hashes, to a log that stays as it was.
pub(crate) fn append(frontier: &Frontier, event_hashes: impl Iterator<Item = Hex32>) -> Appended {
    let mut frontier = frontier.clone();
    let nodes = event_hashes.flat_map(|hash| frontier.append(leaf_hash(hash))).collect();
    Appended { root: frontier.root(), nodes, frontier }
}

/// Where the complete subtrees of a log of `size` have their roots, largest first.
pub(crate) fn peaks(size: u64) -> impl Iterator<Item = Place> + Send {
    Subtree::whole(size).into_iter().flat_map(Subtree::places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_frontier_is_found_again_by_its_peaks() {
        let mut frontier = Frontier::default();
        let mut stored = BTreeMap::new();
        for n in 0..300_u64 {
            let peaks = peaks(n).map(|at| stored[&at]).collect();
            assert_eq!(Frontier::from_parts(n, peaks), Some(frontier.clone()), "{n} leaves");
            let hash = Hex32::new([u8::try_from(n % 251).unwrap(); 32]);
            let appended = append(&frontier, [hash].into_iter());
            stored.insert(Place { level: 0, index: n }, leaf_hash(hash));
            let place = |node: &Completed| Place { level: node.level, index: node.index };
            stored.extend(appended.nodes.iter().map(|node| (place(node), node.hash)));
            frontier = appended.frontier;
        }
    }
}
