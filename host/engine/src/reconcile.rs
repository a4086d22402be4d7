//! Drives operations that owe a step while no request drives them: after a restart, an outage, or a request that failed.
//!
//! The store lists these operations, so recovery after a restart needs no other code.

use crate::engine::{Engine, Inner};
use crate::error::EngineError;
use gateway_domain::ids::OperationId;
use gateway_domain::time::EpochMs;
use tracing::Instrument;

/// The most operations in one round. Those that failed recently wait, so that they do not starve the others.
const ROUND_MAX: u32 = 4096;

impl Engine {
    /// One round: drives every operation that owes a step, and fails those whose approvals are overdue. Errors are
    /// logged, and the next round tries again. Returns the number of operations that owe nothing any longer.
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
        let deadline = EpochMs(now.0.saturating_sub(self.rules.approval_ttl_ms));
        let mut ids = self.ports.reads.operations_owing(ROUND_MAX).await?;
        ids.extend(self.ports.reads.operations_pending_since(deadline, ROUND_MAX).await?);
        let mut n_rested = 0;
        self.backoff.keep_only(&ids);
        for id in ids {
            if !self.backoff.is_due(id, self.ports.clock.now()) {
                continue;
            }
            let span = tracing::info_span!(target: "trace", "reconcile", operation_id = %id);
            match self.bring_to_rest(id).instrument(span).await {
                Ok(()) => {
                    self.backoff.record_success(id);
                    n_rested += 1;
                }
                Err(error) => {
                    let wait_ms = self.backoff.record_failure(id, self.ports.clock.now());
                    tracing::warn!(operation_id = %id, %error, wait_ms, "operation still owes a step");
                }
            }
        }
        Ok(n_rested)
    }

    async fn bring_to_rest(&self, id: OperationId) -> Result<(), EngineError> {
        let mut session = self.internal_session(id).await?;
        session.expire()?;
        session.drive().await
    }
}
