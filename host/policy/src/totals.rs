//! Comparison of a payment's velocity facts with what a verifier, a node or the authority, admitted itself.
//!
//! The recorded facts may be lower without fault: two payments can reach the verifier in another order than they were decided in, and
//! it may count a payment that failed elsewhere. So a lower fact alone is no reason to refuse. The policy must allow the payment with
//! the higher numbers too.

use crate::evaluator::Evaluator;
use crate::known::{Disagreement, Known};
use gateway_domain::policy::{FactRead, Facts, Fault, Recorded, Request, SpendingTotals};
use gateway_domain::time::EpochMs;
use std::collections::BTreeMap;

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
        // Those that came with the evaluation were valid at its time.
        let facts = facts.with_documents(&self.documents, EpochMs(0));
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
    let is_lower = |fact: &FactRead| number(fact.value.as_deref()) < totals.get(&fact.name);
    if !facts.iter().any(is_lower) {
        return None;
    }
    let recorded = |fact: &FactRead| Some((fact.name.clone(), number(fact.value.as_deref())?));
    let recorded: BTreeMap<_, _> = facts.iter().filter_map(recorded).collect();
    let others = facts.iter().filter(|fact| totals.get(&fact.name).is_none());
    let others = others.filter_map(|fact| Some((fact.name.clone(), fact.value.clone()?)));
    // Also those that were not read: with other totals a policy may read more of them.
    let own = totals.iter().map(|(name, own)| {
        let higher = recorded.get(name).copied().unwrap_or_default().max(own);
        (name.to_owned(), higher.to_string())
    });
    Some(others.chain(own).collect())
}

fn number(value: Option<&str>) -> Option<u64> {
    value.and_then(|value| value.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn facts_are_raised_only_if_one_that_was_read_is_lower() {
        let read = |name: &str, value: &str| FactRead { name: name.into(), value: Some(value.into()) };
        let facts = [read("time.now_ms", "7"), read("velocity.account.24h.units", "50")];
        let totals = |units: u64| -> SpendingTotals {
            let totals =
                json!({ "velocity.account.24h.units": units, "velocity.recipient.24h.units.of.USD": 90 });
            serde_json::from_value(totals).unwrap()
        };
        for lower in [0, 49, 50] {
            assert_eq!(raised(&facts, &totals(lower)), None, "{lower}");
        }
        let raised: Vec<_> = raised(&facts, &totals(51))
            .unwrap()
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let expected =
            ["time.now_ms=7", "velocity.account.24h.units=51", "velocity.recipient.24h.units.of.USD=90"];
        assert_eq!(raised, expected);
    }
}
