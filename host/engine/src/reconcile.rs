//! Drives operations that owe a step while no request drives them: after a restart, an outage, or a request that failed.
//!
//! The store lists these operations with their backoff, so recovery after a restart needs no other code. Each tenant has its own turn:
//! operations of one tenant that cannot finish do not delay those of the others, but for a ceremony that waits for its nodes: a round
//! ends when all turns have, and a turn is not cut off in the middle of an operation.

use crate::engine::{Engine, Inner};
use crate::error::EngineError;
use crate::ports::{Deferral, Due};
use futures_util::stream::{self, StreamExt as _};
use gateway_domain::ids::OperationId;
use gateway_domain::time::EpochMs;
use std::collections::BTreeMap;
use tracing::Instrument;

/// The most operations in one round.
const ROUND_MAX: u32 = 4096;

/// The most operations of one tenant in one round.
const OF_TENANT_MAX: u32 = 64;

/// The tenants whose operations are driven at the same time.
const TENANTS_AT_ONCE: usize = 8;

/// The time in one round, milliseconds, after which a tenant's other operations wait for the next round.
const TURN_MS: u64 = 5_000;

/// The wait after the first failure, milliseconds; each further failure doubles it.
const WAIT_FIRST_MS: u64 = 1_000;

/// The longest wait, milliseconds, so that operations continue within a minute after an outage.
const WAIT_LAST_MS: u64 = 60_000;

impl Engine {
    /// One round: drives operations that owe a step or were postponed until now, and fails those whose approvals or execution are overdue.
    /// Errors are logged, and tried again after a wait. Returns the number of operations that this round changed and that rest now; if there
    /// are some, the next round may find more.
    pub async fn reconcile(&self) -> usize {
        match self.0.reconcile().await {
            Ok(n_rested) => n_rested,
            Err(error) => {
                tracing::warn!(%error, "the reconciler could not list the operations to drive");
                0
            }
        }
    }
}

impl Inner {
    async fn reconcile(&self) -> Result<usize, EngineError> {
        self.check_may_write()?;
        let now = self.ports.clock.now();
        let before = |ttl_ms: u64| EpochMs(now.0.saturating_sub(ttl_ms));
        let (submitted, admitted) = (before(self.rules.approval_ttl_ms), before(self.rules.admission_ttl_ms));
        let mut due = self.ports.reads.operations_owing(now, OF_TENANT_MAX, ROUND_MAX).await?;
        due.extend(self.ports.reads.operations_overdue(submitted, admitted, now, ROUND_MAX).await?);
        let mut by_tenant = BTreeMap::<_, Vec<Due>>::new();
        for one in due {
            by_tenant.entry(one.tenant.clone()).or_default().push(one);
        }
        let turns = stream::iter(by_tenant.into_values()).map(|due| self.turn(due));
        let turns: Vec<_> = turns.buffer_unordered(TENANTS_AT_ONCE).collect().await;
        Ok(turns.into_iter().sum())
    }

    /// Drives these operations of one tenant. Returns the number of those that changed and rest.
    async fn turn(&self, due: Vec<Due>) -> usize {
        let ends_at = self.ports.clock.now().plus_ms(TURN_MS);
        let (mut n_rested, mut deferrals) = (0, Vec::new());
        for Due { id, tenant: _, waited_ms } in due {
            if self.ports.clock.now() >= ends_at {
                // Given back, also to other replicas.
                deferrals.push(Deferral { id, wait_ms: 0, waited_ms });
                continue;
            }
            let span = tracing::info_span!(target: "trace", "reconcile", operation_id = %id);
            match self.bring_to_rest(id).instrument(span).await {
                Ok(has_changed) => n_rested += usize::from(has_changed),
                Err(error) => {
                    let wait_ms = waited_ms.saturating_mul(2).clamp(WAIT_FIRST_MS, WAIT_LAST_MS);
                    tracing::warn!(operation_id = %id, %error, wait_ms, "operation still owes a step");
                    deferrals.push(Deferral { id, wait_ms, waited_ms: wait_ms });
                }
            }
        }
        if !deferrals.is_empty()
            && let Err(error) = self.ports.commits.defer(&deferrals, self.ports.clock.now()).await
        {
            tracing::warn!(%error, "the waits of operations that owe a step could not be stored");
        }
        n_rested
    }

    /// Returns whether the operation changed. One that a request holds is left to it.
    async fn bring_to_rest(&self, id: OperationId) -> Result<bool, EngineError> {
        let Some(lock) = self.locks.try_lock(id) else { return Ok(false) };
        let mut session = self.locked_session(id, lock).await?;
        let before = session.operation.revision;
        session.expire()?;
        session.drive().await?;
        Ok(session.operation.revision != before)
    }
}
