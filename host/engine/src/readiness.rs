//! Readiness: whether each part of the gateway works.

use crate::engine::{Engine, LastProbe};
use crate::error::{Damage, Dependency, ReadError, Unavailable};
use crate::ports::{KeyQuorum, NodesStatus, PolicyHealth};
use gateway_domain::approval::ApprovalError;
use gateway_domain::ids::KeyId;
use gateway_domain::key::CustodyKey;
use gateway_domain::roster::{ParticipantIndex, THRESHOLD_MIN};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// The timeout of one check.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The time for which the result of a costly check, such as a sync to disk, is reused. Anyone can send readiness probes.
const PROBE_EVERY_MS: u64 = 1_000;

/// The most keys with a missing or damaged share that are looked up one by one.
const DAMAGED_KEYS_MAX: usize = 1024;

/// The most combinations of holders and threshold that are checked. A deployment has a few, and each costs microseconds.
const KEY_QUORUMS_MAX: u32 = 256;

/// The result of each check.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Reads from the store.
    pub store: Result<(), Unavailable>,
    /// Operations and keys whose records disagreed with their events when they were last read.
    pub records: Vec<Damage>,
    /// Writes to the store and the log of all events.
    pub audit_append: Result<(), Unavailable>,
    /// This process agrees with the other replicas of the store.
    pub replicas: Result<(), Unavailable>,
    /// The policy bundles.
    pub policy: PolicyHealth,
    /// The registry of approvers, if approvals are verified.
    pub approvers: Result<(), Unavailable>,
    /// The authority, which signs admissions.
    pub authority: Result<(), Unavailable>,
    /// The runtime nodes.
    pub nodes: Result<NodesStatus, Unavailable>,
    /// What is known of the witnesses of the log, which is no check; `None` without witnesses.
    pub witnesses: Option<String>,
}

impl Readiness {
    /// Whether all checks pass.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.store.is_ok()
            && self.records.is_empty()
            && self.audit_append.is_ok()
            && self.replicas.is_ok()
            && self.policy.fault.is_none()
            && self.approvers.is_ok()
            && self.authority.is_ok()
            && self.nodes.is_ok()
    }
}

impl Engine {
    /// Runs all checks concurrently, each with a timeout of two seconds.
    pub async fn readiness(&self) -> Readiness {
        let ports = &self.0.ports;
        let now = ports.clock.now();
        let (store, audit_append, authority, nodes, key_quorums) = tokio::join!(
            within(Dependency::Store, ports.reads.ping()),
            self.once_a_second(&self.0.last_write, ports.commits.probe_write(now)),
            within(Dependency::Authority, ports.authority.check()),
            within(Dependency::Runtime, self.nodes()),
            self.once_a_second(&self.0.last_key_quorums, ports.reads.key_quorums(KEY_QUORUMS_MAX)),
        );
        let store = store.and_then(|()| self.0.check_complete());
        let policy = ports.policies.health();
        // A store that cannot list the keys fails its own check.
        let key_quorums = key_quorums.unwrap_or_default();
        let nodes = match nodes {
            Ok(nodes) => within(Dependency::Store, self.damaged_keys(&nodes))
                .await
                .and_then(|damaged| check_quorums(nodes, &key_quorums, &damaged)),
            Err(why) => Err(why),
        };
        let records = ports.reads.damage();
        let approvers = if self.can_verify_approvals() {
            Ok(())
        } else {
            Err(Unavailable::new(Dependency::Policy, ApprovalError::NoRegistry.to_string()))
        };
        let replicas = self.0.check_replica();
        let witnesses = self.0.witnesses_report();
        Readiness { store, records, audit_append, replicas, policy, approvers, authority, nodes, witnesses }
    }

    /// Checks some more rows of each node and some more keys. Returns true when a round over all keys has ended.
    pub async fn check_nodes(&self) -> Result<bool, Unavailable> {
        self.0.ports.nodes.check().await;
        self.0.holders.check_some(&self.0.ports).await
    }

