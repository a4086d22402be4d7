//! Comparison of a payment's velocity facts with what a verifier, a node or the authority, admitted itself.
//!
//! The recorded facts may be lower without fault: two payments can reach the verifier in another order than they were decided in, and
//! it may count a payment that failed elsewhere. So a lower fact alone is no reason to refuse. The policy must allow the payment with
//! the higher numbers too.

use crate::evaluator::Evaluator;
use crate::known::{Disagreement, Known};
use gateway_domain::policy::{FactRead, Facts, Fault, Recorded, Request, SpendingTotals};

/// Why a payment does not count as allowed with a verifier's own totals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TotalsError {
    /// This host could not evaluate. Another attempt may succeed.
    #[error("the policy cannot be evaluated now: {0}")]
    Host(Fault),
    /// The policy does not allow the payment with these totals.
    #[error(transparent)]
    Denied(Disagreement),
}

impl Known<'_> {
    /// Evaluates a payment once more if one of the verifier's own totals, which do not include the payment, is higher than a fact that
    /// the policy read.
    pub fn check_totals(
        &self,
        evaluator: &Evaluator,
        request: &Request<'_>,
        recorded: &Recorded,
        totals: &SpendingTotals,
    ) -> Result<(), TotalsError> {
        let Some(raised) = raised(&recorded.facts, totals) else { return Ok(()) };
        // With other totals a policy may read more facts than before.
        let facts = Facts::from_pairs(self.facts().into_iter().chain(raised));
        let outcome = evaluator.evaluate(request, &facts, evaluator.fuel_max());
        if let Some(fault) = outcome.host_fault() {
            return Err(TotalsError::Host(fault.clone()));
        }
        let outcome = outcome.raise_quorum_to(recorded.required_approvals);
        self.check_outcome(&outcome).map_err(TotalsError::Denied)
    }
}

/// The recorded facts, with velocity facts raised to these totals. `None` if none is lower.
fn raised(facts: &[FactRead], totals: &SpendingTotals) -> Option<Vec<(String, String)>> {
    let own = totals.facts();
    let value = |name: &str| facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_deref());
    let is_lower = |(name, own): &(&str, String)| {
        value(name).is_some_and(|recorded| number(recorded) < number(Some(own)))
    };
    if !own.iter().any(is_lower) {
        return None;
    }
    let others = facts.iter().filter(|fact| own.iter().all(|(name, _)| *name != fact.name));
    let others = others.filter_map(|fact| Some((fact.name.clone(), fact.value.clone()?)));
    // Also those that were not read: with other totals a policy may read more of them.
    let own = own.iter().map(|(name, own)| {
        let higher = number(value(name).flatten()).max(number(Some(own))).unwrap_or_default();
        ((*name).to_owned(), higher.to_string())
    });
    Some(others.chain(own).collect())
}

fn number(value: Option<&str>) -> Option<u64> {
    value.and_then(|value| value.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_raised_only_if_one_that_was_read_is_lower() {
        let read = |name: &str, value: &str| FactRead { name: name.into(), value: Some(value.into()) };
        let facts = [read("time.now_ms", "7"), read("velocity.account.day_minor", "50")];
        let totals = |account_day_minor| SpendingTotals {
            account_day_minor,
            recipient_day_minor: 90,
            ..SpendingTotals::default()
        };
        for lower in [0, 49, 50] {
            assert_eq!(raised(&facts, &totals(lower)), None, "{lower}");
        }
        let raised: Vec<_> = raised(&facts, &totals(51))
            .unwrap()
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let expected = [
            "time.now_ms=7",
            "velocity.account.day_count=0",
            "velocity.account.day_minor=51",
            "velocity.account.hour_minor=0",
            "velocity.recipient.day_minor=90",
            "velocity.recipient.hour_minor=0",
        ];
        assert_eq!(raised, expected);
    }
}
