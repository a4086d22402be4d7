//! The ports: traits of the services that the engine needs. Adapters implement them and do not depend on each other.

mod decisions;
mod lists;
mod log;
mod policies;
mod webhooks;

use crate::error::Unavailable;
use crate::rate_limit::Token;
use async_trait::async_trait;
use gateway_domain::admission::{Admission, AdmissionDecision, Derivation};
use gateway_domain::contribution::{Contributions, RecoveryCase};
use gateway_domain::dsse::Envelope;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::key::{CustodyKey, Epoch};
use gateway_domain::operation::{Effect, Operation, Outcome};
use gateway_domain::policy::spending::Parties;
use gateway_domain::policy::{self, Facts, PaidProof, SignedDocument, SpendingTotals};
use gateway_domain::roster::{ParticipantIndex, Roster, Threshold};
use gateway_domain::time::EpochMs;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use crate::error::{Damage, ReadError, SignError, Subject};
pub use decisions::{
    Asked, DecisionFilter, DecisionPosition, DecisionSearch, FoundDecisions, ReadDecisions, RecordedDecision,
    SearchedFrom,
};
pub use gateway_domain::operation::AdmissionRequest;
pub use lists::{Created, KeyFilter, ListRecords, Listed, OperationFilter, Place, Visibility};
pub use log::{EventId, LogConsistency, LogHead, LogInclusion, LoggedEvent, ReadLog, SignCheckpoint};
pub use policies::{
    Activated, ActivatedBundle, Activation, ActivationKind, BundleDescription, BundleLimits, BundleValidity,
    CandidateBundle, DescribePolicies, PolicyHealth, PolicyStatus, RefusedOffer, ShadowCounts,
    ShadowDifference, ShadowDifferences, ShadowResult, StorePolicies, StoredBundle,
};
pub use webhooks::{
    DeadLetter, Holder, KeepWebhooks, VisibleWebhooks, Webhook, WebhookClaim, WebhookFailure, WebhookProgress,
};

/// The adapters of all ports.
#[derive(Clone)]
#[expect(missing_docs, reason = "each field is the port of its name")]
pub struct Ports {
    pub commits: Arc<dyn CommitOperations>,
    pub reads: Arc<dyn ReadOperations>,
    pub lists: Arc<dyn ListRecords>,
    pub decisions: Arc<dyn ReadDecisions>,
    pub log: Arc<dyn ReadLog>,
    pub webhooks: Arc<dyn KeepWebhooks>,
    pub checkpoints: Arc<dyn SignCheckpoint>,
    pub policy: Arc<dyn EvaluatePolicy>,
    pub policies: Arc<dyn DescribePolicies>,
    pub authority: Arc<dyn SignAdmission>,
    pub nodes: Arc<dyn DriveNodes>,
    pub clock: Arc<dyn ReadClock>,
}

/// A stored operation, with the roots of its evidence after its last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The operation.
    pub operation: Arc<Operation>,
    /// Head of the operation's hash chain.
    pub record_root: Hex32,
    /// Root of the log of all events, right after the operation's last event.
    pub ledger_root: Hex32,
}

/// The content of one transaction.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The operation after `events`.
    pub operation: Arc<Operation>,
    /// The new events, in order; never empty. Each follows the one before, and the first one `previous_record_root`.
    pub events: Vec<ChainedEvent>,
    /// Head of the operation's chain before the events; zero for a new operation.
    pub previous_record_root: Hex32,
    /// The keys that the events change, each once: a rotation changes two.
    pub keys: Vec<KeyChange>,
    /// The idempotency key of a new operation, which the store keeps unique.
    pub claim: Option<String>,
    /// The spending totals that the events were decided on. The store compares them before it writes.
    pub spending: Option<SpendingRead>,
}

/// The spending totals of a payment's parties, as they were read for its admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendingRead {
    /// The parties.
    pub parties: Parties,
    /// The end of the windows.
    pub now: EpochMs,
    /// The totals.
    pub totals: SpendingTotals,
}

/// A key that a commit changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// The key after the events.
    pub key: CustodyKey,
    /// The stored revision that `key` was computed from: the store compares it before it writes. `None` for a new key. One
    /// commit may raise the revision by several, so it does not follow from `key`.
    pub revision_before: Option<u64>,
}

