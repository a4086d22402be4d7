//! Response shapes of the readiness probe.

use gateway_domain::ids::Hex32;
use gateway_engine::ports::{Damage, NodesStatus, RefusedOffer};
use gateway_engine::{Readiness, Unavailable};
use serde::Serialize;
use utoipa::ToSchema;

/// Maximum number of damaged records in `detail`; further ones are counted.
const DAMAGED_NAMED_MAX: usize = 8;

/// The status if all checks pass.
const READY: &str = "ready";

/// Answer of `GET /healthz`.
#[derive(Debug, Serialize, ToSchema)]
pub struct HealthView {
    /// `ok`.
    pub status: &'static str,
    /// The gateway's version.
    pub version: &'static str,
}

/// Answer of `GET /readyz`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadinessView {
    /// `ready` or `not_ready`.
    pub status: &'static str,
    /// The result of each check.
    pub checks: ReadinessChecks,
    /// The safeguards that the settings of this production deployment disable: `unsigned_approvals`, `embedded_nodes`,
    /// `embedded_authority`. They do not affect readiness.
    pub exceptions: Vec<&'static str>,
    /// The newest witnessed checkpoint of the log, and the witnesses that do not cosign. They do not affect readiness; absent without
    /// witnesses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witnesses: Option<String>,
}

/// The result of each check.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadinessChecks {
    /// The store can be read.
    pub store: CheckView,
    /// The records read since the start agree with their events. Requests for an operation or key with a damaged record fail.
    pub records: CheckView,
    /// A trial write to the store, which has the log of all events, succeeds.
    pub audit_append: CheckView,
    /// This process has the keys, the policy and the clock of the other replicas of its database.
    pub replicas: CheckView,
    /// A policy bundle can be evaluated.
    pub policy: PolicyCheckView,
    /// Approvals can be verified, if the deployment verifies them.
    pub approvers: CheckView,
    /// Admission decisions can be signed.
    pub authority: CheckView,
    /// For the keys that can sign, at least a threshold of nodes answer and hold undamaged shares.
    pub nodes: NodesCheckView,
    /// Callers can be authenticated: if the mode needs an identity provider, it answers or its keys are cached.
    pub authentication: CheckView,
}

/// The result of one check.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckView {
    /// `ok` or `failed`.
    pub status: &'static str,
    /// Why the check failed; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The result of the policy check.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyCheckView {
    /// `ok` or `failed`.
    pub status: &'static str,
    /// Hash of the active bundle, even if it cannot be evaluated; null if no bundle is active.
    #[schema(required = true, value_type = Option<String>)]
    pub bundle_hash: Option<Hex32>,
    /// Why policy cannot be evaluated; absent if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'static str>,
    /// The offers of bundles that are refused now; they do not fail the check.
    pub refused: Vec<RefusedOffer>,
}

/// The result of the nodes check.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodesCheckView {
    /// `ok` or `failed`.
    pub status: &'static str,
    /// Why the check failed, or if enough nodes work, the faults of the others; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The number of nodes that answer; absent if the check failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answering: Option<usize>,
    /// The number of nodes that hold anything; absent if the check failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<usize>,
}

impl ReadinessView {
    /// Whether all checks pass.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.status == READY
    }

    /// Each check by its name, and whether it passes.
    #[must_use]
    pub fn checks(&self) -> [(&'static str, bool); 9] {
        let ReadinessChecks {
            store,
            records,
            audit_append,
            replicas,
            policy,
            approvers,
            authority,
            nodes,
            authentication,
        } = &self.checks;
        [
            ("store", store.status),
            ("records", records.status),
            ("audit_append", audit_append.status),
            ("replicas", replicas.status),
            ("policy", policy.status),
            ("approvers", approvers.status),
            ("authority", authority.status),
            ("nodes", nodes.status),
            ("authentication", authentication.status),
        ]
        .map(|(name, status)| (name, status == check_status(true)))
    }

    /// The answer from the results of all checks.
    #[must_use]
    pub fn new(
        readiness: Readiness,
        authentication: Result<(), &'static str>,
        exceptions: Vec<&'static str>,
    ) -> Self {
        let is_ready = readiness.is_ready() && authentication.is_ok();
        let status = if is_ready { READY } else { "not_ready" };
        let policy = readiness.policy;
        let nodes = readiness.nodes.as_ref().ok();
        let faults = nodes.map(NodesStatus::faults_text).filter(|text| !text.is_empty());
        let (answering, known) = (nodes.map(|nodes| nodes.open.len()), nodes.map(|nodes| nodes.n_known));
        Self {
            status,
            checks: ReadinessChecks {
                store: readiness.store.into(),
                records: records_check(&readiness.records),
                audit_append: readiness.audit_append.into(),
                replicas: readiness.replicas.into(),
                policy: PolicyCheckView {
                    status: check_status(policy.fault.is_none()),
                    bundle_hash: policy.bundle_hash,
                    detail: policy.fault,
                    refused: policy.refused,
                },
                approvers: readiness.approvers.into(),
                authority: readiness.authority.into(),
                nodes: NodesCheckView {
                    status: check_status(readiness.nodes.is_ok()),
                    detail: readiness.nodes.err().map(|why| why.detail).or(faults),
                    answering,
                    known,
                },
                authentication: CheckView {
                    status: check_status(authentication.is_ok()),
                    detail: authentication.err().map(str::to_owned),
                },
            },
            exceptions,
            witnesses: readiness.witnesses,
        }
    }
}

/// The result of the records check.
fn records_check(records: &[Damage]) -> CheckView {
    let named =
        records.iter().take(DAMAGED_NAMED_MAX).map(|damage| format!("{}: {}", damage.subject, damage.detail));
    let named = named.collect::<Vec<_>>().join("; ");
    let more = match records.len().saturating_sub(DAMAGED_NAMED_MAX) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let detail =
        (!records.is_empty()).then(|| format!("{named}{more}; `operation-gateway ledger fsck` checks all"));
    CheckView { status: check_status(records.is_empty()), detail }
}

impl From<Result<(), Unavailable>> for CheckView {
    fn from(answer: Result<(), Unavailable>) -> Self {
        Self { status: check_status(answer.is_ok()), detail: answer.err().map(|why| why.detail) }
    }
}

const fn check_status(is_ok: bool) -> &'static str {
    if is_ok { "ok" } else { "failed" }
}
