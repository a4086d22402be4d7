//! From a verdict or a fault to the domain's outcome.

use crate::convert;
use crate::evaluator::{Evaluation, RawEvaluation};
use crate::fault::EvaluationFault;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::{Decision, FactRead, Outcome, Quorum, Request, Statement};

/// The hash of a request, which always has a canonical form because it has no floating-point numbers.
pub(crate) fn input_hash(request: &Request<'_>) -> Hex32 {
    request.digest().unwrap_or(Hex32::ZERO)
}

/// Adds the digests and the other members of a decision record.
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

/// The outcome while no bundle is active.
pub(crate) fn without_bundle(request: &Request<'_>) -> Evaluation {
    failed(request, EvaluationFault::NoActiveBundle)
}

/// The outcome of a failure outside of any bundle.
pub(crate) fn failed(request: &Request<'_>, fault: EvaluationFault) -> Evaluation {
    not_evaluated(request, "", Hex32::ZERO, fault)
}

/// The outcome when the bundle was not run at all.
pub(crate) fn not_evaluated(
    request: &Request<'_>,
    bundle_id: &str,
    bundle_hash: Hex32,
    fault: EvaluationFault,
) -> Evaluation {
    complete(request, bundle_id, bundle_hash, RawEvaluation::failed(fault))
}

/// The members of an outcome that a verdict or a fault determines.
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
