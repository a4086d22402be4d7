//! A policy's request and outcome, as data. The `policy` crate runs the policies.

pub mod compare;
mod decision_id;
pub mod document;
pub mod facts;
mod fault;
mod input;
mod obligations;
pub mod paid;
pub mod spending;

use crate::binding::ClientBinding;
use crate::canonical;
use crate::dsse::Envelope;
use crate::ids::{Hex32, KeyRef, Tenant};
use crate::intent::Intent;
use crate::names::{self, names_person};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub use crate::approval::Approval;
pub use decision_id::{DecisionId, InvalidDecisionId};
pub use document::SignedDocument;
pub use facts::Facts;
pub use fault::{Fault, FaultKind};
pub use input::Input;
pub use obligations::{
    ADMIT_NOT_BEFORE, APPROVALS_EXPIRE_MS, InvalidObligation, REJECTIONS_REQUIRED, TimeLimits, WAIT_MAX_MS,
};
pub use paid::{Paid, PaidProof};
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

/// A value that a statement compared or needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Operand {
    /// The name, such as `limit` or `spent`.
    pub name: String,
    /// The value, as text.
    pub value: String,
}

/// A reason or an obligation: a code that the bundle declares, and its operands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// The code, declared in the bundle's manifest.
    pub code: String,
    /// The operands, in the policy's order; may be empty.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub operands: Vec<Operand>,
}

impl Statement {
    /// A statement with one operand.
    #[must_use]
    pub fn with_operand(code: impl Into<String>, name: &str, value: impl Into<String>) -> Self {
        Self { code: code.into(), operands: vec![Operand { name: name.to_owned(), value: value.into() }] }
    }

    /// The value of the operand with this name.
    #[must_use]
    pub fn operand(&self, name: &str) -> Option<&str> {
        let named = self.operands.iter().find(|operand| operand.name == name);
        named.map(|operand| operand.value.as_str())
    }
}

/// The code, and `: name value, name value` if there are operands.
impl std::fmt::Display for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.code)?;
        for (index, Operand { name, value }) in self.operands.iter().enumerate() {
            write!(f, "{} {name} {value}", if index == 0 { ":" } else { "," })?;
        }
        Ok(())
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

/// Some of the people who must approve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The policy's name for them, such as `treasurer`.
    pub name: String,
    /// How many of them must approve.
    pub needed: u32,
    /// Those who approved: subjects of the quorum, each once.
    pub have: Vec<String>,
}

impl Group {
    /// How many of them must approve yet.
    #[must_use]
    pub fn n_missing(&self) -> u32 {
        self.needed.saturating_sub(u32::try_from(self.have.len()).unwrap_or(u32::MAX))
    }
}

/// `2 more`, or `2 of treasurer`.
impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.group {
            Some(group) => write!(f, "{} of {group}", self.people),
            None => write!(f, "{} more", self.people),
        }
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
    /// The groups of people of whom some must be among them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub groups: Vec<Group>,
}

/// People who must approve yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(Serialize, utoipa::ToSchema), schema(as = MissingApprovals))]
pub struct Missing {
    /// The policy's name for the group of which they must be; null for anybody whose approval counts.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub group: Option<String>,
    /// How many.
    pub people: u32,
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

    /// Who must approve yet: anybody, and members of groups, who may be the same people. Empty if the quorum is satisfied.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        if self.satisfied {
            return Vec::new();
        }
        let anybody = Missing { group: None, people: self.required.saturating_sub(self.n_people()) };
        let of_groups = self
            .groups
            .iter()
            .map(|group| Missing { group: Some(group.name.clone()), people: group.n_missing() });
        std::iter::once(anybody).chain(of_groups).filter(|missing| missing.people > 0).collect()
    }

    /// Checks that the quorum counts each person once, that groups have names of their own and only people whom it counts, and that
    /// it is satisfied only if as many people as required count and no group lacks anybody.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn check(&self) -> Result<(), String> {
        let n_people = usize::try_from(self.n_people()).unwrap_or(usize::MAX);
        if n_people != self.subjects.len() {
            return Err("the quorum counts a person twice".to_owned());
        }
        let mut names = BTreeSet::new();
        for Group { name, have, .. } in &self.groups {
            let name = name.escape_debug();
            let people: BTreeSet<_> = have.iter().map(|subject| names::compared(subject)).collect();
            if !names.insert(name.to_string()) {
                return Err(format!("the quorum has group `{name}` twice"));
            }
            if people.len() != have.len() || !have.iter().all(|subject| self.counts(subject)) {
                return Err(format!("group `{name}` has a person twice, or one who does not count"));
            }
        }
        let lacking = self.groups.iter().find(|group| group.n_missing() > 0);
        match (self.satisfied, lacking) {
            (true, _) if self.n_people() < self.required => {
                Err(format!("the quorum is satisfied by {n_people} of {}", self.required))
            }
            (true, Some(group)) => {
                Err(format!("the quorum is satisfied without group `{}`", group.name.escape_debug()))
            }
            (true, None) | (false, _) => Ok(()),
        }
    }

    /// The quorum without the people whose approvals no longer count.
    #[must_use]
    pub fn without(mut self, lapsed: impl Fn(&str) -> bool) -> Self {
        let n_before = self.subjects.len();
        self.subjects.retain(|subject| !lapsed(subject));
        self.groups.iter_mut().for_each(|group| group.have.retain(|subject| !lapsed(subject)));
        self.satisfied = self.satisfied && self.subjects.len() == n_before;
        self
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
    /// The earlier payments that prove those `recipient.*`; empty if it read none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub proven_by: Vec<PaidProof>,
    /// The documents whose hashes are the facts `document.*`; empty if it read none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub documents: Vec<Envelope>,
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
    /// The earlier payments that prove those `recipient.*`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub proven_by: Vec<PaidProof>,
    /// The documents whose hashes are the facts `document.*`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub documents: Vec<Envelope>,
    /// The number of approvals that the outcome requires, the deployment's minimum included.
    pub required_approvals: u32,
    /// Wasm fuel the evaluation used.
    pub fuel_used: u64,
}

impl From<&Outcome> for Recorded {
    fn from(outcome: &Outcome) -> Self {
        let Outcome { facts, proven_by, documents, quorum, fuel_used, .. } = outcome;
        Self {
            facts: facts.clone(),
            proven_by: proven_by.clone(),
            documents: documents.clone(),
            required_approvals: quorum.required,
            fuel_used: *fuel_used,
        }
    }
}

impl Outcome {
    /// `SHA-256("svc/policy-output/v2" || canonical {decision, obligations, quorum, reasons})`.
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
        canonical::digest("svc/policy-output/v2", &output).unwrap_or(Hex32::ZERO)
    }

    /// The outcome with the proofs of the facts that it read, if these prove one.
    #[must_use]
    pub fn proven_by(mut self, proofs: Vec<PaidProof>) -> Self {
        let is_proven = |fact: &FactRead| fact.name.starts_with(paid::PREFIX) && fact.value.is_some();
        if self.facts.iter().any(is_proven) {
            self.proven_by = proofs;
        }
        self
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

    /// The reasons, each as it displays.
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
