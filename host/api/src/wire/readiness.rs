//! The readiness probe's answer.

use super::bundles::RefusedOfferView;
use gateway_domain::ids::Hex32;
use gateway_engine::ports::{Damage, NodesStatus};
use gateway_engine::{Readiness, Unavailable};
use serde::Serialize;
use utoipa::ToSchema;

/// Damaged records that are named: the others are counted.
const DAMAGED_NAMED_MAX: usize = 8;

/// Answer of `GET /readyz`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadinessView {
    /// `ready` or `not_ready`.
    pub status: &'static str,
    /// Each part by name.
    pub checks: ReadinessChecks,
    /// The defences that this production deployment does without, as its operator asked: `unsigned_approvals`,
    /// `embedded_nodes`, `embedded_authority`. None of them makes it less ready.
    pub exceptions: Vec<&'static str>,
}

/// What each part says.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadinessChecks {
    /// The store can be read.
    pub store: CheckView,
    /// No operation and no key was found whose record is not what its events make it; those that were are frozen.
    pub records: CheckView,
    /// The store, and with it the log of all events, can be written: tried, not assumed.
    pub audit_append: CheckView,
    /// A bundle judges.
    pub policy: PolicyCheckView,
    /// Approvals can be verified, where the deployment verifies them.
    pub approvers: CheckView,
    /// Admissions can be signed.
    pub authority: CheckView,
    /// Of the participants of every key that signs, at least its threshold answer and hold their shares undamaged.
    pub nodes: NodesCheckView,
    /// Callers can be authenticated: where an identity provider is needed for it, that it answers, or that its keys are
    /// known.
    pub authentication: CheckView,
}

/// One part.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckView {
    /// `ok` or `failed`.
    pub status: &'static str,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The bundles.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyCheckView {
    /// `ok` or `failed`.
    pub status: &'static str,
    /// The bundle that judges, or that would.
    #[schema(required = true, value_type = Option<String>)]
    pub bundle_hash: Option<Hex32>,
    /// Why it does not judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'static str>,
    /// What is offered and not taken: no failure while another bundle judges.
    pub refused: Vec<RefusedOfferView>,
}

/// The nodes.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodesCheckView {
    /// `ok` or `failed`.
    pub status: &'static str,
    /// What is wrong. While enough others are left, the status is `ok` and this names the nodes that are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Nodes that answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answering: Option<usize>,
    /// Nodes that hold something; those never needed are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<usize>,
}

impl ReadinessView {
    /// What every part says.
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

/// Names some of them.
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
