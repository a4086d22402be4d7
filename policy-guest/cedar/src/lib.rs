//! Evaluates the [Cedar](https://www.cedarpolicy.com) policies in the signed data of its bundle.
//!
//! All bundles share this component. They differ in `data/policies.cedar` and `data/settings.json`, which the bundle's
//! hash pins like every other file. The documentation of [`request`] shows what policies see of a request; this table
//! shows the verdict for each answer of Cedar:
//!
//! | Cedar's answer | verdict | reason, one for each policy |
//! |---|---|---|
//! | the policies, the settings, the request or one policy cannot be read or evaluated | DENY | `cedar_error` |
//! | a `forbid` applies | DENY | `cedar_forbid` |
//! | no `permit` applies | DENY | `cedar_no_permit` |
//! | a `permit` applies, and none of the above | ALLOW | `cedar_permit` |
//!
//! Cedar itself skips a policy that fails, even a `forbid`. Here a failing policy denies, since it might have forbidden the
//! request. The quorum is counted as in the default policy; at admission a missing quorum also denies.

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
            answer.deny("cedar_error", &[("fault", &fault)]);
            Settings::default()
        });
        let quorum = quorum::count(request, facts, &settings, &mut answer);
        match judged(request, facts, data, &settings, &quorum) {
            Ok(judgement) => judgement.tell(&mut answer),
            Err(fault) => answer.deny("cedar_error", &[("fault", &fault)]),
        }
        quorum::judge(request, &quorum, &mut answer);
        answer.verdict(quorum)
    }
}

/// Cedar's answer, or why the policies or the request could not be built.
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
