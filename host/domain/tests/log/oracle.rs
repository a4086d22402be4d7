//! Compares roots and proofs with another implementation of RFC 6962, and checks altered and random proofs.

use ct_merkle::mem_backed_tree::MemoryBackedTree;
use ct_merkle::{ConsistencyProof, InclusionProof};
use gateway_domain::canonical::digest_bytes;
use gateway_domain::ids::Hex32;
use gateway_domain::log::subtree::{consistency, inclusion};
use gateway_domain::log::{
    Frontier, NodePosition, ProofError, Subtree, empty_root, leaf_hash, verify_consistency, verify_inclusion,
};
use proptest::collection::vec;
use proptest::prelude::*;
use sha2_of_ct_merkle::Sha256;
use std::collections::BTreeMap;

type Oracle = MemoryBackedTree<Sha256, Vec<u8>>;

fn event(n: u64) -> Hex32 {
    digest_bytes("event", &n.to_be_bytes())
}

/// A log, as the store keeps it.
#[derive(Default)]
struct Log {
    frontier: Frontier,
    nodes: BTreeMap<NodePosition, Hex32>,
}

impl Log {
    fn of(size: u64) -> Self {
        let mut log = Self::default();
        (0..size).for_each(|n| log.push(event(n)));
        log
    }

    fn push(&mut self, event_hash: Hex32) {
        let leaf = leaf_hash(event_hash);
        self.nodes.insert(NodePosition { level: 0, index: self.frontier.n_leaves() }, leaf);
        for node in self.frontier.append(leaf) {
            self.nodes.insert(NodePosition { level: node.level, index: node.index }, node.hash);
        }
    }

    fn roots(&self, subtrees: Option<Vec<Subtree>>) -> Vec<Hex32> {
        let root = |subtree: Subtree| subtree.root(|place| self.nodes.get(&place).copied()).unwrap();
        subtrees.unwrap().into_iter().map(root).collect()
    }

    fn root_at(&self, size: u64) -> Hex32 {
        Subtree::whole(size).map_or(empty_root(), |log| self.roots(Some(vec![log]))[0])
    }
}

fn bytes(hashes: &[Hex32]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
}

#[test]
fn roots_and_proofs_agree_with_another_implementation() {
    let (mut log, mut oracle, mut roots) = (Log::default(), Oracle::new(), vec![Oracle::new().root()]);
    assert_eq!(log.frontier.root().as_bytes()[..], oracle.root().as_bytes()[..]);
    for size in 1..=150_u64 {
        log.push(event(size - 1));
        oracle.push(event(size - 1).as_bytes().to_vec());
        let root = oracle.root();
        assert_eq!(log.frontier.root().as_bytes()[..], root.as_bytes()[..], "{size} leaves");
        assert_eq!(log.root_at(size), log.frontier.root());
        for index in 0..size {
            let ours = log.roots(inclusion(index, size));
            assert_eq!(bytes(&ours), oracle.prove_inclusion(usize::try_from(index).unwrap()).as_bytes());
            let theirs = InclusionProof::<Sha256>::try_from_bytes(bytes(&ours)).unwrap();
            root.verify_inclusion(&event(index).as_bytes().to_vec(), index, &theirs).unwrap();
            assert_eq!(
                verify_inclusion(leaf_hash(event(index)), index, size, &ours, log.frontier.root()),
                Ok(())
            );
        }
        for first in 1..size {
            let ours = log.roots(consistency(first, size));
            let theirs = oracle.prove_consistency(usize::try_from(size - first).unwrap());
            assert_eq!(bytes(&ours), theirs.as_bytes(), "{first} to {size}");
            let theirs = ConsistencyProof::<Sha256>::try_from_bytes(bytes(&ours)).unwrap();
            root.verify_consistency(&roots[usize::try_from(first).unwrap()], &theirs).unwrap();
            let (old, new) = (log.root_at(first), log.frontier.root());
            assert_eq!(verify_consistency(first, size, &ours, old, new), Ok(()));
        }
        roots.push(root);
    }
}

