//! Finding the operation a command is about, for this caller.

use crate::draft::Draft;
use crate::engine::{Inner, Visibility};
use crate::error::EngineError;
use crate::ports::Record;
use gateway_domain::ids::OperationId;
use gateway_domain::intent::Family;
use std::future::Future;
use std::pin::Pin;

/// How often a command is decided anew when another replica moved the operation in between.
const RACES_MAX: u32 = 8;

/// An operation as a caller names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The family whose path was called.
    pub family: Family,
    /// What the caller can see.
    pub visibility: Visibility,
    /// The name.
    pub id: OperationId,
}

impl Inner {
    /// The operation, unless it is unknown, of the other family, or not this caller's: one answer for all three.
    pub(crate) async fn find(&self, target: &Target) -> Result<Record, EngineError> {
        let record = self.ports.reads.operation_find(target.id, &target.visibility).await?;
        let found = record.filter(|record| record.operation.intent.family() == target.family);
        found.ok_or(EngineError::OperationNotFound)
    }

    pub(crate) async fn find_draft(&self, target: &Target) -> Result<Draft, EngineError> {
        self.find(target).await.map(Draft::load)
    }
}

/// Runs an attempt again while another replica wins the race for the operation's revision.
pub(crate) async fn until_unraced<'a, T>(
    mut attempt: impl FnMut() -> Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>,
) -> Result<T, EngineError> {
    for _ in 0..RACES_MAX {
        match attempt().await {
            Err(EngineError::Conflict) => {}
            settled => return settled,
        }
    }
    Err(EngineError::Conflict)
}
