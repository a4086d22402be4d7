//! Judges by the [Cedar](https://www.cedarpolicy.com) policies that its bundle carries as signed data.
//!
//! The component is the same for everybody; what differs is `data/policies.cedar` and `data/settings.json`, which the
//! bundle's hash pins like everything else. How a request looks to a policy is in [`request`]'s documentation; what
//! comes of Cedar's answer is in this table:
//!
//! | Cedar says | verdict | reason, one for each policy |
//! |---|---|---|
//! | some policy, or the text of all, cannot be evaluated | DENY | `cedar_error` |
//! | a `forbid` applies | DENY | `cedar_forbid` |
//! | no `permit` applies | DENY | `cedar_no_permit` |
//! | a `permit` applies, and none of the above | ALLOW | `cedar_permit` |
//!
//! Cedar itself skips a policy that fails, even a `forbid`. Here a failing policy denies: nobody can tell what it would
//! have forbidden. The quorum is counted as everywhere, and at admission a missing one denies besides.

mod policies;
mod quorum;
pub mod request;
mod settings;

use gateway_policy_sdk::{Answer, Data, Facts, Policy, Request, Verdict};
use settings::Settings;

/// See the crate's documentation.
#[derive(Clone, Copy, Debug)]
pub struct CedarGuest;

impl Policy for CedarGuest {
    const DESCRIPTION: &'static str =
        concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"), ", Cedar 4.14.1");

    fn evaluate(request: &Request, facts: &dyn Facts, data: &dyn Data) -> Verdict {
        let mut answer = Answer::new();
        let settings = Settings::read(data).unwrap_or_else(|fault| {
            answer.deny("cedar_error", fault);
            Settings::default()
        });
        let quorum = quorum::count(request, facts, &settings, &mut answer);
        match judged(request, facts, data, &settings, &quorum) {
            Ok(judgement) => judgement.tell(&mut answer),
            Err(fault) => answer.deny("cedar_error", fault),
        }
        quorum::judge(request, &quorum, &mut answer);
        answer.verdict(quorum)
    }
}

/// What Cedar makes of the request, or why it could not be asked.
fn judged(
    request: &Request,
    facts: &dyn Facts,
    data: &dyn Data,
    settings: &Settings,
    quorum: &gateway_policy_sdk::Quorum,
) -> Result<policies::Judgement, String> {
    let policies = policies::Policies::read(data)?;
    let (request, entities) = request::build(request, facts, settings, quorum)?;
    Ok(policies.judge(&request, &entities))
}

#[cfg(test)]
mod tests;
