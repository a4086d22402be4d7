//! Node recovery: drive what is owed, then answer for the effect that was named.

use crate::engine::{Engine, Inner};
use crate::error::EngineError;
use crate::ports::Record;
use crate::secret::Secrets;
use crate::target::{Target, until_unraced};
use gateway_domain::ids::Hex32;
use gateway_domain::operation::{Ask, Recovery, RecoveryOutcome};
use std::sync::Arc;

/// A request to recover, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recover {
    /// The effect as the caller names it.
    pub effect_id: String,
    /// The result the caller expects.
    pub result_root: Hex32,
}

impl Engine {
    /// Brings the named effect to its end, or says what became of it. Idempotent by effect id.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `Unavailable`.
    pub async fn recover(
        &self,
        target: Target,
        recover: Recover,
        secrets: Secrets,
    ) -> Result<(Recovery, Record), EngineError> {
        let (engine, secrets) = (self.clone(), Arc::new(secrets));
        let work =
            async move { until_unraced(|| Box::pin(engine.0.recover(&target, &recover, &secrets))).await };
        self.run_to_end(work).await
    }
}

impl Inner {
    async fn recover(
        &self,
        target: &Target,
        recover: &Recover,
        secrets: &Secrets,
    ) -> Result<(Recovery, Record), EngineError> {
        let _turn = self.locks.lock(target.id).await;
        let mut draft = self.find_draft(target).await?;
        self.drive(&mut draft, secrets).await?;
        let now = self.ports.clock.now();
        let ask = Ask::Recover { effect_id: recover.effect_id.clone(), result_root: recover.result_root };
        draft.ask(now, ask)?;
        draft.commit(self).await?;
        let record = draft.into_record();
        let recovery = record.operation.recoveries.iter().find(|known| known.effect_id == recover.effect_id);
        // Only when an operation has more recoveries than are kept: said, and not recorded.
        let recovery = recovery.cloned().unwrap_or_else(|| Recovery {
            effect_id: recover.effect_id.clone(),
            outcome: RecoveryOutcome::UnknownEffect,
            result_root: recover.result_root,
            recovered_at_ms: now,
            participants: Vec::new(),
        });
        Ok((recovery, record))
    }
}
