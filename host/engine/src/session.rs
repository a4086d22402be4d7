//! A unit of work on one operation: locked, loaded, decided on, committed.
//!
//! Every use case that moves an operation is a [`UseCase`] and begins with a [`Session`]. [`Engine::run`] runs it
//! again when another replica changed the operation in the meantime.

use crate::engine::{Engine, Inner};
use crate::error::{Dependency, EngineError, Unavailable};
use crate::failpoint::failpoint;
use crate::locks::Locked;
use crate::ports::{Commit, Committed, KeyChange, RateLimited, Record, SpendingRead, Visibility};
use crate::rate_limit::{Quota, Token};
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::{Family, OperationType};
use gateway_domain::key::CustodyKey;
use gateway_domain::key::transitions::{self, Keys};
use gateway_domain::operation::{
    Action, Command, Event, KeySlot, Operation, Refusal, Requester, apply, decide, may_wait_for_outcome,
    replay,
};
use gateway_domain::redaction::Salt;
use gateway_domain::time::EpochMs;
use std::future::Future;
use std::mem;
use std::sync::Arc;

/// The most runs of a use case while other replicas keep changing the operation.
const RUNS_MAX: u32 = 8;

/// An operation as a caller names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The family whose path was called.
    pub family: Family,
    /// Which operations the caller can see.
    pub visibility: Visibility,
    /// The operation.
    pub id: OperationId,
}

/// A request that creates or moves an operation.
pub(crate) trait UseCase: Send + Sync + 'static {
    type Answer: Send + 'static;

    /// One run, from reading to committing.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] when another replica committed first: nothing was written, and it may be run again.
    fn run(&self, engine: &Inner) -> impl Future<Output = Result<Self::Answer, EngineError>> + Send;
}

/// A request to move an operation that exists.
pub(crate) struct Targeted<R>(pub(crate) Target, pub(crate) R);

impl Engine {
    /// Runs a use case to its end, even when the caller goes away, and again after a version conflict.
    pub(crate) async fn run<U: UseCase>(&self, use_case: U) -> Result<U::Answer, EngineError> {
        let engine = self.clone();
        self.run_to_end(async move {
            for _ in 1..RUNS_MAX {
                match use_case.run(&engine.0).await {
                    Err(EngineError::Conflict) => {}
                    answer => return answer,
                }
            }
            use_case.run(&engine.0).await
        })
        .await
    }
}

/// An operation under its lock, with events that are decided but not yet committed.
pub(crate) struct Session<'e> {
    pub(crate) engine: &'e Inner,
    /// Shared with the store's cache until an event changes it.
    pub(crate) operation: Arc<Operation>,
    record_root: Hex32,
    ledger_root: Hex32,
    /// The decided events that have their hashes, and those that do not have them yet.
    chained: Vec<ChainedEvent>,
    pending: Vec<Event>,
    /// The idempotency key of a new operation.
    claim: Option<String>,
    /// The keys as they were read for the pending decision.
    keys: Option<Keys>,
    /// The spending totals that were read for the pending decision.
    spending: Option<SpendingRead>,
    /// The token that the next commit takes from its client's quota.
    token: Option<Token>,
    /// The client's quota after that commit.
    quota: Option<Quota>,
    _lock: Locked,
}

