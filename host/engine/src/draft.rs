//! An operation with events that are decided and not yet durable.

use crate::engine::Inner;
use crate::error::EngineError;
use crate::failpoint::failpoint;
use crate::ports::{Commit, Committed, KeyChange, Record};
use crate::rate::{Quota, Token};
use gateway_domain::ids::Hex32;
use gateway_domain::intent::OperationType;
use gateway_domain::key::{self, CustodyKey, Keys};
use gateway_domain::operation::{
    Action, Command, Event, KeySlot, Operation, Refusal, Requester, decide, evolve, replay,
};
use gateway_domain::time::EpochMs;

pub(crate) struct Draft {
    pub(crate) operation: Operation,
    record_root: Hex32,
    ledger_root: Hex32,
    pending: Vec<Event>,
    claim: Option<String>,
    /// The keys that what is pending was decided on, where it was.
    keys: Option<Keys>,
    /// What the next commit costs its client.
    charge: Option<Token>,
    /// What the client had left after it.
    budget: Option<Quota>,
}

impl Draft {
    /// A new operation, from the events that open it and the keys it was judged on.
    pub(crate) fn open(
        events: Vec<Event>,
        claim: String,
        keys: Keys,
        charge: Option<Token>,
    ) -> Result<Self, EngineError> {
        let operation = replay(&events)
            .ok_or_else(|| EngineError::Internal("an operation must open with its submission".to_owned()))?;
        let (record_root, ledger_root) = (Hex32::ZERO, Hex32::ZERO);
        Ok(Self {
            operation,
            record_root,
            ledger_root,
            pending: events,
            claim: Some(claim),
            keys: Some(keys),
            charge,
            budget: None,
        })
    }

    /// An operation as stored.
    pub(crate) fn load(record: Record) -> Self {
        let Record { operation, record_root, ledger_root } = record;
        Self {
            operation,
            record_root,
            ledger_root,
            pending: Vec::new(),
            claim: None,
            keys: None,
            charge: None,
            budget: None,
        }
    }

    /// Decides, and keeps what follows for the next commit. The number of events: 0 when it is so already.
    pub(crate) fn ask(&mut self, at: EpochMs, ask: Action) -> Result<usize, Refusal> {
        self.ask_for(None, at, ask)
    }

    /// As [`Self::ask`]; the first event says who asked.
    pub(crate) fn ask_for(
        &mut self,
        requester: Option<&Requester>,
        at: EpochMs,
        ask: Action,
    ) -> Result<usize, Refusal> {
        let mut events = decide(&self.operation, &Command { at, ask })?;
        if let Some(first) = events.first_mut() {
            first.requested_by = requester.cloned();
        }
        if !events.is_empty() {
            self.operation = events.iter().fold(self.operation.clone(), evolve);
        }
        let n_events = events.len();
        self.pending.extend(events);
        Ok(n_events)
    }

    /// Says on which keys the next commit was decided: it is raced when they have moved by then.
    pub(crate) fn decided_on(&mut self, keys: Keys) {
        self.keys = Some(keys);
    }

    /// Makes everything decided durable, in one transaction.
    pub(crate) async fn commit(&mut self, inner: &Inner) -> Result<(), EngineError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let keys = self.key_changes(inner).await?;
        let commit = Commit {
            operation: self.operation.clone(),
            keys,
            events: std::mem::take(&mut self.pending),
            previous_record_root: self.record_root,
            claim: self.claim.take(),
        };
        failpoint("before-commit");
        let record = match self.charge.take() {
            Some(charge) => self.commit_with_token(inner, commit, charge).await?,
            None => match inner.ports.commits.commit(commit).await? {
                Committed::Written(record) => record,
                Committed::Conflict => return Err(EngineError::Conflict),
            },
        };
        (self.record_root, self.ledger_root) = (record.record_root, record.ledger_root);
        failpoint("after-commit");
        Ok(())
    }

    async fn commit_with_token(
        &mut self,
        inner: &Inner,
        commit: Commit,
        charge: Token,
    ) -> Result<Box<Record>, EngineError> {
        let committed = inner.ports.commits.commit_with_token(commit, charge.clone()).await?;
        let (record, budget) = inner.budgets.settle(&charge, committed)?;
        self.budget = Some(budget);
        Ok(record)
    }

    /// What the client had left, where the draft was charged to it.
    pub(crate) const fn budget(&self) -> Option<Quota> {
        self.budget
    }

    /// The keys after the pending events, where they change them. Keys that the decision was made on are taken as they
    /// were read then: one that has moved since is a race.
    async fn key_changes(&mut self, inner: &Inner) -> Result<Vec<KeyChange>, EngineError> {
        let before = match self.keys.take() {
            Some(read) => read,
            // A signature changes its key only where it was decided on one.
            None if self.operation.intent.operation_type() == OperationType::Sign => return Ok(Vec::new()),
            None => inner.keys_of(&self.operation).await?,
        };
        let fold = |keys, event: &Event| key::after(keys, &self.operation, &event.change);
        let after = self.pending.iter().fold(before.clone(), fold);
        let changes = [(before.subject, after.subject), (before.successor, after.successor)];
        Ok(changes.into_iter().filter_map(|(before, after)| key_change(before, after?)).collect())
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

fn key_change(before: Option<CustodyKey>, key: CustodyKey) -> Option<KeyChange> {
    let revision_before = before.as_ref().map(|before| before.revision);
    (before.as_ref() != Some(&key)).then_some(KeyChange { key, revision_before })
}

impl Inner {
    /// The operation's keys as they stand.
    pub(crate) async fn keys_of(&self, operation: &Operation) -> Result<Keys, EngineError> {
        self.keys_in(&operation.key, operation.successor.as_ref()).await
    }

    /// The keys of these names as they stand.
    pub(crate) async fn keys_in(
        &self,
        key: &KeySlot,
        successor: Option<&KeySlot>,
    ) -> Result<Keys, EngineError> {
        let subject = self.ports.reads.key_load(key.key_id).await?;
        let successor = match successor {
            Some(slot) => self.ports.reads.key_load(slot.key_id).await?,
            None => None,
        };
        Ok(Keys { subject, successor })
    }
}