/// The result of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is durable.
    Written(Box<Record>),
    /// Another writer changed the operation, the key or the totals first; nothing was written.
    Conflict,
}

/// The result of a write that uses a token of the client's quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateLimited<T> {
    /// The write is durable, and the token is used up.
    Written {
        /// The value that was written.
        written: T,
        /// The time at which the client's quota is full again, microseconds since the epoch.
        full_at_us: u64,
    },
    /// Another writer changed the operation or the key first; nothing was written, and no token was used.
    Conflict,
    /// The quota has no token left; nothing was written.
    Exhausted {
        /// The time at which the client's quota is full again, microseconds since the epoch.
        full_at_us: u64,
    },
}

/// The record of a policy decision that changed no operation: a denial, or a failure of the bundle. Other decisions are
/// recorded in the operation's events, or as previews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionRecord {
    /// The time of the evaluation.
    pub at_ms: EpochMs,
    /// The operation that was not created or not changed.
    pub operation_id: OperationId,
    /// The request that caused the evaluation.
    pub asked: Asked,
    /// The policy's input.
    pub input: policy::Input,
    /// The policy's outcome.
    pub outcome: policy::Outcome,
}

/// The record of a previewed policy decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewRecord {
    /// The time of the evaluation.
    pub at_ms: EpochMs,
    /// The request.
    pub asked: Asked,
    /// The policy's input.
    pub input: policy::Input,
    /// The policy's outcome.
    pub outcome: policy::Outcome,
}

/// Makes changes durable.
#[async_trait]
pub trait CommitOperations: Send + Sync {
    /// Commits one transaction, if `operation.revision - events.len()` is the stored revision, each key is at its
    /// `revision_before`, and the spending totals are those that were read. Returns after the write is on disk.
    async fn commit(&self, commit: Commit) -> Result<Committed, Unavailable>;

    /// Stores a decision permanently, and returns its index after the write is on disk. The gateway evaluates an admission again
    /// each time it drives the operation, so the record of an admission is stored only once for the same input,
    /// bundle and output: then `None`.
    async fn decision_record(&self, record: DecisionRecord) -> Result<Option<u64>, Unavailable>;

    /// Like [`Self::commit`] for a new operation, in one transaction that also takes a token, if the client's quota
    /// has one. An operation that already exists is a conflict, whatever the quota.
    async fn commit_with_token(
        &self,
        commit: Commit,
        token: Token,
    ) -> Result<RateLimited<Box<Record>>, Unavailable>;

    /// Like [`Self::decision_record`], in one transaction that also takes a token, if the client's quota has one.
    async fn decision_record_with_token(
        &self,
        record: DecisionRecord,
        token: Token,
    ) -> Result<RateLimited<Option<u64>>, Unavailable>;

    /// Stores a preview and removes all but the `n_kept` newest. Returns after the write is on disk.
    async fn preview_record(&self, record: PreviewRecord, n_kept: u32) -> Result<(), Unavailable>;

    /// Makes these operations due again once their waits are over, or once they change. A change in the same moment may get the wait too. A
    /// store that replicas share uses its own clock.
    async fn defer(&self, deferrals: &[Deferral], now: EpochMs) -> Result<(), Unavailable>;

    /// Writes a probe, to find out whether commits can be written. Returns after the write is on disk.
    async fn probe_write(&self, at: EpochMs) -> Result<(), Unavailable>;
}

/// An operation that the reconciler has to drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The operation.
    pub id: OperationId,
    /// The tenant that owns it.
    pub tenant: Tenant,
    /// The wait after the last failure, milliseconds; 0 if it has not failed since it changed.
    pub waited_ms: u64,
}

/// The wait of an operation that could not be driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferral {
    /// The operation.
    pub id: OperationId,
    /// The wait, milliseconds; 0 if it was not tried.
    pub wait_ms: u64,
    /// The wait after the last failure, milliseconds, from which the next one follows.
    pub waited_ms: u64,
}

/// A store reads a wait that would end later than this, milliseconds, as over: the clock was set back.
pub const WAIT_MAX_MS: u64 = 120_000;

/// The holders of a key's shares, and its threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyQuorum {
    /// The participants that hold shares.
    pub participants: Roster,
    /// The number of participants that must sign together.
    pub threshold: Threshold,
}

