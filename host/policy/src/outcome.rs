//! The result of an evaluation, and the domain's outcome that is made from it.

use crate::bindings::svc::policy::types as wit;
use crate::convert;
use crate::fault::EvaluationFault;
use crate::limits::{FUEL_INLINE, MEMORY_BYTES_INLINE};
use gateway_domain::ids::Hex32;
use gateway_domain::policy::{Decision, FactRead, Outcome, Quorum, Request, Statement};

/// The result of one evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The outcome; a DENY when `fault` is set.
    pub outcome: Outcome,
    /// Why the policy gave no verdict; `None` if it did.
    pub fault: Option<EvaluationFault>,
}

impl Evaluation {
    /// The DENY of a failure that names no bundle.
    #[must_use]
    pub fn without_bundle(request: &Request<'_>, fault: EvaluationFault) -> Self {
        not_evaluated(request, "", Hex32::ZERO, fault)
    }
}

/// The result of an evaluation, without bundle and digests.
#[derive(Clone, Debug)]
pub struct RawEvaluation {
    pub(crate) verdict: Result<wit::Verdict, EvaluationFault>,
    pub(crate) fuel_used: u64,
    pub(crate) memory_bytes: usize,
    pub(crate) facts: Vec<FactRead>,
}

impl RawEvaluation {
    /// The result when the guest was not run, or the host panicked.
    pub(crate) const fn failed(fault: EvaluationFault) -> Self {
        Self { verdict: Err(fault), fuel_used: 0, memory_bytes: 0, facts: Vec::new() }
    }

    /// The wasm fuel used.
    #[must_use]
    pub const fn fuel_used(&self) -> u64 {
        self.fuel_used
    }

    /// The most linear memory that the guest had, in bytes.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Whether the evaluation exceeded the inline limits.
    #[must_use]
    pub fn is_heavy(&self) -> bool {
        self.fuel_used > FUEL_INLINE
            || self.memory_bytes > MEMORY_BYTES_INLINE
            || matches!(self.fault(), Some(EvaluationFault::Deadline | EvaluationFault::Memory))
    }

    /// The policy's decision.
    ///
    /// # Errors
    /// The fault, if there is no verdict.
    pub fn decision(&self) -> Result<Decision, EvaluationFault> {
        self.verdict.as_ref().map(|verdict| convert::decision(verdict.decision)).map_err(|fault| *fault)
    }

    /// Why there is no verdict; `None` if there is one.
    #[must_use]
    pub fn fault(&self) -> Option<EvaluationFault> {
        self.verdict.as_ref().err().copied()
    }
}

/// The hash of a request. It has a canonical form, since it contains no floating-point numbers.
pub(crate) fn input_hash(request: &Request<'_>) -> Hex32 {
    request.digest().unwrap_or(Hex32::ZERO)
}

/// Makes the outcome from a raw evaluation: adds the bundle and the digests.
pub(crate) fn complete(
    request: &Request<'_>,
    bundle_id: &str,
    bundle_hash: Hex32,
    raw: RawEvaluation,
) -> Evaluation {
    let RawEvaluation { verdict, fuel_used, facts, .. } = raw;
    let (fault, verdict) = match verdict {
        Ok(verdict) => (
            None,
            Verdict {
                decision: convert::decision(verdict.decision),
                reasons: convert::statements(verdict.reasons),
                obligations: convert::statements(verdict.obligations),
                quorum: convert::quorum(verdict.quorum),
            },
        ),
        Err(fault) => (Some(fault), Verdict::failed(fault)),
    };
    Evaluation {
        outcome: verdict.into_outcome(request, bundle_id, bundle_hash, facts, fuel_used, fault),
        fault,
    }
}

/// The outcome when this bundle was not run.
pub(crate) fn not_evaluated(
    request: &Request<'_>,
    bundle_id: &str,
    bundle_hash: Hex32,
    fault: EvaluationFault,
) -> Evaluation {
    complete(request, bundle_id, bundle_hash, RawEvaluation::failed(fault))
}

/// A verdict, or a DENY with the fault as its reason.
struct Verdict {
    decision: Decision,
    reasons: Vec<Statement>,
    obligations: Vec<Statement>,
    quorum: Quorum,
}

impl Verdict {
    fn failed(fault: EvaluationFault) -> Self {
        let reason = Statement { code: format!("policy_fault:{}", fault.kind()), detail: String::new() };
        Self {
            decision: Decision::Deny,
            reasons: vec![reason],
            obligations: Vec::new(),
            quorum: Quorum::default(),
        }
    }

    fn into_outcome(
        self,
        request: &Request<'_>,
        bundle_id: &str,
        bundle_hash: Hex32,
        facts: Vec<FactRead>,
        fuel_used: u64,
        fault: Option<EvaluationFault>,
    ) -> Outcome {
        let mut outcome = Outcome {
            input_hash: input_hash(request),
            output_hash: Hex32::ZERO,
            decision: self.decision,
            bundle_id: bundle_id.to_owned(),
            bundle_hash,
            reasons: self.reasons,
            obligations: self.obligations,
            facts,
            quorum: self.quorum,
            fuel_used,
            fault: fault.map(|fault| fault.kind().to_owned()),
        };
        outcome.output_hash = outcome.output_digest();
        outcome
    }
}
