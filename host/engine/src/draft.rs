//! An operation with events that are decided and not yet durable.

use crate::engine::Inner;
use crate::error::EngineError;
use crate::failpoint::failpoint;
use crate::ports::{Commit, Committed, Record};
use gateway_domain::ids::Hex32;
use gateway_domain::intent::OperationType;
use gateway_domain::key::{self, CustodyKey};
use gateway_domain::operation::{Ask, Asker, Command, Event, Operation, Refusal, decide, evolve, replay};
use gateway_domain::time::EpochMs;

pub(crate) struct Draft {
    pub(crate) operation: Operation,
    record_root: Hex32,
    ledger_root: Hex32,
    pending: Vec<Event>,
    claim: Option<String>,
}

impl Draft {
    /// A new operation, from the events that open it.
    pub(crate) fn open(events: Vec<Event>, claim: String) -> Result<Self, EngineError> {
        let operation = replay(&events)
            .ok_or_else(|| EngineError::Internal("an operation must open with its submission".to_owned()))?;
        let (record_root, ledger_root) = (Hex32::ZERO, Hex32::ZERO);
        Ok(Self { operation, record_root, ledger_root, pending: events, claim: Some(claim) })
    }

    /// An operation as stored.
    pub(crate) fn load(record: Record) -> Self {
        let Record { operation, record_root, ledger_root } = record;
        Self { operation, record_root, ledger_root, pending: Vec::new(), claim: None }
    }

    /// Decides, and keeps what follows for the next commit. The number of events: 0 when it is so already.
    pub(crate) fn ask(&mut self, at: EpochMs, ask: Ask) -> Result<usize, Refusal> {
        self.ask_for(None, at, ask)
    }

    /// As [`Self::ask`]; the first event says who asked.
    pub(crate) fn ask_for(&mut self, asker: Option<&Asker>, at: EpochMs, ask: Ask) -> Result<usize, Refusal> {
        let mut events = decide(&self.operation, &Command { at, ask })?;
        if let Some(first) = events.first_mut() {
            first.asked_by = asker.cloned();
        }
        if !events.is_empty() {
            self.operation = events.iter().fold(self.operation.clone(), evolve);
        }
        let n_events = events.len();
        self.pending.extend(events);
        Ok(n_events)
    }

    /// Makes everything decided durable, in one transaction.
    pub(crate) async fn commit(&mut self, inner: &Inner) -> Result<(), EngineError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (key, key_revision_before) = self.key_change(inner).await?;
        let commit = Commit {
            operation: self.operation.clone(),
            key,
            key_revision_before,
            events: std::mem::take(&mut self.pending),
            previous_record_root: self.record_root,
            claim: self.claim.take(),
        };
        failpoint("before-commit");
        match inner.ports.commits.commit(commit).await? {
            Committed::Written(record) => {
                (self.record_root, self.ledger_root) = (record.record_root, record.ledger_root);
                failpoint("after-commit");
                Ok(())
            }
            Committed::Raced => Err(EngineError::Raced),
        }
    }

    /// The key after the pending events, when they change it, and the revision it was made from.
    async fn key_change(&self, inner: &Inner) -> Result<(Option<CustodyKey>, Option<u64>), EngineError> {
        if self.operation.intent.operation_type() == OperationType::Sign {
            return Ok((None, None));
        }
        let before = inner.ports.reads.key_load(self.operation.key.key_id).await?;
        let fold = |key, event: &Event| key::after(key, &self.operation, &event.change);
        let after = self.pending.iter().fold(before.clone(), fold);
        let after = after.filter(|after| Some(after) != before.as_ref());
        let holder = before.as_ref().and_then(|key| key.busy_with);
        // Taken since the events were decided: the store would compare with the holder's revision and see no race.
        if after.is_some() && holder.is_some_and(|holder| holder != self.operation.id) {
            return Err(EngineError::Raced);
        }
        Ok((after, before.map(|key| key.revision)))
    }

    /// The operation as stored; everything decided must be durable.
    pub(crate) fn record(&self) -> Record {
        Record {
            operation: self.operation.clone(),
            record_root: self.record_root,
            ledger_root: self.ledger_root,
        }
    }

    /// As [`Self::record`].
    pub(crate) fn into_record(self) -> Record {
        Record { operation: self.operation, record_root: self.record_root, ledger_root: self.ledger_root }
    }
}