/// Reads what is durable. A single operation or key is returned only if it agrees with its events.
#[async_trait]
pub trait ReadOperations: Send + Sync {
    /// The operation; `None` if it does not exist or the caller cannot see it. Every operation that a caller names is
    /// looked up here.
    async fn operation_find(
        &self,
        id: OperationId,
        visibility: &Visibility,
    ) -> Result<Option<Record>, ReadError>;

    /// The operation of any tenant, for the gateway's own work.
    async fn operation_load(&self, id: OperationId) -> Result<Option<Record>, ReadError>;

    /// The operation's chained events, oldest first.
    async fn operation_events(&self, id: OperationId) -> Result<Vec<ChainedEvent>, ReadError>;

    /// Operations that owe a step and are due: at most `n_of_tenant_max` of each tenant and `n_max` of all, those due for longest first.
    /// A store that replicas share gives each to one of them for a while, and none that changed in the last seconds, since a request is
    /// driving it.
    async fn operations_owing(
        &self,
        now: EpochMs,
        n_of_tenant_max: u32,
        n_max: u32,
    ) -> Result<Vec<Due>, Unavailable>;

    /// Operations that are due and wait for approvals since before `submitted_before`, for their execution since before
    /// `admitted_before`, or were postponed until `now` or earlier: at most `n_max` of each.
    async fn operations_overdue(
        &self,
        submitted_before: EpochMs,
        admitted_before: EpochMs,
        now: EpochMs,
        n_max: u32,
    ) -> Result<Vec<Due>, Unavailable>;

    /// At most `n_max` custody operations on the key, newest first, each with its position in the log of all events. With
    /// `before`, only those at lower positions. A rotation belongs to both its keys.
    async fn key_operations(
        &self,
        id: KeyId,
        before: Option<u64>,
        n_max: u32,
    ) -> Result<Vec<(u64, OperationId)>, Unavailable>;

    /// At most `n_max` keys of this name, in all tenants.
    async fn keys_named(&self, key_ref: &KeyRef, n_max: u32) -> Result<Vec<KeyId>, Unavailable>;

    /// The key, by its id.
    async fn key_load(&self, id: KeyId) -> Result<Option<CustodyKey>, ReadError>;

    /// At most `n_max` keys after `after`, by id. Their rows are not checked against events, so they are no basis for
    /// action.
    async fn keys_after(&self, after: Option<KeyId>, n_max: u32) -> Result<Vec<CustodyKey>, Unavailable>;

    /// At most `n_max` different combinations of holders and threshold among the keys that sign.
    async fn key_quorums(&self, n_max: u32) -> Result<Vec<KeyQuorum>, Unavailable>;

    /// What these parties paid in the windows before `now`, of payments that were admitted and have not failed. A payment counts itself
    /// once its admission is decided.
    async fn spending_totals(&self, parties: &Parties, now: EpochMs) -> Result<SpendingTotals, Unavailable>;

    /// The number of operations of the tenant that this person submitted and that wait for approvals.
    async fn n_pending(&self, tenant: &Tenant, person: &str) -> Result<u64, Unavailable>;

    /// Proofs of the first published payments of this key to this recipient, oldest first, at most `n_max`.
    async fn payments_to(
        &self,
        key_id: KeyId,
        recipient: &str,
        n_max: usize,
    ) -> Result<Vec<PaidProof>, ReadError>;

    /// Records that were damaged when they were last read, up to a limit.
    fn damage(&self) -> Vec<Damage>;

    /// Checks that the store answers.
    async fn ping(&self) -> Result<(), Unavailable>;
}

/// What a bundle's manifest says of a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// What it means.
    pub text: String,
    /// What its reader can do; may be empty.
    pub remedy: String,
    /// Whether it is a reason to deny.
    pub denies: bool,
}

/// Evaluates the active policy bundle.
#[async_trait]
pub trait EvaluatePolicy: Send + Sync {
    /// One evaluation, for an operation unless it is a preview. If the bundle fails, the outcome is a `DENY` that names the fault.
    async fn evaluate(
        &self,
        operation_id: Option<OperationId>,
        request: policy::Request<'_>,
        facts: &Facts,
    ) -> policy::Outcome;

    /// What this bundle's manifest says of a reason; `None` if it does not declare it, or the bundle is neither the active one nor the
    /// candidate.
    fn declared(&self, bundle_hash: Hex32, code: &str) -> Option<Declared>;

