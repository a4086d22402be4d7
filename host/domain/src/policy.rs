//! What a policy is asked and what it answers, as data. Running it is the `policy` crate's work.

pub mod compare;
pub mod facts;
mod input;
pub mod spending;

use crate::binding::ClientBinding;
use crate::canonical;
use crate::ids::{Hex32, KeyRef, Tenant};
use crate::intent::Intent;
use serde::{Deserialize, Serialize};

pub use crate::approval::Approval;
pub use facts::Facts;
pub use input::Input;
pub use spending::Spent;

/// Why the policy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// An operation is about to be created.
    Submit,
    /// One approval has arrived; it is the last of the list.
    Approval,
    /// The quorum was reached: may the authority sign?
    Admission,
    /// Somebody asks what would happen.
    Preview,
}

impl Moment {
    /// The word in records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Approval => "approval",
            Self::Admission => "admission",
            Self::Preview => "preview",
        }
    }
}

/// One question to the policy. Everything it may look at besides the facts it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Request<'a> {
    /// Why.
    pub moment: Moment,
    /// What approvals bind to.
    pub intent_hash: Hex32,
    /// Whose operation.
    pub tenant: &'a Tenant,
    /// The key that is to sign or to change.
    pub key_ref: &'a KeyRef,
    /// Who submitted it.
    pub submitter: &'a ClientBinding,
    /// What is to be done.
    pub intent: &'a Intent,
    /// Oldest first, one a subject.
    pub approvals: &'a [Approval],
}

/// The policy's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Decision {
    /// The operation may go on.
    Allow,
    /// It may not.
    Deny,
}

impl Decision {
    /// The contract's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "ALLOW",
            Self::Deny => "DENY",
        }
    }
}

/// A reason or an obligation: a code the bundle declared, and the operands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// Declared in the bundle's manifest.
    pub code: String,
    /// The operands, and what would change the answer; may be empty.
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

/// A fact the policy asked for, with what the host gave, in the order of asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactRead {
    /// The name asked for.
    pub name: String,
    /// None when the deployment has no such fact.
    pub value: Option<String>,
}

impl std::fmt::Display for FactRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value.as_deref().unwrap_or("(none)"))
    }
}

/// Who counts, and whether that is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quorum {
    /// The subjects that count, each once, in the order of their approvals.
    pub subjects: Vec<String>,
    /// How many must.
    pub required: u32,
    /// Whether they do.
    pub satisfied: bool,
}

impl Quorum {
    /// The same judgement held to the deployment's minimum, which no bundle can lower.
    #[must_use]
    pub fn at_least(mut self, required_min: u32) -> Self {
        self.required = self.required.max(required_min);
        self.satisfied =
            self.satisfied && u32::try_from(self.subjects.len()).unwrap_or(u32::MAX) >= self.required;
        self
    }
}

/// What one evaluation gave. A failure of the bundle is a `DENY` whose `fault` names its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// `ALLOW` or `DENY`.
    pub decision: Decision,
    /// The bundle that decided.
    pub bundle_id: String,
    /// SHA-256 of its canonical manifest.
    pub bundle_hash: Hex32,
    /// Why.
    pub reasons: Vec<Statement>,
    /// What must still happen.
    pub obligations: Vec<Statement>,
    /// What the policy really read.
    pub facts: Vec<FactRead>,
    /// Who counts.
    pub quorum: Quorum,
    /// Digest of the request.
    pub input_hash: Hex32,
    /// See [`Outcome::output_digest`].
    pub output_hash: Hex32,
    /// Wasm fuel the evaluation used.
    pub fuel_used: u64,
    /// The kind of failure, when the bundle failed rather than judged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fault: Option<String>,
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
        // Without floating-point numbers, so it has a canonical form.
        canonical::digest("svc/policy-output/v1", &output).unwrap_or(Hex32::ZERO)
    }

    /// The same answer held to the deployment's minimum, which no bundle can lower.
    #[must_use]
    pub fn held_to(mut self, required_min: u32) -> Self {
        let quorum = self.quorum.clone().at_least(required_min);
        if quorum != self.quorum {
            self.quorum = quorum;
            self.output_hash = self.output_digest();
        }
        self
    }

    /// `code: operands` of every reason.
    #[must_use]
    pub fn reason_texts(&self) -> Vec<String> {
        self.reasons.iter().map(ToString::to_string).collect()
    }

    /// Whether the operation may go on.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.decision == Decision::Allow
    }
}
