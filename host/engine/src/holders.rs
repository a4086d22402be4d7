//! Checks that each participant of a signing key holds its share of the key's current epoch.
//!
//! Each node checks the shares that it holds. Only the gateway, which knows the keys, can detect that a share is missing or
//! that a node's database was replaced by an older one.

use crate::error::{ReadError, Unavailable};
use crate::ports::{NodesStatus, Ports};
use gateway_domain::ids::KeyId;
use gateway_domain::key::{CustodyKey, expected_shares};
use gateway_domain::roster::ParticipantIndex;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Keys checked in one step; each takes a lookup of about ten microseconds at each of its nodes.
const KEYS_PER_STEP: u32 = 64;

/// The most faulty keys of a node that counts for its other keys. A node with more does not count for any key.
const FAULTY_KEYS_MAX: usize = 64;

/// The most findings of a node that are kept as text.
const FINDINGS_SHOWN_MAX: usize = 16;

/// The shares that nodes do not hold, as last checked.
#[derive(Default)]
pub(crate) struct HolderCheck(Mutex<Progress>);

#[derive(Default)]
struct Progress {
    /// The last key of the previous step; `None` at the start of a round.
    after: Option<KeyId>,
    /// The missing shares, each with what the node holds instead.
    missing: BTreeMap<(KeyId, ParticipantIndex), String>,
}

impl HolderCheck {
    /// Checks the next keys. Returns true if that ended a round over all keys.
    pub(crate) async fn check_some(&self, ports: &Ports) -> Result<bool, Unavailable> {
        let after = self.0.lock().after;
        let keys = ports.reads.keys_after(after, KEYS_PER_STEP).await?;
        let last = keys.last().map(|key| key.key_id).filter(|_| keys.len() >= KEYS_PER_STEP as usize);
        let mut missing = BTreeMap::new();
        for (node, expected) in expected_shares(&keys) {
            for (key_id, what) in ports.nodes.missing_shares(node, &expected).await {
                missing.insert((key_id, node), what);
            }
        }
        let changed = changed_since(ports, &keys, &missing).await?;
        let mut progress = self.0.lock();
        let is_checked =
            |id: &KeyId| after.is_none_or(|after| *id > after) && last.is_none_or(|last| *id <= last);
        progress.missing.retain(|(id, _), _| !is_checked(id));
        progress.missing.extend(missing.into_iter().filter(|((id, _), _)| !changed.contains(id)));
        progress.after = last;
        Ok(last.is_none())
    }

    /// Adds the missing shares to the faults of the nodes, and removes nodes with too many faults from the open ones.
    pub(crate) fn add_to(&self, mut nodes: NodesStatus) -> NodesStatus {
        for ((key_id, node), what) in &self.0.lock().missing {
            let fault = nodes.faults.entry(*node).or_default();
            fault.n_findings += 1;
            fault.keys.insert(*key_id);
            if fault.findings.len() < FINDINGS_SHOWN_MAX {
                fault.findings.push(format!("key_id {key_id}: {what}"));
            }
        }
        let is_too_faulty = |node: &ParticipantIndex| {
            nodes.faults.get(node).is_some_and(|fault| fault.keys.len() > FAULTY_KEYS_MAX)
        };
        let excluded: BTreeSet<_> = nodes.open.iter().copied().filter(is_too_faulty).collect();
        nodes.open.retain(|node| !excluded.contains(node));
        nodes
    }
}

/// The keys with missing shares that changed during the check, so that their shares may not be missing. The next
/// round checks them again.
async fn changed_since(
    ports: &Ports,
    keys: &[CustodyKey],
    missing: &BTreeMap<(KeyId, ParticipantIndex), String>,
) -> Result<BTreeSet<KeyId>, Unavailable> {
    let suspected: BTreeSet<_> = missing.keys().map(|(id, _)| *id).collect();
    let mut changed = BTreeSet::new();
    for key in keys.iter().filter(|key| suspected.contains(&key.key_id)) {
        let now = match ports.reads.key_load(key.key_id).await {
            Ok(now) => now,
            Err(ReadError::Unavailable(why)) => return Err(why),
            // The gateway's row is damaged, not the node's share. Readiness reports damaged rows.
            Err(ReadError::Damaged(_)) => None,
        };
        if now.is_none_or(|now| now.revision != key.revision) {
            changed.insert(key.key_id);
        }
    }
    Ok(changed)
}
