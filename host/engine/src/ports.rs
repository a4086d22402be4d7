//! What the engine needs of the world. Adapters implement these; none of them sees another.

mod log;
mod policies;

use crate::engine::Visibility;
use crate::error::Unavailable;
use crate::rate::Token;
use async_trait::async_trait;
use gateway_domain::admission::{Admission, Derivation};
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{Bip32, Payment};
use gateway_domain::key::{CustodyKey, Epoch};
use gateway_domain::operation::{Effect, Event, Operation, Outcome};
use gateway_domain::policy::{self, Facts, Spent};
use gateway_domain::roster::{ParticipantIndex, Roster, Threshold};
use gateway_domain::time::EpochMs;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use log::{LogConsistency, LogHead, LogInclusion, ReadLog, SignCheckpoint};
pub use policies::{
    Activated, ActivatedBundle, Activation, ActivationKind, BundleDescription, CandidateBundle,
    DescribePolicies, KeepPolicies, PolicyHealth, PolicyStatus, RefusedOffer, ShadowCounts, StoredBundle,
};

/// An operation as stored, with the roots its evidence had after its last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The operation.
    pub operation: Operation,
    /// Head of its own hash chain.
    pub record_root: Hex32,
    /// Root of the log of all events, right after the operation's last.
    pub ledger_root: Hex32,
}

/// What one transaction holds: all of it happens, or nothing.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The operation after `events`.
    pub operation: Operation,
    /// Never empty; in order.
    pub events: Vec<Event>,
    /// Head of the operation's chain before them; zero for a new one.
    pub previous_record_root: Hex32,
    /// The keys that they change, each once: a rotation changes two.
    pub keys: Vec<KeyChange>,
    /// The idempotency key, for a new operation: a unique row.
    pub claim: Option<String>,
}

/// A key that a commit changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// The key after the events.
    pub key: CustodyKey,
    /// The revision it was made from: the store compares it before it writes. None when there was no key. One commit
    /// may move it by several, so it does not follow from `key`.
    pub revision_before: Option<u64>,
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is durable.
    Written(Box<Record>),
    /// Somebody else moved the operation or the key first; nothing was written.
    Conflict,
}

/// What became of something that a client's budget was to be charged with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateLimited<T> {
    /// It is durable, and so is the charge.
    Written {
        /// What was written.
        written: T,
        /// When the client's budget is full again, in microseconds since the epoch.
        full_at_us: u64,
    },
    /// Somebody else moved the operation or the key first; nothing was written, and nothing charged.
    Conflict,
    /// The budget has no room for it; nothing was written.
    Exhausted {
        /// When the client's budget is full again, in microseconds since the epoch.
        full_at_us: u64,
    },
}

/// A policy decision that moved no operation: a refusal or a fault. Those that moved one are in its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionRecord {
    /// When.
    pub at_ms: EpochMs,
    /// The operation that did not come to be, or was not moved.
    pub operation_id: OperationId,
    /// What was asked.
    pub input: policy::Input,
    /// What was answered.
    pub outcome: policy::Outcome,
}

/// A policy decision that was only asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewRecord {
    /// When.
    pub at_ms: EpochMs,
    /// What was asked.
    pub input: policy::Input,
    /// What was answered.
    pub outcome: policy::Outcome,
}

/// Makes changes durable.
#[async_trait]
pub trait CommitOperations: Send + Sync {
    /// One transaction, conditional on `operation.revision - events.len()` being the stored revision and on each key
    /// being at its `revision_before`. Returns after the write is on disk.
    async fn commit(&self, commit: Commit) -> Result<Committed, Unavailable>;

    /// Keeps a refusal or a fault for ever. Returns after the write is on disk. What the gateway itself asks again and
    /// again, an admission, is kept once as long as question, bundle and answer are the same.
    async fn decision_record(&self, record: DecisionRecord) -> Result<(), Unavailable>;

    /// As [`Self::commit`] of a new operation, in one transaction with the charge, and only if the client's budget has room
    /// for it. An operation that is there already is raced, whatever the budget.
    async fn commit_with_token(
        &self,
        commit: Commit,
        charge: Token,
    ) -> Result<RateLimited<Box<Record>>, Unavailable>;

