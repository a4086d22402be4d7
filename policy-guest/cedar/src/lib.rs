//! Evaluates the [Cedar](https://www.cedarpolicy.com) policies in the signed data of its bundle.
//!
//! All bundles share this engine. They differ in the files below `data/`, which the bundle's hash pins like every other file. The documentation of [`request`] shows what policies see of a request; this
//! table shows the verdict for each answer of Cedar:
//!
//! | Cedar's answer | verdict | reason, one for each policy |
//! |---|---|---|
//! | the files, the request or one policy cannot be read or evaluated | DENY | `cedar_error` |
//! | a `forbid` applies | DENY | its `@code`, or `cedar_forbid` |
//! | no `permit` applies | DENY | `cedar_no_permit` |
//! | a `permit` applies, and none of the above | ALLOW | its `@code`, or `cedar_permit` |
//!
//! Cedar itself skips a policy that fails, even a `forbid`. Here a failing policy denies, since it might have forbidden the
//! request. A `forbid` with `@quorum` does not deny: it requires approvals while it applies. At admission a missing quorum
//! denies. One with `@wait` or `@postpone` does not deny either: the admission waits.
//!
//! [`prepare`] reads the files once, when the bundle is built; a snapshot of the component's memory then serves every evaluation.

mod documents;
mod location;
mod policies;
mod prepared;
mod quorum;
mod rates;
pub mod request;
mod schema;

use gateway_policy_sdk::{Answer, Data, Documents, Facts, Policy, Request, Verdict};
use prepared::{Fault, Prepared};
use std::sync::OnceLock;

/// The files of the bundle, read when it was built.
static PREPARED: OnceLock<Prepared> = OnceLock::new();

/// See the crate's documentation.
#[derive(Clone, Copy, Debug)]
pub struct CedarGuest;

impl Policy for CedarGuest {
    const DESCRIPTION: &'static str =
        concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"), ", Cedar 4.14.1");

    fn evaluate(request: &Request, facts: &dyn Facts, data: &dyn Data) -> Verdict {
        evaluate(request, facts, data, &Documents)
    }
}

/// As [`CedarGuest`], with these documents.
pub fn evaluate(request: &Request, facts: &dyn Facts, data: &dyn Data, documents: &dyn Data) -> Verdict {
    let mut answer = Answer::new();
    let mut quorum = quorum::count(request, facts, &mut answer);
    let ask = |prepared: &Prepared| prepared.evaluate(request, facts, documents, &quorum);
    let evaluated = match PREPARED.get() {
        Some(prepared) => prepared.check(data).and_then(|()| ask(prepared)),
        None => Prepared::read(data).map_err(Fault::Files).and_then(|prepared| ask(&prepared)),
    };
    match evaluated {
        Ok(evaluated) => {
            evaluated.judgement.tell(&mut answer);
            quorum::raise(&mut quorum, &evaluated.needs, evaluated.groups);
            quorum::postpone(request, facts, &quorum, &evaluated.needs, &mut answer);
        }
        Err(fault) => fault.tell(&mut answer),
    }
    quorum::judge(request, &quorum, &mut answer);
    answer.verdict(quorum)
}

/// Reads the bundle's files for all later evaluations of this process, and evaluates a request of each kind, so that what Cedar
/// initialises at first use is initialised.
///
/// # Errors
/// What is wrong with the files, with its place.
pub fn prepare(data: &dyn Data) -> Result<(), String> {
    let prepared = Prepared::read(data)?;
    prepared.warm_up();
    PREPARED.set(prepared).map_err(|_| "the files were read already".to_owned())
}

#[cfg(test)]
mod tests;
