//! Damage in the nodes' databases: found when a node is opened, and by a check that goes round their rows.

use crate::files::lacks_all;
use crate::fleet::EmbeddedFleet;
use gateway_domain::chain;
use gateway_domain::ids::KeyId;
use gateway_domain::key::Epoch;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::ports::{NodeFault, NodesStatus};
use gateway_node::{Cursor, Damage, Node, NodeError, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Findings that are kept of one node. A node with more counts as unusable.
const DAMAGE_KEPT_MAX: usize = 1024;

/// Findings of a node that are reported in words.
const FINDINGS_REPORTED_MAX: usize = 16;

/// The findings by participant.
#[derive(Default)]
pub(crate) struct Health(Mutex<BTreeMap<ParticipantIndex, Rounds>>);

/// A round checks every row of the node once. The findings of the last round stand until this one is complete.
#[derive(Default)]
struct Rounds {
    /// Where this round continues.
    at: Cursor,
    /// The findings of this round so far.
    found: BTreeSet<Damage>,
    /// The findings of the last complete round.
    before: BTreeSet<Damage>,
}

impl Health {
    /// Starts a first round, with the findings of the check at opening.
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

    /// The findings of this round and the last.
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
    /// Checks some rows of every node. [`Self::status`] reports a node that cannot be opened.
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

    /// Which of the nodes that have a database are open, or can be opened now, and their faults.
    pub(crate) async fn status(&self) -> NodesStatus {
        let known = self.known();
        let mut status = NodesStatus { open: BTreeSet::new(), n_known: known.len(), faults: BTreeMap::new() };
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
                        status.open.insert(participant);
                    }
                    status.faults.extend(fault.map(|fault| (participant, fault)));
                }
                Err(what) => {
                    let fault = NodeFault { findings: vec![what], n_findings: 1, keys: BTreeSet::new() };
                    status.faults.insert(participant, fault);
                }
            }
        }
        status
    }

    pub(crate) async fn not_held(
        &self,
        participant: ParticipantIndex,
        keys: &[(KeyId, Epoch)],
    ) -> BTreeMap<KeyId, String> {
        // Opening a node whose database is gone would create an empty one.
        if !self.known().contains(&participant) {
            return lacks_all(keys).collect();
        }
        let Ok(node) = self.node(participant).await else { return BTreeMap::new() };
        node.missing_shares(keys).await.unwrap_or_default().into_iter().collect()
    }
}

/// The node's disk, if it is full. Tries a write first.
async fn full_disk(node: &Node) -> Option<String> {
    let path = node.full_disk().await?;
    Some(format!("the disk with `{}` is full", path.display()))
}

/// Whether the node is usable at all, and its fault.
fn fault(damage: BTreeSet<Damage>) -> (bool, Option<NodeFault>) {
    let is_open = damage.len() < DAMAGE_KEPT_MAX && damage.iter().all(|found| found.scope != Scope::Node);
    let mut fault = NodeFault { n_findings: damage.len(), ..NodeFault::default() };
    for found in damage {
        if fault.findings.len() < FINDINGS_REPORTED_MAX {
            fault.findings.push(found.to_string());
        }
        match found.scope {
            Scope::Key(key_id) => _ = fault.keys.insert(key_id),
            Scope::Node | Scope::Records => {}
        }
    }
    (is_open, (fault.n_findings > 0).then_some(fault))
}

/// The finding for a node that cannot be checked, and so is not usable.
pub(crate) fn unreadable(error: &NodeError) -> Damage {
    let what = format!("cannot be checked: {}", chain(error));
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
    fn damage_stands_until_a_complete_round_does_not_find_it() {
        let health = Health::default();
        let more = || Some(Cursor::default());
        health.opened(NODE, vec![damage("a", Scope::Records)]);
        assert_eq!(rows(&health), ["a"]);
        health.checked(NODE, vec![damage("b", Scope::Records)], more());
        assert_eq!(rows(&health), ["a", "b"], "this round is not complete yet");
        health.checked(NODE, vec![], None);
        assert_eq!(rows(&health), ["b"], "the damage found at opening is repaired");
        health.checked(NODE, vec![], more());
        assert_eq!(rows(&health), ["b"]);
        health.checked(NODE, vec![], None);
        assert!(rows(&health).is_empty());
    }

    #[test]
    fn a_node_is_usable_unless_all_of_it_is_damaged() {
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
        assert!(!is_open, "not all of its damage is known");
        assert_eq!(found.unwrap().findings.len(), FINDINGS_REPORTED_MAX);
    }
}