    /// The documents that policies find, each name once. They are trusted; some may have expired.
    fn documents(&self) -> Arc<[Arc<SignedDocument>]>;

    /// Whether the active policy may read a fact whose name begins with `prefix`. Facts that cost a read of the store are
    /// offered only then.
    fn may_read_facts(&self, prefix: &str) -> bool;

    /// Those of a payment's parties of whom the active policy may read what they paid, and in which currencies; `None` without any.
    fn read_parties(&self, parties: Parties) -> Option<Parties>;
}

/// Signs admission decisions.
#[async_trait]
pub trait SignAdmission: Send + Sync {
    /// Signs the decision. `unrecorded`: the operation's events after those that are stored.
    async fn sign(
        &self,
        request: AdmissionRequest<'_>,
        unrecorded: &[ChainedEvent],
    ) -> Result<Admission, SignError>;

    /// The decision in the envelope, if enough authorities signed it. It may have expired.
    fn verify(&self, envelope: &Envelope) -> Option<AdmissionDecision>;

    /// Checks that the authority could sign. Signs nothing.
    async fn check(&self) -> Result<(), Unavailable>;
}

/// The state of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesStatus {
    /// The nodes that answer. They serve all keys except those that their faults name.
    pub open: BTreeSet<ParticipantIndex>,
    /// The number of nodes that hold anything.
    pub n_known: usize,
    /// The faults of nodes.
    pub faults: BTreeMap<ParticipantIndex, NodeFault>,
    /// The decision that each node admitted last, whose signature is not verified.
    pub newest_decisions: BTreeMap<ParticipantIndex, Envelope>,
}

/// The faults of one node, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFault {
    /// The first findings of damage, in order, or why the node cannot be used otherwise; without secrets.
    pub findings: Vec<String>,
    /// The number of all findings of damage. 0 for a node that does not answer, or whose disk is full.
    pub n_findings: usize,
    /// The keys whose shares are missing or damaged on the node.
    pub keys: BTreeSet<KeyId>,
}

impl NodesStatus {
    /// The faults of all nodes on one line, by node; empty when there are none.
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
    /// Performs an effect on its nodes, idempotent by its id. `Err` when too few nodes answered to give an outcome.
    async fn perform(
        &self,
        effect: &Effect,
        operation: &Operation,
        key: Option<&CustodyKey>,
    ) -> Result<Outcome, Unavailable>;

    /// Which nodes answer, and their faults.
    async fn nodes_status(&self) -> Result<NodesStatus, Unavailable>;

    /// Checks some more of the shares that each node holds. [`Self::nodes_status`] reports the findings.
    async fn check(&self);

    /// The keys of which the node does not hold an active share of the given epoch, each with what the node holds
    /// instead. Empty when the node cannot be read, which [`Self::nodes_status`] reports.
    async fn missing_shares(
        &self,
        participant: ParticipantIndex,
        keys: &[(KeyId, Epoch)],
    ) -> BTreeMap<KeyId, String>;

    /// What the helpers of this case would contribute to the recovery, each signed by its node. `Err` when one does not answer.
    async fn contributions(&self, key: &CustodyKey, case: RecoveryCase)
    -> Result<Contributions, Unavailable>;

    /// The derived key that signs; `None` if the key itself does, or the operation signs nothing. `Err` says, for people, why it cannot be
    /// derived.
    fn derivation(&self, key: &CustodyKey, intent: &Intent) -> Result<Option<Derivation>, String>;

    /// The public keys at a path of a secp256k1 key; an empty path is the key itself. `Err` as above.
    fn derived_keys(&self, key: &CustodyKey, path: &[u32]) -> Result<DerivedKeys, String>;
}

/// The public forms of a secp256k1 key or of its child. From them and the network, wallets compute addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedKeys {
    /// The x coordinate (BIP-340): 32 bytes, hexadecimal.
    pub public_key_hex: String,
    /// The point, compressed (SEC 1): 33 bytes, hexadecimal.
    pub point_hex: String,
    /// The extended public key (BIP-32), with which anyone can compute the public keys below it: `xpub…`.
    pub extended_public_key: String,
    /// The output key (BIP-86): 32 bytes, hexadecimal.
    pub taproot_output_key_hex: String,
}

/// The gateway's clock.
pub trait ReadClock: Send + Sync {
    /// The present time.
    fn now(&self) -> EpochMs;
}