    /// As [`Self::decision_record`], in one transaction with the charge, and only if the client's budget has room for it.
    async fn decision_record_with_token(
        &self,
        record: DecisionRecord,
        charge: Token,
    ) -> Result<RateLimited<()>, Unavailable>;

    /// Keeps a preview, and of all previews the `n_kept` newest. Returns after the write is on disk.
    async fn preview_record(&self, record: PreviewRecord, n_kept: u32) -> Result<(), Unavailable>;

    /// Writes something that nobody reads, to know that the next commit can be written. Returns after it is on disk.
    async fn probe_write(&self, at: EpochMs) -> Result<(), Unavailable>;
}

/// What a stored record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// An operation.
    Operation(OperationId),
    /// A custody key.
    Key(KeyId),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation(id) => write!(f, "operation `{id}`"),
            Self::Key(id) => write!(f, "key `{id}`"),
        }
    }
}

/// A stored record that is not what its events make it: changed by something else than the gateway.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of {subject} is damaged: {detail}")]
pub struct Damage {
    /// What it is about. Nothing is done with it until its record is sound again.
    pub subject: Subject,
    /// For operators: table, row and what is wrong there.
    pub detail: String,
}

/// Why a record could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The store did not answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The store has it, and it cannot be trusted.
    #[error(transparent)]
    Damaged(#[from] Damage),
}

/// Who holds the shares of a key, and how many of them it takes to sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyQuorum {
    /// Who holds shares.
    pub participants: Roster,
    /// How many must sign together.
    pub threshold: Threshold,
}

/// Reads what is durable. An operation or a key is handed out only as its events make it.
#[async_trait]
pub trait ReadOperations: Send + Sync {
    /// The operation, unless it is not this caller's to see: then it is as unknown as one that never was. What a caller
    /// names is looked up here and nowhere else.
    async fn operation_find(
        &self,
        id: OperationId,
        visibility: &Visibility,
    ) -> Result<Option<Record>, ReadError>;

    /// The operation, whoever's it is: for the gateway's own work.
    async fn operation_load(&self, id: OperationId) -> Result<Option<Record>, ReadError>;

    /// Its events as the chain has them, oldest first.
    async fn operation_events(&self, id: OperationId) -> Result<Vec<ChainedEvent>, Unavailable>;

    /// Operations that owe a step, longest untouched first, at most `n_max`.
    async fn operations_owing(&self, n_max: u32) -> Result<Vec<OperationId>, Unavailable>;

    /// Operations awaiting approvals that were submitted before `before`, at most `n_max`.
    async fn operations_pending_since(
        &self,
        before: EpochMs,
        n_max: u32,
    ) -> Result<Vec<OperationId>, Unavailable>;

    /// The key's custody operations, newest first, at most `n_max`, each with its place. With `before`, only those
    /// whose place is lower. A rotation is an operation of both its keys.
    async fn key_operations(
        &self,
        id: KeyId,
        before: Option<u64>,
        n_max: u32,
    ) -> Result<Vec<(u64, OperationId)>, Unavailable>;

    /// Keys of this name, whoever's, at most `n_max`.
    async fn keys_named(&self, key_ref: &KeyRef, n_max: u32) -> Result<Vec<KeyId>, Unavailable>;

    /// The key.
    async fn key_load(&self, id: KeyId) -> Result<Option<CustodyKey>, ReadError>;

    /// Keys by id, those after `after`, at most `n_max`: as their rows have them, which is no basis for acting on them.
    async fn keys_after(&self, after: Option<KeyId>, n_max: u32) -> Result<Vec<CustodyKey>, Unavailable>;

    /// What keys that sign need of their nodes: each combination once, however many keys have it, at most `n_max`.
    async fn key_quorums(&self, n_max: u32) -> Result<Vec<KeyQuorum>, Unavailable>;

    /// What was admitted in the last hour and day before `now`, and did not fail since, from this payment's account and to
    /// its recipient, in its currency. A payment whose own admission is decided is in it.
    async fn spent(&self, tenant: &Tenant, payment: &Payment, now: EpochMs) -> Result<Spent, Unavailable>;