#[test]
fn proof_of_wrong_length_is_rejected() {
    let log = Log::of(21);
    let hash = event(0);
    for size in 1..=21 {
        let root = log.root_at(size);
        for index in 0..size {
            let leaf = leaf_hash(event(index));
            let mut proof = log.roots(inclusion(index, size));
            proof.push(hash);
            assert_eq!(verify_inclusion(leaf, index, size, &proof, root), Err(ProofError::TooLong));
            proof.pop();
            if proof.pop().is_some() {
                assert_eq!(verify_inclusion(leaf, index, size, &proof, root), Err(ProofError::TooShort));
            }
            let (first, old) = (index + 1, log.root_at(index + 1));
            let mut proof = log.roots(consistency(first, size));
            proof.push(hash);
            assert_eq!(verify_consistency(first, size, &proof, old, root), Err(ProofError::TooLong));
            proof.pop();
            if proof.pop().is_some() {
                assert_eq!(verify_consistency(first, size, &proof, old, root), Err(ProofError::TooShort));
            }
        }
    }
}

/// Changes each bit of each hash, and each number.
#[test]
fn altered_proof_is_rejected() {
    let log = Log::of(40);
    let flipped = |hash: Hex32, bit: usize| {
        let mut bytes = *hash.as_bytes();
        bytes[bit / 8 % 32] ^= 1 << (bit % 8);
        Hex32::new(bytes)
    };
    for (index, size) in [(0, 1), (0, 40), (39, 40), (7, 13), (12, 13), (31, 33), (32, 33)] {
        let (leaf, root) = (leaf_hash(event(index)), log.root_at(size));
        let proof = log.roots(inclusion(index, size));
        for bit in 0..256 {
            assert!(verify_inclusion(flipped(leaf, bit), index, size, &proof, root).is_err());
            assert!(verify_inclusion(leaf, index, size, &proof, flipped(root, bit)).is_err());
            for at in 0..proof.len() {
                let mut changed = proof.clone();
                changed[at] = flipped(changed[at], bit);
                assert_eq!(verify_inclusion(leaf, index, size, &changed, root), Err(ProofError::Root));
            }
        }
        for other in (0..size).filter(|other| *other != index) {
            assert!(verify_inclusion(leaf, other, size, &proof, root).is_err(), "{other} in {size}");
        }
        let first = index + 1;
        let (old, proof) = (log.root_at(first), log.roots(consistency(first, size)));
        for bit in 0..256 {
            assert!(verify_consistency(first, size, &proof, flipped(old, bit), root).is_err());
            assert!(verify_consistency(first, size, &proof, old, flipped(root, bit)).is_err());
            for at in 0..proof.len() {
                let mut changed = proof.clone();
                changed[at] = flipped(changed[at], bit);
                assert!(verify_consistency(first, size, &changed, old, root).is_err(), "{first} to {size}");
            }
        }
        for other in (0..=size).filter(|other| *other != first) {
            assert!(verify_consistency(other, size, &proof, old, root).is_err(), "{other} of {size}");
        }
    }
}

fn any_hash() -> impl Strategy<Value = Hex32> {
    (0..4_u64).prop_map(event)
}

proptest! {
    #[test]
    fn random_proof_is_rejected(
        a in prop_oneof![0..70_u64, any::<u64>()],
        b in prop_oneof![0..70_u64, any::<u64>()],
        proof in vec(any_hash(), 0..70),
        leaf in any_hash(),
        root in any_hash(),
    ) {
        // A log of one leaf has the leaf's hash as its root, and equal roots prove equal logs.
        if !(proof.is_empty() && leaf == root) {
            prop_assert!(verify_inclusion(leaf, a, b, &proof, root).is_err());
            prop_assert!(verify_consistency(a, b, &proof, leaf, root).is_err());
        }
    }

    #[test]
    fn logs_of_any_size_have_valid_proofs(size in 1..3000_u64, at in any::<prop::sample::Index>()) {
        let log = Log::of(size);
        let index = at.index(usize::try_from(size).unwrap()) as u64;
        let root = log.frontier.root();
        let proof = log.roots(inclusion(index, size));
        prop_assert_eq!(verify_inclusion(leaf_hash(event(index)), index, size, &proof, root), Ok(()));
        let proof = log.roots(consistency(index + 1, size));
        prop_assert_eq!(verify_consistency(index + 1, size, &proof, log.root_at(index + 1), root), Ok(()));
    }
}
