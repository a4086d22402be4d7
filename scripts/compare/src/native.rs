//! The default policy as a plain Rust function.

use crate::case::Case;
use crate::{Allowed, request};
use gateway_policy_sdk as sdk;
use payment_guard::PaymentGuard;
use sdk::Policy as _;

/// Whether the default policy, which has no data, allows the payment.
pub(crate) fn allows(case: &Case) -> Allowed {
    let request = request::of(&case.request())?;
    let verdict = PaymentGuard::evaluate(&request, &Known(case), &sdk::testing::data(&[]));
    Ok(verdict.decision == sdk::Decision::Allow)
}

struct Known<'a>(&'a Case);

impl sdk::Facts for Known<'_> {
    fn get(&self, name: &str) -> Option<String> {
        self.0.facts.get(name).map(str::to_owned)
    }
}