    /// The records that were found damaged when they were last read, at most some of them.
    fn damage(&self) -> Vec<Damage>;

    /// Whether the store answers.
    async fn ping(&self) -> Result<(), Unavailable>;
}

/// Asks the active policy bundle.
#[async_trait]
pub trait EvaluatePolicy: Send + Sync {
    /// One evaluation. A failing bundle is a `DENY` with its fault named, never an error.
    async fn evaluate(&self, request: policy::Request<'_>, facts: &Facts) -> policy::Outcome;

    /// Whether the policy that judges now may ask for any fact whose name begins so: what has to be read from the store is
    /// read only then.
    fn asks_for(&self, beginning: &str) -> bool;
}

/// What an authority is asked to state.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// The operation, its quorum reached.
    pub operation: &'a Operation,
    /// The evaluation over its approvals, an `ALLOW`.
    pub policy: &'a policy::Outcome,
    /// The key; none for key creation.
    pub key: Option<&'a CustodyKey>,
    /// The child key, when one was asked for.
    pub derivation: Option<&'a Derivation>,
    /// First valid instant.
    pub not_before_ms: EpochMs,
    /// First instant no longer valid.
    pub not_after_ms: EpochMs,
}

/// Signs admission decisions.
#[async_trait]
pub trait SignAdmission: Send + Sync {
    /// The signed decision.
    async fn sign(&self, request: AdmissionRequest<'_>) -> Result<Admission, Unavailable>;

    /// Whether it could, without signing anything.
    async fn check(&self) -> Result<(), Unavailable>;
}

/// The nodes there are to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesStatus {
    /// Those that answer, and can be relied on for all keys but those that their fault names.
    pub open: BTreeSet<ParticipantIndex>,
    /// How many hold something.
    pub n_known: usize,
    /// What is wrong with nodes.
    pub faults: BTreeMap<ParticipantIndex, NodeFault>,
}

/// What is wrong with a node, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFault {
    /// What was found, in order: the first of them, no secret among them.
    pub findings: Vec<String>,
    /// How much was found in all.
    pub n_findings: usize,
    /// Keys that the node does not hold as it must.
    pub keys: BTreeSet<KeyId>,
}

impl NodesStatus {
    /// Every node with a fault, by its number; empty when there is none.
    #[must_use]
    pub fn faults_text(&self) -> String {
        let text = |(node, fault): (&ParticipantIndex, &NodeFault)| {
            let first = fault.findings.first().map_or("", String::as_str);
            match fault.n_findings {
                0 | 1 => format!("node {node}: {first}"),
                n_findings => format!("node {node}: {first}, and {} more", n_findings - 1),
            }
        };
        self.faults.iter().map(text).collect::<Vec<_>>().join("; ")
    }
}

/// Drives the runtime nodes.
#[async_trait]
pub trait DriveNodes: Send + Sync {
    /// Performs an effect on its nodes, idempotent by its id. `Err` when too few nodes answered to say anything.
    async fn perform(
        &self,
        effect: &Effect,
        operation: &Operation,
        key: Option<&CustodyKey>,
    ) -> Result<Outcome, Unavailable>;

    /// Which nodes answer, and what is wrong with what they hold.
    async fn nodes_status(&self) -> Result<NodesStatus, Unavailable>;

    /// Goes on with the check of what each node holds, some rows at a time.
    async fn check(&self);

    /// Of these generations, which a node must have in force, those that it has not, and what it has instead. Nothing
    /// when the node can not be read: [`Self::answering`] says that.
    async fn lacking(
        &self,
        participant: ParticipantIndex,
        keys: &[(KeyId, Epoch)],
    ) -> BTreeMap<KeyId, String>;

    /// The child key of a path. `Err` says, for people, why this key has none.
    fn derive(&self, key: &CustodyKey, bip32: &Bip32) -> Result<Derivation, String>;
}

/// Tells the time; the only clock there is.
pub trait TellTime: Send + Sync {
    /// Now.
    fn now(&self) -> EpochMs;
}
