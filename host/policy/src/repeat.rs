//! Repeats a recorded evaluation, for a party that does not believe the one that made it.

use crate::evaluator::Evaluator;
use crate::limits::{FACT_VALUES_BYTES_MAX, FACTS_READ_MAX};
use crate::outcome::RawEvaluation;
use gateway_domain::policy::document::{self, DocumentError};
use gateway_domain::policy::{FactRead, Facts, Fault, Outcome, Recorded, Request};

/// Why a recorded evaluation is not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepeatError {
    /// This host could not evaluate. Another attempt may succeed.
    #[error("the policy cannot be evaluated now: {0}")]
    Host(Fault),
    /// The record has more facts, or longer values, than an evaluation can have.
    #[error("the recorded facts are more than a policy reads")]
    TooManyFacts,
    /// A document of the record cannot be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The policy read other facts than the recorded ones, or in another order.
    #[error("the policy reads other facts or documents than the recorded ones")]
    OtherFacts,
    /// The policy used another amount of fuel.
    #[error("the policy used {used} fuel, and {recorded} is recorded")]
    OtherFuel {
        /// The fuel in the record.
        recorded: u64,
        /// The fuel of the repetition.
        used: u64,
    },
}

impl Evaluator {
    /// Repeats an evaluation with the recorded facts. Returns the outcome with the recorded minimum of approvals, so that its
    /// hashes can be compared with those of a decision. The outcome may be a DENY.
    pub fn repeat(&self, request: &Request<'_>, recorded: &Recorded) -> Result<Outcome, RepeatError> {
        let facts = facts(recorded)?;
        self.confirm(request, recorded, self.evaluate_raw(request, &facts, self.fuel_max()))
    }

    /// As [`Evaluator::repeat`], within the limits for the caller's own thread. `None` if they do not suffice.
    pub fn repeat_inline(
        &self,
        request: &Request<'_>,
        recorded: &Recorded,
    ) -> Option<Result<Outcome, RepeatError>> {
        let facts = match facts(recorded) {
            Ok(facts) => facts,
            Err(error) => return Some(Err(error)),
        };
        let raw = self.evaluate_inline(request, &facts)?;
        Some(self.confirm(request, recorded, raw))
    }

    fn confirm(
        &self,
        request: &Request<'_>,
        recorded: &Recorded,
        raw: RawEvaluation,
    ) -> Result<Outcome, RepeatError> {
        let outcome = self.complete(request, raw);
        if let Some(fault) = outcome.host_fault() {
            return Err(RepeatError::Host(fault.clone()));
        }
        if outcome.facts != recorded.facts || outcome.documents != recorded.documents {
            return Err(RepeatError::OtherFacts);
        }
        if outcome.fuel_used != recorded.fuel_used {
            return Err(RepeatError::OtherFuel { recorded: recorded.fuel_used, used: outcome.fuel_used });
        }
        Ok(outcome.raise_quorum_to(recorded.required_approvals))
    }
}

fn facts(recorded: &Recorded) -> Result<Facts, RepeatError> {
    let bytes = |fact: &FactRead| fact.name.len().saturating_add(fact.value.as_ref().map_or(0, String::len));
    let n_bytes = recorded.facts.iter().map(bytes).fold(0, usize::saturating_add);
    if recorded.facts.len() > FACTS_READ_MAX || n_bytes > FACT_VALUES_BYTES_MAX {
        return Err(RepeatError::TooManyFacts);
    }
    let documents = document::parse_all(&recorded.documents)?;
    Ok(Facts::recorded(&recorded.facts, &documents))
}