    /// Checks all keys once, before the gateway serves requests.
    pub async fn check_every_holder(&self) -> Result<(), Unavailable> {
        while !self.0.holders.check_some(&self.0.ports).await? {}
        Ok(())
    }

    /// The nodes that answer, and all known faults of the shares that nodes hold.
    ///
    /// # Errors
    /// [`Unavailable`] when the runtime does not answer.
    pub async fn nodes(&self) -> Result<NodesStatus, Unavailable> {
        Ok(self.0.holders.add_to(self.0.ports.nodes.nodes_status().await?))
    }

    /// Whether approvals can count: if they are verified, only while the registry of approvers can be read.
    #[must_use]
    pub fn can_verify_approvals(&self) -> bool {
        self.0.rules.signed_approvals.can_verify()
    }

    /// Signing keys of which some node's share is missing or damaged, with their holders and threshold.
    async fn damaged_keys(&self, nodes: &NodesStatus) -> Result<Vec<(KeyId, KeyQuorum)>, Unavailable> {
        let ids: BTreeSet<_> =
            nodes.faults.values().flat_map(|fault| &fault.keys).copied().take(DAMAGED_KEYS_MAX).collect();
        let mut damaged = Vec::new();
        for id in ids {
            let key = match self.0.ports.reads.key_load(id).await {
                Ok(key) => key.filter(|key| key.state.can_sign()),
                Err(ReadError::Unavailable(why)) => return Err(why),
                // A damaged key does not sign, and fails the check of records.
                Err(ReadError::Damaged(_)) => None,
            };
            damaged.extend(key.map(|CustodyKey { participants, threshold, .. }| {
                (id, KeyQuorum { participants, threshold })
            }));
        }
        Ok(damaged)
    }

    /// Runs the probe, or returns its last result if that is less than a second old.
    async fn once_a_second<T: Clone>(
        &self,
        last: &LastProbe<T>,
        probe: impl Future<Output = Result<T, Unavailable>>,
    ) -> Result<T, Unavailable> {
        let mut last = last.lock().await;
        let now = self.0.ports.clock.now();
        if let Some((at, answer)) = &*last
            && now.0.saturating_sub(at.0) < PROBE_EVERY_MS
        {
            return answer.clone();
        }
        let answer = within(Dependency::Store, probe).await;
        // The time of the answer, so that requests that waited for it use it too.
        *last = Some((self.0.ports.clock.now(), answer.clone()));
        answer
    }
}

/// Checks that every signing key has its threshold of open nodes with an undamaged share. At least two nodes must be
/// open, the lowest threshold, unless fewer have been set up.
fn check_quorums(
    nodes: NodesStatus,
    keys: &[KeyQuorum],
    damaged: &[(KeyId, KeyQuorum)],
) -> Result<NodesStatus, Unavailable> {
    let n_open = nodes.open.len();
    let too_few = |detail: String| {
        let faults = nodes.faults_text();
        let detail = if faults.is_empty() { detail } else { format!("{detail}; {faults}") };
        Err(Unavailable::new(Dependency::Runtime, detail))
    };
    if n_open < usize::from(THRESHOLD_MIN).min(nodes.n_known) {
        return too_few(format!("{n_open} of {} nodes can be opened", nodes.n_known));
    }
    for KeyQuorum { participants, threshold } in keys {
        let n_open = participants.as_set().intersection(&nodes.open).count();
        if n_open < threshold.count() {
            let all: Vec<_> = participants.iter().map(|index| index.to_string()).collect();
            let (all, needed) = (all.join(", "), threshold.count());
            return too_few(format!(
                "{n_open} of the nodes {all} can be opened, and their keys need {needed}"
            ));
        }
    }
    for (key_id, KeyQuorum { participants, threshold }) in damaged {
        let is_sound = |node: &&ParticipantIndex| {
            nodes.faults.get(node).is_none_or(|fault| !fault.keys.contains(key_id))
        };
        let n_sound = participants.as_set().intersection(&nodes.open).filter(is_sound).count();
        if n_sound < threshold.count() {
            let needed = threshold.count();
            return too_few(format!(
                "key `{key_id}` needs {needed} nodes, and {n_sound} hold a sound share of it"
            ));
        }
    }
    Ok(nodes)
}

