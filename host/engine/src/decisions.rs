//! Recorded policy decisions, for callers that look for one.

use crate::engine::Engine;
use crate::error::{Denial, EngineError};
use crate::ports::{
    Created, DecisionFilter, DecisionSearch, FoundDecisions, OperationFilter, RecordedDecision, SearchedFrom,
    Visibility,
};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::Family;
use gateway_domain::policy::{DecisionId, Statement};

/// The most operations with one idempotency key: one of each tenant that the caller sees.
const OPERATIONS_MAX: u32 = 200;

impl Engine {
    /// The recorded decision of this name.
    ///
    /// # Errors
    /// [`EngineError`]: `DecisionNotFound`, `Unavailable`.
    pub async fn decision(
        &self,
        visibility: &Visibility,
        id: DecisionId,
    ) -> Result<RecordedDecision, EngineError> {
        let found = self.0.ports.decisions.decision(id).await?;
        let found = found.filter(|decision| visibility.includes(&decision.input.tenant));
        found.ok_or(EngineError::DecisionNotFound(id))
    }

    /// A part of a search for decisions, newest first. A search begins with the default of [`SearchedFrom`], and goes on from where the
    /// part before it ended.
    pub async fn decisions(
        &self,
        visibility: &Visibility,
        filter: &DecisionFilter,
        searched: SearchedFrom,
        n_max: usize,
    ) -> Result<FoundDecisions, EngineError> {
        let operations = match &filter.idempotency_key {
            Some(key) => self.operations_claimed(visibility, key).await?,
            None => Vec::new(),
        };
        let search = DecisionSearch { visibility, filter, operations: &operations, searched, n_max };
        Ok(self.0.ports.decisions.decisions(search).await?)
    }

    /// The payments that were submitted with this idempotency key.
    async fn operations_claimed(
        &self,
        visibility: &Visibility,
        key: &str,
    ) -> Result<Vec<OperationId>, EngineError> {
        let filter = OperationFilter {
            family: Family::Product,
            state: None,
            operation_type: None,
            key_ref: None,
            idempotency_key: Some(key.to_owned()),
            awaits_approvals: false,
            created: Created::default(),
        };
        let listed = self.0.ports.lists.operations_listed(visibility, &filter, None, OPERATIONS_MAX).await?;
        Ok(listed.places.iter().map(|place| OperationId(place.id)).collect())
    }

    /// A reason or an obligation of this bundle with what the manifest says of it, if the bundle is the active one or the candidate.
    #[must_use]
    pub fn explained(&self, bundle_hash: Hex32, statement: &Statement) -> Denial {
        self.0.explained(bundle_hash, statement).1
    }
}