impl Inner {
    /// Locks and loads the operation, for this caller.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Damaged`, `Unavailable`.
    pub(crate) async fn session(&self, target: &Target) -> Result<Session<'_>, EngineError> {
        let lock = match self.locks.try_lock(target.id) {
            Some(lock) => lock,
            // Only who may see the operation waits for it: others would learn that it exists, and that it is being worked on.
            None => {
                self.find(target).await?;
                self.locks.lock(target.id).await?
            }
        };
        let record = self.find(target).await?;
        Ok(Session::load(self, lock, record))
    }

    /// Locks and loads the operation for the gateway's own work.
    pub(crate) async fn internal_session(&self, id: OperationId) -> Result<Session<'_>, EngineError> {
        let lock = self.locks.lock(id).await?;
        self.locked_session(id, lock).await
    }

    /// As [`Self::internal_session`], with the operation's lock.
    pub(crate) async fn locked_session(
        &self,
        id: OperationId,
        lock: Locked,
    ) -> Result<Session<'_>, EngineError> {
        let record = self.ports.reads.operation_load(id).await?.ok_or(EngineError::OperationNotFound)?;
        Ok(Session::load(self, lock, record))
    }

    /// The operation; [`EngineError::OperationNotFound`] if it is unknown, of the other family, or this caller cannot
    /// see it.
    pub(crate) async fn find(&self, target: &Target) -> Result<Record, EngineError> {
        let record = self.ports.reads.operation_find(target.id, &target.visibility).await?;
        let found = record.filter(|record| record.operation.intent.family() == target.family);
        found.ok_or(EngineError::OperationNotFound)
    }

    /// The operation's keys as stored.
    pub(crate) async fn keys_of(&self, operation: &Operation) -> Result<Keys, EngineError> {
        self.keys_in(&operation.key, operation.successor.as_ref()).await
    }

    /// The keys with these ids as stored.
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

    /// The value that was written with a token, and the client's quota after it.
    ///
    /// # Errors
    /// [`EngineError`]: `Conflict`, `RateLimited`; nothing was written.
    pub(crate) fn check_written<T>(
        &self,
        token: &Token,
        outcome: RateLimited<T>,
    ) -> Result<(T, Quota), EngineError> {
        match outcome {
            RateLimited::Written { written, full_at_us } => {
                Ok((written, self.submissions.remember(token, full_at_us)))
            }
            RateLimited::Conflict => Err(EngineError::Conflict),
            RateLimited::Exhausted { full_at_us } => {
                Err(EngineError::submissions_limited(self.submissions.remember(token, full_at_us)))
            }
        }
    }
}

impl<'e> Session<'e> {
    pub(crate) fn load(engine: &'e Inner, lock: Locked, record: Record) -> Self {
        let Record { operation, record_root, ledger_root } = record;
        Self {
            engine,
            operation,
            record_root,
            ledger_root,
            chained: Vec::new(),
            pending: Vec::new(),
            claim: None,
            keys: None,
            spending: None,
            token: None,
            quota: None,
            _lock: lock,
        }
    }

    /// A new operation, from the events that open it and the keys that it was checked against.
    pub(crate) fn open(
        engine: &'e Inner,
        lock: Locked,
        events: Vec<Event>,
        claim: String,
        keys: Keys,
        token: Option<Token>,
    ) -> Result<Self, EngineError> {
        let operation = replay(&events)
            .ok_or_else(|| EngineError::Internal("an operation must open with its submission".to_owned()))?;
        let record =
            Record { operation: Arc::new(operation), record_root: Hex32::ZERO, ledger_root: Hex32::ZERO };
        let (claim, keys) = (Some(claim), Some(keys));
        Ok(Self { pending: events, claim, keys, token, ..Self::load(engine, lock, record) })
    }

    /// Decides on an action of the gateway itself. The next commit writes the events. Returns their number, 0 if the action
    /// changes nothing.
    pub(crate) fn decide(&mut self, action: Action) -> Result<usize, Refusal> {
        self.decide_at(self.engine.ports.clock.now(), None, action)
    }

    /// As [`Self::decide`]; the first event names the requester.
    pub(crate) fn decide_for(
        &mut self,
        requester: Option<&Requester>,
        action: Action,
    ) -> Result<usize, Refusal> {
        self.decide_at(self.engine.ports.clock.now(), requester, action)
    }

    /// As [`Self::decide_for`], at a given time.
    pub(crate) fn decide_at(
        &mut self,
        at: EpochMs,
        requester: Option<&Requester>,
        action: Action,
    ) -> Result<usize, Refusal> {
        let mut events = decide(&self.operation, &Command { at, action })?;
        if let Some(first) = events.first_mut() {
            first.requested_by = requester.cloned();
        }
        if !events.is_empty() {
            let operation = Arc::make_mut(&mut self.operation);
            events.iter().for_each(|event| apply(operation, event));
        }
        let n_events = events.len();
        self.pending.extend(events);
        Ok(n_events)
    }

    /// Makes the next commit conditional on these keys, which were read for the decision.
    pub(crate) fn expect_keys(&mut self, keys: Keys) {
        self.keys = Some(keys);
    }

    /// Makes the next commit conditional on these totals, which were read for the decision.
    pub(crate) fn expect_spending(&mut self, spending: Option<SpendingRead>) {
        self.spending = spending;
    }

