//! Whether each participant of a key that signs holds its share of the epoch in force.
//!
//! The nodes check what they hold for themselves. Only the gateway, which knows the keys, can detect that a share is missing
//! or that a node's database was replaced by an older one.

use crate::error::{ReadError, Unavailable};
use crate::ports::{NodesStatus, Ports};
use gateway_domain::ids::KeyId;
use gateway_domain::key::{CustodyKey, holders};
use gateway_domain::roster::ParticipantIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys checked in one step; each takes a lookup of about ten microseconds at each of its nodes.
const KEYS_PER_STEP: u32 = 64;

/// Keys that a node may lack before it no longer counts at all; readiness checks each of them.
const KEYS_LACKED_MAX: usize = 64;

/// Findings of a node that are kept as text.
const FINDINGS_SHOWN_MAX: usize = 16;

/// The shares that nodes lack, as last checked.
#[derive(Default)]
pub(crate) struct Holders(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// The last key of the previous step; none at the start of a round.
    after: Option<KeyId>,
    lacking: BTreeMap<(KeyId, ParticipantIndex), String>,
}

impl Holders {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        // No holder of the lock can panic in the middle of a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the next keys. Whether that ended a round over all of them.
    ///
    /// # Errors
    /// [`Unavailable`] when the store does not answer.
    pub(crate) async fn check_some(&self, ports: &Ports) -> Result<bool, Unavailable> {
        let after = self.lock().after;
        let keys = ports.reads.keys_after(after, KEYS_PER_STEP).await?;
        let last = keys.last().map(|key| key.key_id).filter(|_| keys.len() >= KEYS_PER_STEP as usize);
        let mut lacking = BTreeMap::new();
        for (node, held) in holders(&keys) {
            for (key_id, what) in ports.nodes.missing_shares(node, &held).await {
                lacking.insert((key_id, node), what);
            }
        }
        let changed = changed_since(ports, &keys, &lacking).await?;
        let mut seen = self.lock();
        let is_seen =
            |id: &KeyId| after.is_none_or(|after| *id > after) && last.is_none_or(|last| *id <= last);
        seen.lacking.retain(|(id, _), _| !is_seen(id));
        seen.lacking.extend(lacking.into_iter().filter(|((id, _), _)| !changed.contains(id)));
        seen.after = last;
        Ok(last.is_none())
    }

    /// Adds the missing shares to what the nodes report.
    pub(crate) fn add_to(&self, mut nodes: NodesStatus) -> NodesStatus {
        for ((key_id, node), what) in &self.lock().lacking {
            let fault = nodes.faults.entry(*node).or_default();
            fault.n_findings += 1;
            fault.keys.insert(*key_id);
            if fault.findings.len() < FINDINGS_SHOWN_MAX {
                fault.findings.push(format!("key_id {key_id}: {what}"));
            }
        }
        let is_gone = |node: &ParticipantIndex| {
            nodes.faults.get(node).is_some_and(|fault| fault.keys.len() > KEYS_LACKED_MAX)
        };
        let gone: BTreeSet<_> = nodes.open.iter().copied().filter(is_gone).collect();
        nodes.open.retain(|node| !gone.contains(node));
        nodes
    }
}

/// Keys that changed during the check, so that nodes only seemed to lack them: the next round checks them again.
async fn changed_since(
    ports: &Ports,
    keys: &[CustodyKey],
    lacking: &BTreeMap<(KeyId, ParticipantIndex), String>,
) -> Result<BTreeSet<KeyId>, Unavailable> {
    let suspected: BTreeSet<_> = lacking.keys().map(|(id, _)| *id).collect();
    let mut changed = BTreeSet::new();
    for key in keys.iter().filter(|key| suspected.contains(&key.key_id)) {
        let now = match ports.reads.key_load(key.key_id).await {
            Ok(now) => now,
            Err(ReadError::Unavailable(why)) => return Err(why),
            // The row is damaged, not the nodes: readiness reports that by itself.
            Err(ReadError::Damaged(_)) => None,
        };
        if now.is_none_or(|now| now.revision != key.revision) {
            changed.insert(key.key_id);
        }
    }
    Ok(changed)
}
