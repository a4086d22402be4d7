//! The log of all events, for those who check it: its signed head, and proofs against it.

use crate::engine::{Engine, Visibility};
use crate::error::EngineError;
use crate::ports::{LogConsistency, LogHead, LogInclusion};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::{SignedCheckpoint, SignedStatement, TlogProof, VerifierKey};
use gateway_domain::time::EpochMs;
use serde_json::Value;

/// That an event of an operation is in the log, for somebody who was never here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InclusionEvidence {
    /// The event's place in the log, from 0.
    pub index: u64,
    /// The proof with the signed checkpoint that it is against.
    pub tlog_proof: TlogProof,
    /// The log right after the event.
    pub after: LogHead,
    /// That the log of the checkpoint begins with the log right after the event. None of them when they are one.
    pub consistency: Vec<Hex32>,
}

impl Engine {
    /// The log's head, signed.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub async fn checkpoint(&self) -> Result<SignedCheckpoint, EngineError> {
        let head = self.0.ports.log.log_head().await?;
        Ok(self.0.ports.checkpoints.sign_checkpoint(head).await?)
    }

    /// The time by the gateway's clock.
    #[must_use]
    pub fn now(&self) -> EpochMs {
        self.0.ports.clock.now()
    }

    /// A statement signed with the log's key.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub async fn state(&self, about: &str, value: &Value) -> Result<SignedStatement, EngineError> {
        Ok(self.0.ports.checkpoints.sign_statement(about, value).await?)
    }

    /// What checkpoints are verified with. Whoever relies on it has it from the operator, not from here.
    #[must_use]
    pub fn log_key(&self) -> &VerifierKey {
        self.0.ports.checkpoints.verifier_key()
    }

    /// That the log of `size` events has the one at `index`; none when there never was such a log, or no such event in it.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub async fn log_inclusion(&self, index: u64, size: u64) -> Result<Option<LogInclusion>, EngineError> {
        Ok(self.0.ports.log.log_inclusion(index, size).await?)
    }

    /// That the log of `second` events begins with the log of `first`; none when there is nothing to prove.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub async fn log_consistency(
        &self,
        first: u64,
        second: u64,
    ) -> Result<Option<LogConsistency>, EngineError> {
        Ok(self.0.ports.log.log_consistency(first, second).await?)
    }

    /// That an event of an operation is in the log, if this caller sees the operation.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Unavailable`.
    pub async fn tlog_proof(
        &self,
        visibility: &Visibility,
        id: OperationId,
        seq: u64,
    ) -> Result<Option<TlogProof>, EngineError> {
        let found = self.0.ports.reads.operation_find(id, visibility).await?;
        if found.is_none() {
            return Err(EngineError::OperationNotFound);
        }
        Ok(self.inclusion_evidence(id, seq).await?.map(|evidence| evidence.tlog_proof))
    }

    /// That an event of an operation, numbered from 1, is in the log; none when there is no such event. Whoever calls has
    /// made sure that the operation may be seen.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub async fn inclusion_evidence(
        &self,
        id: OperationId,
        seq: u64,
    ) -> Result<Option<InclusionEvidence>, EngineError> {
        let log = &self.0.ports.log;
        let Some(index) = log.log_index(id, seq).await? else { return Ok(None) };
        let checkpoint = self.checkpoint().await?;
        let size = checkpoint.unverified().size();
        let lost = || EngineError::Internal(format!("event {index} is not in the log of {size}"));
        let inclusion = log.log_inclusion(index, size).await?.ok_or_else(lost)?;
        let consistency = log.log_consistency(index.saturating_add(1), size).await?.ok_or_else(lost)?;
        Ok(Some(InclusionEvidence {
            index,
            tlog_proof: TlogProof { extra: Vec::new(), index, hashes: inclusion.hashes, checkpoint },
            after: consistency.first,
            consistency: consistency.hashes,
        }))
    }
}