    /// Whether all decided events may be committed with the outcome of the effect that they cause.
    pub(crate) fn may_wait_for_outcome(&self) -> bool {
        self.uncommitted().all(|event| may_wait_for_outcome(&self.operation, &event.change))
    }

    fn uncommitted(&self) -> impl Iterator<Item = &Event> {
        self.chained.iter().map(|chained| &chained.event).chain(&self.pending)
    }

    /// The decided events with the hashes that they are going to be committed with.
    pub(crate) fn chained(&mut self) -> Result<&[ChainedEvent], Unavailable> {
        for event in mem::take(&mut self.pending) {
            let previous = self.chained.last().map_or(self.record_root, |last| last.hash);
            let chained = ChainedEvent::after(previous, event, fresh_salt()?);
            self.chained.push(chained.map_err(|error| unchained(&error))?);
        }
        Ok(&self.chained)
    }

    /// Writes all decided events, in one transaction. Returns once they are durable.
    ///
    /// # Errors
    /// [`EngineError`]: `Conflict`, `RateLimited`, `Unavailable`; nothing was written.
    pub(crate) async fn commit(&mut self) -> Result<(), EngineError> {
        if self.chained()?.is_empty() {
            return Ok(());
        }
        self.engine.check_may_write()?;
        let keys = self.key_changes().await?;
        let commit = Commit {
            operation: Arc::clone(&self.operation),
            keys,
            events: mem::take(&mut self.chained),
            previous_record_root: self.record_root,
            claim: self.claim.take(),
            spending: self.spending.take(),
        };
        let commits = &self.engine.ports.commits;
        failpoint("before-commit");
        let record = match self.token.take() {
            Some(token) => {
                let outcome = commits.commit_with_token(commit, token.clone()).await?;
                let (record, quota) = self.engine.check_written(&token, outcome)?;
                self.quota = Some(quota);
                record
            }
            None => match commits.commit(commit).await? {
                Committed::Written(record) => record,
                Committed::Conflict => return Err(EngineError::Conflict),
            },
        };
        (self.record_root, self.ledger_root) = (record.record_root, record.ledger_root);
        failpoint("after-commit");
        Ok(())
    }

    /// The client's quota after the commit that took a token from it; `None` if none did.
    pub(crate) const fn quota(&self) -> Option<Quota> {
        self.quota
    }

    /// The keys that the pending events change. Their expected revisions are those read for the decision, if any
    /// were, so that a key that has changed since gives a version conflict.
    async fn key_changes(&mut self) -> Result<Vec<KeyChange>, EngineError> {
        let before = match self.keys.take() {
            Some(read) => read,
            // A signing operation changes no key.
            None if self.operation.intent.operation_type() == OperationType::Sign => return Ok(Vec::new()),
            None => self.engine.keys_of(&self.operation).await?,
        };
        let fold = |keys, event: &Event| transitions::after(keys, &self.operation, event);
        let after = self.uncommitted().fold(before.clone(), fold);
        let changes = [(before.subject, after.subject), (before.successor, after.successor)];
        Ok(changes.into_iter().filter_map(|(before, after)| key_change(before, after?)).collect())
    }

    /// The operation as stored. All decided events must be committed.
    pub(crate) fn record(&self) -> Record {
        Record {
            operation: Arc::clone(&self.operation),
            record_root: self.record_root,
            ledger_root: self.ledger_root,
        }
    }

    /// As [`Self::record`]; releases the lock.
    pub(crate) fn into_record(self) -> Record {
        Record { operation: self.operation, record_root: self.record_root, ledger_root: self.ledger_root }
    }
}

fn fresh_salt() -> Result<Salt, Unavailable> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| unchained(&error))?;
    Ok(Salt::new(random))
}

fn unchained(error: &dyn std::error::Error) -> Unavailable {
    Unavailable::new(Dependency::Store, format!("an event cannot be hashed: {error}"))
}

/// The change of a key; `None` if it is unchanged.
fn key_change(before: Option<CustodyKey>, key: CustodyKey) -> Option<KeyChange> {
    let revision_before = before.as_ref().map(|before| before.revision);
    (before.as_ref() != Some(&key)).then_some(KeyChange { key, revision_before })
}
