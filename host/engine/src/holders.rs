//! Whether the nodes hold what the store says they hold: every participant of a key that signs, its generation in force.
//!
//! The nodes check for themselves that what they have is whole. That something is missing, or an older database was put
//! in a node's place, only the gateway, which knows the keys, can tell.

use crate::engine::{Engine, Inner};
use crate::error::Unavailable;
use crate::ports::{NodesStatus, ReadError};
use gateway_domain::ids::KeyId;
use gateway_domain::key::{CustodyKey, holders};
use gateway_domain::roster::ParticipantIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys looked at in one step: a lookup at each of their nodes, which is some ten microseconds.
const KEYS_PER_STEP: u32 = 64;

/// Keys that a node may lack before it counts as gone: readiness looks at each of them.
const KEYS_LACKED_MAX: usize = 64;

/// Findings of a node that are kept in words.
const FINDINGS_SHOWN_MAX: usize = 16;

/// What nodes lack, as last seen.
#[derive(Default)]
pub(crate) struct Holders(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// The last key of the step before; none at the beginning of a round.
    after: Option<KeyId>,
    lacking: BTreeMap<(KeyId, ParticipantIndex), String>,
}

impl Holders {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        // Nothing that holds the lock can leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Goes on with the check of the nodes: some rows of each, and some keys. Whether a round over the keys has ended.
    ///
    /// # Errors
    /// [`Unavailable`] when the store does not say which keys there are.
    pub async fn check_nodes(&self) -> Result<bool, Unavailable> {
        self.0.ports.nodes.check().await;
        self.0.check_holders().await
    }

    /// Checks all keys, for a start: what is wrong is known before anything is served.
    ///
    /// # Errors
    /// As [`Self::check_nodes`].
    pub async fn check_every_holder(&self) -> Result<(), Unavailable> {
        while !self.0.check_holders().await? {}
        Ok(())
    }

    /// Which nodes answer, and all that is known to be wrong with what they hold.
    ///
    /// # Errors
    /// [`Unavailable`] when nobody can say.
    pub async fn nodes(&self) -> Result<NodesStatus, Unavailable> {
        let mut nodes = self.0.ports.nodes.nodes_status().await?;
        for ((key_id, node), what) in &self.0.holders.lock().lacking {
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
        Ok(nodes)
    }
}

impl Inner {
    async fn check_holders(&self) -> Result<bool, Unavailable> {
        let after = self.holders.lock().after;
        let keys = self.ports.reads.keys_after(after, KEYS_PER_STEP).await?;
        let last = keys.last().map(|key| key.key_id).filter(|_| keys.len() >= KEYS_PER_STEP as usize);
        let mut lacking = BTreeMap::new();
        for (node, held) in holders(&keys) {
            for (key_id, what) in self.ports.nodes.lacking(node, &held).await {
                lacking.insert((key_id, node), what);
            }
        }
        let moved = self.moved_since(&keys, &lacking).await?;
        let mut seen = self.holders.lock();
        let is_seen =
            |id: &KeyId| after.is_none_or(|after| *id > after) && last.is_none_or(|last| *id <= last);
        seen.lacking.retain(|(id, _), _| !is_seen(id));
        seen.lacking.extend(lacking.into_iter().filter(|((id, _), _)| !moved.contains(id)));
        seen.after = last;
        Ok(last.is_none())
    }

    /// Keys that nodes seemed to lack because they were changed meanwhile: the next round sees them again.
    async fn moved_since(
        &self,
        keys: &[CustodyKey],
        lacking: &BTreeMap<(KeyId, ParticipantIndex), String>,
    ) -> Result<BTreeSet<KeyId>, Unavailable> {
        let suspected: BTreeSet<_> = lacking.keys().map(|(id, _)| *id).collect();
        let mut moved = BTreeSet::new();
        for key in keys.iter().filter(|key| suspected.contains(&key.key_id)) {
            let now = match self.ports.reads.key_load(key.key_id).await {
                Ok(now) => now,
                Err(ReadError::Unavailable(why)) => return Err(why),
                // Its row is wrong, and not the nodes: that has a check of its own.
                Err(ReadError::Damaged(_)) => None,
            };
            if now.is_none_or(|now| now.revision != key.revision) {
                moved.insert(key.key_id);
            }
        }
        Ok(moved)
    }
}
