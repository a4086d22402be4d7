//! Response shapes of the readiness probe.

use super::bundles::RefusedOfferView;
use gateway_domain::ids::Hex32;
use gateway_engine::ports::{Damage, NodesStatus};
use gateway_engine::{Readiness, Unavailable};
use serde::Serialize;
use utoipa::ToSchema;

/// Most damaged records that are named; further ones are counted.
const DAMAGED_NAMED_MAX: usize = 8;

/// Answer of `GET /readyz`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadinessView {
    /// `ready` or `not_ready`.
    pub status: &'static str,
    /// The result of each check.
    pub checks: ReadinessChecks,
    /// The defences that this production deployment lacks by its settings: `unsigned_approvals`, `embedded_nodes`,
    /// `embedded_authority`. They do not affect readiness.
    pub exceptions: Vec<&'static str>,
}

/// The result of each check.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadinessChecks {
    /// The store can be read.
    pub store: CheckView,
    /// Every record that was read agrees with its events. An operation or key whose record does not is frozen.
    pub records: CheckView,
    /// The store, and with it the log of all events, can be written, by a trial write.
    pub audit_append: CheckView,
    /// A policy bundle can be evaluated.
    pub policy: PolicyCheckView,
    /// Approvals can be verified, if the deployment verifies them.
    pub approvers: CheckView,
    /// Admissions can be signed.
    pub authority: CheckView,
    /// For every key that can sign, at least a threshold of nodes answer and hold undamaged shares.
    pub nodes: NodesCheckView,
    /// Callers can be authenticated: the identity provider, if the mode needs one, answers or its keys are cached.
    pub authentication: CheckView,
}

/// The result of one check.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckView {
    /// `ok` or `failed`.
    pub status: &'static str,
    /// The fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The result of the policy check.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyCheckView {
    /// `ok` or `failed`.
    pub status: &'static str,
    /// The active bundle, also when it cannot be evaluated.
    #[schema(required = true, value_type = Option<String>)]
    pub bundle_hash: Option<Hex32>,
    /// The fault that prevents evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'static str>,
    /// Refused offers: not a failure while another bundle is active.
    pub refused: Vec<RefusedOfferView>,
}

/// The result of the nodes check.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodesCheckView {
    /// `ok` or `failed`.
    pub status: &'static str,
    /// The fault. While enough nodes work, the status is `ok` and this names those that do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Nodes that answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answering: Option<usize>,
    /// Nodes that were ever used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<usize>,
}

impl ReadinessView {
    /// The answer from the results of all checks.
    #[must_use]
    pub fn new(
        readiness: Readiness,
        authentication: Result<(), &'static str>,
        exceptions: Vec<&'static str>,
    ) -> Self {
        let is_ready = readiness.is_ready() && authentication.is_ok();
        let status = if is_ready { "ready" } else { "not_ready" };
        let policy = readiness.policy;
        let nodes = readiness.nodes.as_ref().ok();
        let faults = nodes.map(NodesStatus::faults_text).filter(|text| !text.is_empty());
        let (answering, known) = (nodes.map(|nodes| nodes.open.len()), nodes.map(|nodes| nodes.n_known));
        Self {
            status,
            checks: ReadinessChecks {
                store: readiness.store.into(),
                records: damaged(&readiness.records),
                audit_append: readiness.audit_append.into(),
                policy: PolicyCheckView {
                    status: word(policy.fault.is_none()),
                    bundle_hash: policy.bundle_hash,
                    detail: policy.fault,
                    refused: policy.refused.into_iter().map(Into::into).collect(),
                },
                approvers: readiness.approvers.into(),
                authority: readiness.authority.into(),
                nodes: NodesCheckView {
                    status: word(readiness.nodes.is_ok()),
                    detail: readiness.nodes.err().map(|why| why.detail).or(faults),
                    answering,
                    known,
                },
                authentication: CheckView {
                    status: word(authentication.is_ok()),
                    detail: authentication.err().map(str::to_owned),
                },
            },
            exceptions,
        }
    }
}

/// The result of the records check, which names some of the damaged records.
fn damaged(records: &[Damage]) -> CheckView {
    let named =
        records.iter().take(DAMAGED_NAMED_MAX).map(|damage| format!("{}: {}", damage.subject, damage.detail));
    let named = named.collect::<Vec<_>>().join("; ");
    let more = match records.len().saturating_sub(DAMAGED_NAMED_MAX) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let detail =
        (!records.is_empty()).then(|| format!("{named}{more}; `operation-gateway ledger fsck` checks all"));
    CheckView { status: word(records.is_empty()), detail }
}

impl From<Result<(), Unavailable>> for CheckView {
    fn from(answer: Result<(), Unavailable>) -> Self {
        Self { status: word(answer.is_ok()), detail: answer.err().map(|why| why.detail) }
    }
}

const fn word(is_ok: bool) -> &'static str {
    if is_ok { "ok" } else { "failed" }
}
