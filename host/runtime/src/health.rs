//! Damage in the nodes' databases: found when a node is opened, and by a check that repeats over all their rows.

use crate::files::all_missing;
use crate::fleet::EmbeddedFleet;
use gateway_domain::error_chain;
use gateway_domain::ids::KeyId;
use gateway_domain::key::Epoch;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::ports::{NodeFault, NodesStatus};
use gateway_node::{Cursor, Damage, Node, NodeError, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Findings that are kept for one node and round. A node with this many counts as unusable.
const DAMAGE_KEPT_MAX: usize = 1024;

/// Findings of one node that are reported as text.
const FINDINGS_REPORTED_MAX: usize = 16;

/// The findings by participant.
#[derive(Default)]
pub(crate) struct Health(Mutex<BTreeMap<ParticipantIndex, Rounds>>);

/// The check of one node. A round checks every row once; the findings of the last round count until this one is complete.
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
    /// Starts the first round of a node. The findings of the check at its opening count as the last round's.
    pub(crate) fn opened(&self, participant: ParticipantIndex, found: Vec<Damage>) {
        let before = found.into_iter().take(DAMAGE_KEPT_MAX).collect();
        self.lock().insert(participant, Rounds { before, ..Rounds::default() });
    }

    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    fn cursor(&self, participant: ParticipantIndex) -> Cursor {
        self.lock().entry(participant).or_default().at.clone()
    }

    fn record(&self, participant: ParticipantIndex, found: Vec<Damage>, next: Option<Cursor>) {
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

    /// The findings of this round and the last one.
    fn findings(&self, participant: ParticipantIndex) -> BTreeSet<Damage> {
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
    /// Checks the next rows of every node that has a database. [`Self::status`] reports a node that cannot be opened.
    pub(crate) async fn check_next_rows(&self) {
        for participant in self.known() {
            let Ok(node) = self.node(participant).await else { continue };
            let (found, next) = match node.check(self.health.cursor(participant)).await {
                Ok(checked) => checked,
                Err(error) => (vec![unreadable(&error)], None),
            };
            self.health.record(participant, found, next);
        }
    }

    /// Which of the nodes that have a database can be opened and are usable, and their faults.
    pub(crate) async fn status(&self) -> NodesStatus {
        let known = self.known();
        let mut status = NodesStatus { open: BTreeSet::new(), n_known: known.len(), faults: BTreeMap::new() };
        for participant in known {
            let fault = match self.node(participant).await {
                Ok(node) => match full_disk(&node).await {
                    Some(what) => Err(what),
                    None => Ok(fault(self.health.findings(participant))),
                },
                Err(error) => Err(error_chain(&error)),
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

    /// The keys whose epoch is not the one that the node signs with. Empty for a node that cannot be opened or read.
    pub(crate) async fn shares_not_held(
        &self,
        participant: ParticipantIndex,
        keys: &[(KeyId, Epoch)],
    ) -> BTreeMap<KeyId, String> {
        // Opening a node whose database was deleted would create an empty one.
        if !self.known().contains(&participant) {
            return all_missing(keys).collect();
        }
        let Ok(node) = self.node(participant).await else { return BTreeMap::new() };
        node.missing_shares(keys).await.unwrap_or_default().into_iter().collect()
    }
}

/// The finding for a full disk; `None` if the node can write.
async fn full_disk(node: &Node) -> Option<String> {
    let path = node.full_disk().await?;
    Some(format!("the disk with `{}` is full", path.display()))
}

/// Whether the node is usable, and its fault if it is damaged. A damaged share or record leaves the rest of a node usable.
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

/// The finding for a node that cannot be checked, which makes it unusable.
pub(crate) fn unreadable(error: &NodeError) -> Damage {
    let what = format!("cannot be checked: {}", error_chain(error));
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
        health.findings(NODE).into_iter().map(|damage| damage.row).collect()
    }

    #[test]
    fn damage_stands_until_a_complete_round_does_not_find_it() {
        let health = Health::default();
        let next = || Some(Cursor::default());
        health.opened(NODE, vec![damage("a", Scope::Records)]);
        assert_eq!(rows(&health), ["a"]);
        health.record(NODE, vec![damage("b", Scope::Records)], next());
        assert_eq!(rows(&health), ["a", "b"], "this round is not complete yet");
        health.record(NODE, vec![], None);
        assert_eq!(rows(&health), ["b"], "the damage found at opening is repaired");
        health.record(NODE, vec![], next());
        assert_eq!(rows(&health), ["b"]);
        health.record(NODE, vec![], None);
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
