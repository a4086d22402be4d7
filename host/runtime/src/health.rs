//! What is known to be wrong with what the nodes hold: found when a node is opened, and in rounds.

use crate::fleet::EmbeddedFleet;
use gateway_domain::chain;
use gateway_domain::ids::KeyId;
use gateway_domain::key::Epoch;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::ports::{NodeFault, NodesStatus};
use gateway_node::{Cursor, Damage, Node, NodeError, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Findings of one node that are kept: a node with more is not counted any more.
const DAMAGE_KEPT_MAX: usize = 1024;

/// Findings of a node that are told in words.
const FINDINGS_TOLD_MAX: usize = 16;

/// By participant.
#[derive(Default)]
pub(crate) struct Health(Mutex<BTreeMap<ParticipantIndex, Rounds>>);

/// A round takes as long as the node has rows: what the last one found stands until this one has come as far.
#[derive(Default)]
struct Rounds {
    /// Where this round goes on.
    at: Cursor,
    /// What it found so far.
    found: BTreeSet<Damage>,
    /// What the last whole round found.
    before: BTreeSet<Damage>,
}

impl Health {
    /// Begins anew, with what was found when the node was opened.
    pub(crate) fn opened(&self, participant: ParticipantIndex, found: Vec<Damage>) {
        let before = found.into_iter().take(DAMAGE_KEPT_MAX).collect();
        self.lock().insert(participant, Rounds { before, ..Rounds::default() });
    }

    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    fn at(&self, participant: ParticipantIndex) -> Cursor {
        self.lock().entry(participant).or_default().at.clone()
    }

    fn checked(&self, participant: ParticipantIndex, found: Vec<Damage>, next: Option<Cursor>) {
        let mut nodes = self.lock();
        let rounds = nodes.entry(participant).or_default();
        let room = DAMAGE_KEPT_MAX.saturating_sub(rounds.found.len());
        rounds.found.extend(found.into_iter().take(room));
        rounds.at = match next {
            Some(next) => next,
            None => {
                rounds.before = std::mem::take(&mut rounds.found);
                Cursor::default()
            }
        };
    }

    /// Everything found, of this round and the last.
    fn of(&self, participant: ParticipantIndex) -> BTreeSet<Damage> {
        let nodes = self.lock();
        let rounds = nodes.get(&participant);
        rounds.map(|rounds| rounds.found.union(&rounds.before).cloned().collect()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ParticipantIndex, Rounds>> {
        // Nothing that holds the lock can leave the map half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EmbeddedFleet {
    /// Some rows of every node. One that can not be opened is found by [`Self::open`].
    pub(crate) async fn check_some(&self) {
        for participant in self.known() {
            let Ok(node) = self.node(participant).await else { continue };
            let (found, next) = match node.check(self.health.at(participant)).await {
                Ok(checked) => checked,
                Err(error) => (vec![unreadable(&error)], None),
            };
            self.health.checked(participant, found, next);
        }
    }

    /// Which of the nodes that have a database are open, or can be opened now, and what is wrong with them.
    pub(crate) async fn open(&self) -> NodesStatus {
        let known = self.known();
        let mut answering =
            NodesStatus { open: BTreeSet::new(), n_known: known.len(), faults: BTreeMap::new() };
        for participant in known {
            let fault = match self.node(participant).await {
                Ok(node) => match full_disk(&node).await {
                    Some(what) => Err(what),
                    None => Ok(fault(self.health.of(participant))),
                },
                Err(error) => Err(chain(&error)),
            };
            match fault {
                Ok((is_open, fault)) => {
                    if is_open {
                        answering.open.insert(participant);
                    }
                    answering.faults.extend(fault.map(|fault| (participant, fault)));
                }
                Err(what) => {
                    let fault = NodeFault { findings: vec![what], n_findings: 1, keys: BTreeSet::new() };
                    answering.faults.insert(participant, fault);
                }
            }
        }
        answering
    }

    pub(crate) async fn not_held(
        &self,
        participant: ParticipantIndex,
        keys: &[(KeyId, Epoch)],
    ) -> BTreeMap<KeyId, String> {
        // A node whose database is gone would be made anew by opening it: it lacks everything.
        if !self.known().contains(&participant) {
            let what = "it has no database";
            return keys.iter().map(|(key_id, _)| (*key_id, what.to_owned())).collect();
        }
        let Ok(node) = self.node(participant).await else { return BTreeMap::new() };
        node.check_holds(keys).await.unwrap_or_default().into_iter().collect()
    }
}

/// The disk of the node, when it is full; it is tried again first.
async fn full_disk(node: &Node) -> Option<String> {
    let path = node.full_disk().await?;
    Some(format!("the disk with `{}` is full", path.display()))
}

/// Whether the node counts at all, and what is wrong with it.
fn fault(damage: BTreeSet<Damage>) -> (bool, Option<NodeFault>) {
    let is_open = damage.len() < DAMAGE_KEPT_MAX && damage.iter().all(|found| found.scope != Scope::Node);
    let mut fault = NodeFault { n_findings: damage.len(), ..NodeFault::default() };
    for found in damage {
        if fault.findings.len() < FINDINGS_TOLD_MAX {
            fault.findings.push(found.to_string());
        }
        match found.scope {
            Scope::Key(key_id) => _ = fault.keys.insert(key_id),
            Scope::Node | Scope::Records => {}
        }
    }
    (is_open, (fault.n_findings > 0).then_some(fault))
}

/// As a finding, since the node is of no use.
pub(crate) fn unreadable(error: &NodeError) -> Damage {
    let what = format!("can not be checked: {}", chain(error));
    Damage { table: "database", row: String::new(), what, scope: Scope::Node }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::ids::Hex32;

    const NODE: ParticipantIndex = ParticipantIndex(1);

    fn damage(row: &str, scope: Scope) -> Damage {
        Damage { table: "share", row: row.to_owned(), what: "broken".to_owned(), scope }
    }

    fn rows(health: &Health) -> Vec<String> {
        health.of(NODE).into_iter().map(|damage| damage.row).collect()
    }

    #[test]
    fn damage_stands_until_a_whole_round_did_not_find_it() {
        let health = Health::default();
        let more = || Some(Cursor::default());
        health.opened(NODE, vec![damage("a", Scope::Records)]);
        assert_eq!(rows(&health), ["a"]);
        health.checked(NODE, vec![damage("b", Scope::Records)], more());
        assert_eq!(rows(&health), ["a", "b"], "this round has not come so far yet");
        health.checked(NODE, vec![], None);
        assert_eq!(rows(&health), ["b"], "what was found when it was opened is there no more");
        health.checked(NODE, vec![], more());
        assert_eq!(rows(&health), ["b"]);
        health.checked(NODE, vec![], None);
        assert!(rows(&health).is_empty());
    }

    #[test]
    fn a_node_counts_unless_all_of_it_is_damaged() {
        let key = KeyId(Hex32::new([1; 32]));
        assert_eq!(fault(BTreeSet::new()), (true, None));
        let (is_open, found) = fault([damage("a", Scope::Key(key)), damage("b", Scope::Records)].into());
        let found = found.unwrap();
        assert_eq!((is_open, found.n_findings, found.keys), (true, 2, BTreeSet::from([key])));
        assert_eq!(found.findings, ["share, a: broken", "share, b: broken"]);
        assert!(!fault([damage("a", Scope::Node)].into()).0);
        let many: BTreeSet<_> =
            (0..DAMAGE_KEPT_MAX).map(|n| damage(&n.to_string(), Scope::Records)).collect();
        let (is_open, found) = fault(many);
        assert!(!is_open, "with so much, more may not be known");
        assert_eq!(found.unwrap().findings.len(), FINDINGS_TOLD_MAX);
    }
}
