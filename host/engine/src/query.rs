//! Reads, and the preview that creates nothing.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::fit::check_key;
use crate::ports::{PolicyHealth, PolicyStatus, PreviewRecord, Record};
use crate::target::Target;
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::Tenant;
use gateway_domain::intent::{self, Intent};
use gateway_domain::policy::{self, Input, Moment};

/// A question to the policy without an operation.
#[derive(Clone, Debug)]
pub struct Preview {
    /// Whose operation it would be.
    pub tenant: Tenant,
    /// Who would submit it.
    pub submitter: ClientBinding,
    /// What would be done.
    pub intent: Intent,
    /// The approvals it would have, oldest first.
    pub approvals: Vec<Approval>,
}

impl Engine {
    /// The operation, for this caller.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Unavailable`.
    pub async fn operation(&self, target: &Target) -> Result<Record, EngineError> {
        self.0.find(target).await
    }

    /// The operation and its events as the chain has them, oldest first.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Unavailable`.
    pub async fn history(&self, target: &Target) -> Result<(Record, Vec<ChainedEvent>), EngineError> {
        let record = self.0.find(target).await?;
        let mut events = self.0.ports.reads.operation_events(target.id).await?;
        // Those that came between the two reads belong to a later record.
        events.truncate(usize::try_from(record.operation.revision).unwrap_or(usize::MAX));
        Ok((record, events))
    }

    /// What the policy would say. It is said once it is on record.
    ///
    /// # Errors
    /// [`EngineError`]: `RateLimited`, `Invalid`, `Unavailable`.
    pub async fn preview(&self, preview: Preview) -> Result<policy::Outcome, EngineError> {
        let Preview { tenant, submitter, intent, approvals } = preview;
        let budget = self.0.previews.take(&tenant, &submitter.client_id, self.0.ports.clock.now());
        budget.map_err(EngineError::previews_limited)?;
        self.0.check_nodes(&intent)?;
        let key_ref = self.0.key_ref_for(&intent)?;
        let key = self.0.ports.reads.key_load(intent::key_id(&tenant, &key_ref)?).await?;
        if let Some(key) = key.as_ref().filter(|key| !key.is_free()) {
            check_key(&intent, key)?;
        }
        let input = Input {
            moment: Moment::Preview,
            intent_hash: intent.hash()?,
            tenant,
            key_ref,
            submitter,
            intent,
            approvals,
        };
        let spent_beside = self.0.spending_asked(&input.intent);
        let required = self.0.required(&input.intent, &input.submitter);
        let outcome = self.0.judge(input.request(), key.as_ref(), spent_beside, required).await?;
        let n_kept = self.0.rules.preview_records_max;
        if n_kept > 0 {
            let at_ms = self.0.ports.clock.now();
            let record = PreviewRecord { at_ms, input, outcome: outcome.clone() };
            self.0.ports.commits.preview_record(record, n_kept).await?;
        }
        Ok(outcome)
    }

    /// Whether a bundle judges, without asking the store.
    #[must_use]
    pub fn policy_health(&self) -> PolicyHealth {
        self.0.ports.policies.health()
    }

    /// Which bundles there are, with at most `n_max` activations.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub async fn policies(&self, n_max: u32) -> Result<PolicyStatus, EngineError> {
        Ok(self.0.ports.policies.status(n_max).await?)
    }
}
