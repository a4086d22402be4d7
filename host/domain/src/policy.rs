//! A policy's request and outcome, as data. The `policy` crate runs the policies.

pub mod compare;
mod decision_id;
pub mod facts;
mod fault;
mod input;
pub mod spending;

use crate::binding::ClientBinding;
use crate::canonical;
use crate::ids::{Hex32, KeyRef, Tenant};
use crate::intent::Intent;
use crate::names::{self, names_person};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub use crate::approval::Approval;
pub use decision_id::{DecisionId, InvalidDecisionId};
pub use facts::Facts;
pub use fault::{Fault, FaultKind};
pub use input::Input;
pub use spending::SpendingTotals;

crate::wire_words! {
    /// The point at which the policy is evaluated: `moment` in `wit/policy.wit`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Moment {
        /// At a submission, before the operation is created.
        Submit = "submit",
        /// At an approval, which is the last of the list, or when approvals are waived.
        Approval = "approval",
        /// When the quorum is reached, before the authority signs.
        Admission = "admission",
        /// At a preview, which creates nothing.
        Preview = "preview",
    }
}

/// The request for one evaluation. Besides it, a policy sees only the facts that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Request<'a> {
    /// The point at which the policy is evaluated.
    pub moment: Moment,
    /// Hash of the canonical intent.
    pub intent_hash: Hex32,
    /// The tenant that owns the operation.
    pub tenant: &'a Tenant,
    /// The key that signs, is created or is changed.
    pub key_ref: &'a KeyRef,
    /// The client that submitted the operation.
    pub submitter: &'a ClientBinding,
    /// The requested work.
    pub intent: &'a Intent,
    /// The approvals, oldest first, at most one for each subject.
    pub approvals: &'a [Approval],
}

crate::wire_words! {
    /// The decision.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PolicyDecision))]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Decision {
        /// The operation may proceed.
        Allow = "ALLOW",
        /// The operation may not proceed.
        Deny = "DENY",
    }
}

/// A reason or an obligation: a code that the bundle declares, and its operands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// The code, declared in the bundle's manifest.
    pub code: String,
    /// The operands, and what would change the decision, for people; may be empty.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub detail: String,
}

impl std::fmt::Display for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.detail.is_empty() {
            f.write_str(&self.code)
        } else {
            write!(f, "{}: {}", self.code, self.detail)
        }
    }
}

/// The statements as one text, separated by semicolons.
#[must_use]
pub fn join<'a>(statements: impl IntoIterator<Item = &'a Statement>) -> String {
    statements.into_iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A fact that the policy read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FactRead {
    /// The fact's name.
    pub name: String,
    /// The value that the policy was given; `None` when the deployment has no such fact.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub value: Option<String>,
}

impl std::fmt::Display for FactRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value.as_deref().unwrap_or("(none)"))
    }
}

/// The approvals that count, and whether they are enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quorum {
    /// The subjects whose approvals count, each once, in the order of their approvals.
    pub subjects: Vec<String>,
    /// The number of subjects required.
    pub required: u32,
    /// Whether they are enough for the policy, and for the deployment's minimum.
    pub satisfied: bool,
}

impl Quorum {
    /// Whether the approval of this person counts.
    #[must_use]
    pub fn counts(&self, subject_id: &str) -> bool {
        names_person(&self.subjects, subject_id)
    }

    /// The number of different people whose approvals count.
    #[must_use]
    pub fn n_people(&self) -> u32 {
        let people: BTreeSet<_> = self.subjects.iter().map(|subject| names::compared(subject)).collect();
        u32::try_from(people.len()).unwrap_or(u32::MAX)
    }

    /// The quorum with at least `required_min` subjects required, the deployment's minimum.
    #[must_use]
    pub fn raise_to(mut self, required_min: u32) -> Self {
        self.required = self.required.max(required_min);
        self.satisfied = self.satisfied && self.n_people() >= self.required;
        self
    }
}

/// The outcome of one evaluation. Without a verdict it is a `DENY` with a `fault`, which is its only reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// `ALLOW` or `DENY`.
    pub decision: Decision,
    /// The id of the bundle that decided.
    pub bundle_id: String,
    /// SHA-256 of its canonical manifest.
    pub bundle_hash: Hex32,
    /// The reasons for the decision.
    pub reasons: Vec<Statement>,
    /// The obligations that come with the decision.
    pub obligations: Vec<Statement>,
    /// The facts that the policy read, in order.
    pub facts: Vec<FactRead>,
    /// The approvals that count.
    pub quorum: Quorum,
    /// Digest of the request.
    pub input_hash: Hex32,
    /// See [`Outcome::output_digest`].
    pub output_hash: Hex32,
    /// Wasm fuel the evaluation used.
    pub fuel_used: u64,
    /// Why there is no verdict; `None` if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fault: Option<Fault>,
}

/// What another party needs, besides the request and the bundle, to repeat a recorded evaluation. The hashes of an
/// [`AdmissionDecision`](crate::admission::AdmissionDecision) bind the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The facts that the policy read, in order.
    pub facts: Vec<FactRead>,
    /// The number of approvals that the outcome requires, the deployment's minimum included.
    pub required_approvals: u32,
    /// Wasm fuel the evaluation used.
    pub fuel_used: u64,
}

impl From<&Outcome> for Recorded {
    fn from(outcome: &Outcome) -> Self {
        let Outcome { facts, quorum, fuel_used, .. } = outcome;
        Self { facts: facts.clone(), required_approvals: quorum.required, fuel_used: *fuel_used }
    }
}

impl Outcome {
    /// `SHA-256("svc/policy-output/v1" || canonical {decision, obligations, quorum, reasons})`.
    #[must_use]
    pub fn output_digest(&self) -> Hex32 {
        #[derive(Serialize)]
        struct Output<'a> {
            decision: Decision,
            reasons: &'a [Statement],
            obligations: &'a [Statement],
            quorum: &'a Quorum,
        }
        let Self { decision, reasons, obligations, quorum, .. } = self;
        let output = Output { decision: *decision, reasons, obligations, quorum };
        // The value has no floating-point number, so it has a canonical form.
        canonical::digest("svc/policy-output/v1", &output).unwrap_or(Hex32::ZERO)
    }

    /// The outcome with the quorum raised to `required_min`, the deployment's minimum, and the output hash of that.
    #[must_use]
    pub fn raise_quorum_to(mut self, required_min: u32) -> Self {
        let quorum = self.quorum.clone().raise_to(required_min);
        if quorum != self.quorum {
            self.quorum = quorum;
            self.output_hash = self.output_digest();
        }
        self
    }

    /// The reasons, each as `code: detail`, or `code` without detail.
    #[must_use]
    pub fn reason_texts(&self) -> Vec<String> {
        self.reasons.iter().map(ToString::to_string).collect()
    }

    /// The kind of fault, if there is no verdict.
    #[must_use]
    pub fn fault_kind(&self) -> Option<FaultKind> {
        self.fault.as_ref().map(|fault| fault.kind)
    }

    /// The fault of the host, if that is why there is no verdict. Another attempt may give one.
    #[must_use]
    pub fn host_fault(&self) -> Option<&Fault> {
        self.fault.as_ref().filter(|fault| !fault.kind.is_of_policy())
    }

    /// Whether the operation may proceed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.decision == Decision::Allow
    }
}
