//! The result of an evaluation, and the domain's outcome that is made from it.

use crate::limits::{FUEL_INLINE, MEMORY_BYTES_INLINE};
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::{Decision, FactRead, Fault, FaultKind, Outcome, Quorum, Request, Statement};

/// The DENY of a host that could not evaluate, which names no bundle.
#[must_use]
pub fn without_bundle(request: &Request<'_>, kind: FaultKind) -> Outcome {
    complete(request, "", Hex32::ZERO, RawEvaluation::failed(kind.into()))
}

/// A policy's answer, checked.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) decision: Decision,
    pub(crate) reasons: Vec<Statement>,
    pub(crate) obligations: Vec<Statement>,
    pub(crate) quorum: Quorum,
}

/// The result of an evaluation, without bundle and digests.
#[derive(Clone, Debug)]
pub struct RawEvaluation {
    pub(crate) verdict: Result<Verdict, Fault>,
    pub(crate) fuel_used: u64,
    pub(crate) memory_bytes: usize,
    pub(crate) facts: Vec<FactRead>,
    pub(crate) documents: Vec<Envelope>,
}

impl RawEvaluation {
    /// The result when the guest was not run, or the host panicked.
    pub(crate) const fn failed(fault: Fault) -> Self {
        Self { verdict: Err(fault), fuel_used: 0, memory_bytes: 0, facts: Vec::new(), documents: Vec::new() }
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
            || matches!(self.fault_kind(), Some(FaultKind::Deadline | FaultKind::Memory))
    }

    /// The policy's decision.
    ///
    /// # Errors
    /// The fault, if there is no verdict.
    pub fn decision(&self) -> Result<Decision, &Fault> {
        self.verdict.as_ref().map(|verdict| verdict.decision)
    }

    /// The kind of fault; `None` if there is a verdict.
    #[must_use]
    pub fn fault_kind(&self) -> Option<FaultKind> {
        self.verdict.as_ref().err().map(|fault| fault.kind)
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
    RawEvaluation { verdict, fuel_used, facts, documents, .. }: RawEvaluation,
) -> Outcome {
    let mut outcome = Outcome {
        input_hash: input_hash(request),
        output_hash: Hex32::ZERO,
        decision: Decision::Deny,
        bundle_id: bundle_id.to_owned(),
        bundle_hash,
        reasons: Vec::new(),
        obligations: Vec::new(),
        facts,
        proven_by: Vec::new(),
        documents,
        quorum: Quorum::default(),
        fuel_used,
        fault: None,
    };
    match verdict {
        Ok(verdict) => {
            outcome.decision = verdict.decision;
            outcome.reasons = verdict.reasons;
            outcome.obligations = verdict.obligations;
            outcome.quorum = verdict.quorum;
        }
        Err(fault) => {
            let code = format!("policy_fault:{}", fault.kind.as_str());
            let detail = Some(fault.detail.clone()).filter(|detail| !detail.is_empty());
            outcome.reasons = vec![match detail {
                Some(detail) => Statement::with_operand(code, "fault", detail),
                None => Statement { code, operands: Vec::new() },
            }];
            outcome.fault = Some(fault);
        }
    }
    outcome.output_hash = outcome.output_digest();
    outcome
}