/// The answer, or [`Unavailable`] after two seconds.
async fn within<T>(
    dependency: Dependency,
    answer: impl Future<Output = Result<T, Unavailable>>,
) -> Result<T, Unavailable> {
    let late = || Unavailable::new(dependency, format!("no answer within {} ms", ANSWER_TIMEOUT.as_millis()));
    timeout(ANSWER_TIMEOUT, answer).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::NodeFault;
    use gateway_domain::ids::Hex32;
    use gateway_domain::roster::Roster;

    fn nodes_status(open: &[u16], n_known: usize) -> NodesStatus {
        let open = open.iter().copied().map(ParticipantIndex).collect();
        NodesStatus { open, n_known, ..NodesStatus::default() }
    }

    fn key(participants: &[u16], threshold: u16) -> KeyQuorum {
        let participants = Roster::parse(participants).unwrap();
        KeyQuorum { threshold: participants.threshold(threshold).unwrap(), participants }
    }

    #[test]
    fn without_keys_two_open_nodes_are_enough() {
        for (n_open, n_known, is_enough) in
            [(0, 0, true), (1, 1, true), (2, 16, true), (16, 16, true), (1, 2, false), (0, 3, false)]
        {
            let open: Vec<u16> = (0..n_open).collect();
            let checked = check_quorums(nodes_status(&open, n_known), &[], &[]);
            assert_eq!(checked.is_ok(), is_enough, "{n_open} of {n_known}");
        }
    }

    #[test]
    fn every_key_needs_a_threshold_of_its_own_holders() {
        let keys = [key(&[0, 1, 2], 2), key(&[2, 3, 4, 5, 6], 4)];
        for (open, expected) in [
            (&[0, 1, 2, 3, 4, 5, 6][..], None),
            (&[1, 2, 3, 4, 5], None),
            (&[0, 1, 3, 4, 5], Some("3 of the nodes 2, 3, 4, 5, 6 can be opened, and their keys need 4")),
            (&[2, 3, 4, 5, 6], Some("1 of the nodes 0, 1, 2 can be opened, and their keys need 2")),
            (&[7, 8], Some("0 of the nodes 0, 1, 2 can be opened, and their keys need 2")),
        ] {
            let missing = check_quorums(nodes_status(open, 9), &keys, &[]).err().map(|why| why.detail);
            assert_eq!(missing.as_deref(), expected, "{open:?}");
        }
    }

    #[test]
    fn faulty_node_counts_only_for_its_sound_keys() {
        let of = |byte| KeyId(Hex32::new([byte; 32]));
        let fault = |findings: &[&str], keys: &[u8]| NodeFault {
            findings: findings.iter().copied().map(str::to_owned).collect(),
            n_findings: findings.len(),
            keys: keys.iter().map(|byte| of(*byte)).collect(),
        };
        let damaged = [(of(1), key(&[0, 1, 2], 2)), (of(2), key(&[0, 1, 2], 2))];
        for (faults, expected) in [
            (vec![(0, fault(&["broken"], &[1]))], None),
            (vec![(0, fault(&["broken"], &[1])), (1, fault(&["broken"], &[2]))], None),
            (
                vec![(0, fault(&["broken"], &[1])), (2, fault(&["gone", "gone too"], &[1, 2]))],
                Some(
                    "key `KEY` needs 2 nodes, and 1 hold a sound share of it; node 0: broken; node 2: gone, and 1 more",
                ),
            ),
        ] {
            let faults = faults.into_iter().map(|(node, fault)| (ParticipantIndex(node), fault)).collect();
            let nodes = NodesStatus { faults, ..nodes_status(&[0, 1, 2], 3) };
            let missing = check_quorums(nodes, &[key(&[0, 1, 2], 2)], &damaged).err().map(|why| why.detail);
            let expected = expected.map(|expected| expected.replace("KEY", &of(1).to_string()));
            assert_eq!(missing, expected);
        }
    }
}
