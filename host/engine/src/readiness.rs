//! Whether the gateway can do its work: what each part says when it is asked.

use crate::engine::Engine;
use crate::error::{Dependency, Unavailable};
use crate::ports::{NodeCount, PolicyHealth};
use gateway_domain::time::EpochMs;
use std::time::Duration;
use tokio::time::timeout;

/// How long a part may take to say that it is there.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How long one answer of the write probe serves: probes come from anybody, and each that is carried out is a sync of
/// the disk.
const PROBE_EVERY_MS: u64 = 1_000;

/// The fewest nodes that sign anything: no key has a lower threshold.
const NODES_MIN: u16 = 2;

/// What each part says.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Reads.
    pub store: Result<(), Unavailable>,
    /// Commits, and with them the log of all events.
    pub audit_append: Result<(), Unavailable>,
    /// The bundles.
    pub policy: PolicyHealth,
    /// Who signs admissions.
    pub authority: Result<(), Unavailable>,
    /// The runtime nodes.
    pub nodes: Result<NodeCount, Unavailable>,
}

impl Readiness {
    /// Whether all of it is as it should be.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.store.is_ok()
            && self.audit_append.is_ok()
            && self.policy.fault.is_none()
            && self.authority.is_ok()
            && self.nodes.is_ok()
    }
}

/// The last answer of the write probe, and when it was had.
pub(crate) type LastProbe = tokio::sync::Mutex<Option<(EpochMs, Result<(), Unavailable>)>>;

impl Engine {
    /// Asks every part, and waits for none longer than two seconds.
    pub async fn readiness(&self) -> Readiness {
        let ports = &self.0.ports;
        let (store, audit_append, authority, nodes) = tokio::join!(
            within(Dependency::Store, ports.reads.ping()),
            self.probe_write(),
            within(Dependency::Authority, ports.authority.check()),
            within(Dependency::Runtime, ports.nodes.count()),
        );
        let policy = ports.policies.health();
        Readiness { store, audit_append, policy, authority, nodes: nodes.and_then(enough) }
    }

    async fn probe_write(&self) -> Result<(), Unavailable> {
        let now = self.0.ports.clock.now();
        let mut last = self.0.last_probe.lock().await;
        if let Some((at, answer)) = &*last
            && now.0.saturating_sub(at.0) < PROBE_EVERY_MS
        {
            return answer.clone();
        }
        let answer = within(Dependency::Store, self.0.ports.commits.probe_write(now)).await;
        // From when it was had: those who waited for it are served by it too.
        *last = Some((self.0.ports.clock.now(), answer.clone()));
        answer
    }
}

/// Nodes that were never needed have no database yet, and are not missed.
fn enough(nodes: NodeCount) -> Result<NodeCount, Unavailable> {
    if nodes.n_open >= NODES_MIN || nodes.n_open == nodes.n_known {
        return Ok(nodes);
    }
    let NodeCount { n_open, n_known } = nodes;
    Err(Unavailable::new(Dependency::Runtime, format!("{n_open} of {n_known} nodes can be opened")))
}

async fn within<T>(
    dependency: Dependency,
    answer: impl Future<Output = Result<T, Unavailable>>,
) -> Result<T, Unavailable> {
    let late = || Unavailable::new(dependency, format!("no answer within {} ms", ANSWER_WITHIN.as_millis()));
    timeout(ANSWER_WITHIN, answer).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_nodes_sign_something_and_nodes_never_needed_are_not_missed() {
        for (n_open, n_known, is_enough) in
            [(0, 0, true), (1, 1, true), (2, 16, true), (16, 16, true), (1, 2, false), (0, 3, false)]
        {
            assert_eq!(enough(NodeCount { n_open, n_known }).is_ok(), is_enough, "{n_open} of {n_known}");
        }
    }
}
