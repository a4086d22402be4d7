//! External export: load → decide → commit. Nothing is driven: a rail is the caller's.

use crate::engine::{Engine, Inner};
use crate::error::EngineError;
use crate::ports::Record;
use crate::target::{Target, until_unraced};
use gateway_domain::operation::{Action, ExternalExport, Requester};

/// A request to record an export, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The publication the caller means.
    pub publication_receipt: String,
    /// How far it is.
    pub export: ExternalExport,
    /// Who sent it.
    pub requester: Option<Requester>,
}

impl Engine {
    /// Records how far an external rail took the published result.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `Unavailable`.
    pub async fn export(&self, target: Target, export: Export) -> Result<Record, EngineError> {
        let engine = self.clone();
        let work = async move { until_unraced(|| Box::pin(engine.0.export(&target, &export))).await };
        self.run_to_end(work).await
    }
}

impl Inner {
    async fn export(&self, target: &Target, export: &Export) -> Result<Record, EngineError> {
        let _turn = self.locks.lock(target.id).await?;
        let mut draft = self.find_draft(target).await?;
        let Export { publication_receipt, export, requester } = export.clone();
        let ask = Action::Export { publication_receipt, export };
        draft.ask_for(requester.as_ref(), self.ports.clock.now(), ask)?;
        draft.commit(self).await?;
        Ok(draft.into_record())
    }
}
