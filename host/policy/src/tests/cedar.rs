//! The Cedar engine as a guest of the pure world. What it decides is in the bundle's own vectors, which loading runs.

use super::support::{committed_bundle, committed_trust, engine, facts, payment, verify};
use crate::Evaluator;
use crate::bundle::WORLD;
use gateway_domain::policy::{Decision, Moment};

/// One test, because compiling an engine of 2.7 MB takes seconds.
#[test]
fn the_committed_cedar_bundle_holds_its_vectors_and_answers_the_same_twice() {
    let bundle = verify(committed_bundle("cedar-example"), &committed_trust()).unwrap();
    assert_eq!(bundle.manifest().world, WORLD);
    assert!(bundle.manifest().capabilities.iter().all(|capability| capability.starts_with("svc:policy/")));
    let evaluator = Evaluator::load(&engine(), &bundle).unwrap();

    let asked = payment("acct-2", &["bob", "carol"]);
    let judge = || evaluator.evaluate(&asked.request(Moment::Admission), &facts("2"), u64::MAX);
    let (first, again) = (judge(), judge());
    assert_eq!((first.fault, first.outcome.decision), (None, Decision::Allow));
    assert_eq!(first, again);
    assert_eq!(first.outcome.reasons[0].detail, "policy `payment-to-permitted-recipient`");
    let read: Vec<_> = first.outcome.facts.iter().map(|fact| fact.name.as_str()).collect();
    let declared = &bundle.manifest().facts;
    assert!(read.len() == declared.len() && read.iter().all(|name| declared.iter().any(|it| it == name)));
    assert!(first.outcome.fuel_used < evaluator.fuel_max() / 2, "{}", first.outcome.fuel_used);
}
