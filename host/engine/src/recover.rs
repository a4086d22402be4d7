//! Node recovery: drive what is owed, then answer for the effect that was named.

use crate::engine::{Engine, Inner};
use crate::error::EngineError;
use crate::ports::Record;
use crate::secret::Secrets;
use crate::target::{Target, until_unraced};
use gateway_domain::ids::Hex32;
use gateway_domain::operation::{Action, Recovery, Requester, SettledEffect, recovery};
use std::sync::Arc;

/// A request to recover, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recover {
    /// The effect as the caller names it.
    pub effect_id: String,
    /// The result the caller expects.
    pub result_root: Hex32,
    /// Who sent it.
    pub requester: Option<Requester>,
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
        let _turn = self.locks.lock(target.id).await?;
        let mut draft = self.find_draft(target).await?;
        let is_settled = |effect: &SettledEffect| effect.id.to_string() == recover.effect_id;
        if !draft.operation.settled.iter().any(is_settled) {
            self.drive(&mut draft, secrets).await?;
        }
        let now = self.ports.clock.now();
        let (recovery, _) = recovery(&draft.operation, &recover.effect_id, recover.result_root, now)?;
        let ask = Action::Recover { effect_id: recover.effect_id.clone(), result_root: recover.result_root };
        draft.ask_for(recover.requester.as_ref(), now, ask)?;
        draft.commit(self).await?;
        Ok((recovery, draft.into_record()))
    }
}
