//! Bundles from a party that is not trusted, and the repetition of its evaluations.

use crate::limits::BUNDLES_TRUSTED_MAX;
use crate::testing::{
    NOW, author, bundle_of, committed, committed_trust, engine, facts, guest, key, payment, signed, with,
};
use crate::{BundleError, BundleFiles, CompiledBundles, Evaluator, Pins, RepeatError, Trust, TrustedBundles};
use gateway_domain::policy::{FactRead, Facts, FaultKind, Moment, Recorded};
use std::sync::Arc;

fn roots(trust: &crate::TrustPolicy) -> Vec<u8> {
    serde_json::to_vec(trust).unwrap()
}

fn trusting(trust: &crate::TrustPolicy) -> Trust {
    let trusted = Trust::new(true);
    trusted.replace(Ok(&roots(trust)), Pins::default()).unwrap();
    trusted
}

fn release(sequence: u64) -> BundleFiles {
    signed(&committed(), &[&key(1)], |manifest| manifest.sequence = sequence)
}

#[test]
fn verifiers_of_one_process_compile_a_bundle_once_and_check_signatures_each() {
    let compiled = Arc::new(CompiledBundles::default());
    let trusts = TrustedBundles::new(trusting(&author()), Arc::clone(&compiled));
    let others = TrustedBundles::new(trusting(&committed_trust()), Arc::clone(&compiled));
    let first = trusts.add(release(1), None, NOW).unwrap();
    let refused = others.add(release(1), None, NOW).unwrap_err();
    assert!(matches!(refused, BundleError::RoleUnmet { .. }), "{refused}");
    let again =
        TrustedBundles::new(trusting(&author()), Arc::clone(&compiled)).add(release(1), None, NOW).unwrap();
    assert!(Arc::ptr_eq(first.evaluator(), again.evaluator()));
    assert_eq!(compiled.n_compiled(), 1);
}

#[test]
fn trust_is_checked_again_after_a_change_and_without_roots_nothing_is_trusted() {
    let trust = trusting(&author());
    let bundles = TrustedBundles::new(trust.clone(), Arc::default());
    let bundle = bundles.add(release(1), None, NOW).unwrap();
    bundles.check(&bundle, NOW).unwrap();
    trust.replace(Ok(&roots(&committed_trust())), Pins::default()).unwrap();
    assert!(matches!(bundles.check(&bundle, NOW), Err(BundleError::RoleUnmet { .. })));
    assert!(trust.replace(Ok(b"{}"), Pins::default()).is_err());
    assert!(matches!(bundles.check(&bundle, NOW), Err(BundleError::NoTrustRoots)));
    assert!(matches!(bundles.add(release(2), None, NOW), Err(BundleError::NoTrustRoots)));
    let other = Pins::parse(&"77".repeat(32)).unwrap();
    trust.replace(Ok(&roots(&author())), other).unwrap();
    assert!(matches!(bundles.check(&bundle, NOW), Err(BundleError::NotPinned(_))));
    trust.replace(Ok(&roots(&author())), Pins::default()).unwrap();
    bundles.check(&bundle, NOW).unwrap();
}

#[test]
fn least_recently_used_bundle_is_dropped() {
    let bundles = TrustedBundles::new(trusting(&author()), Arc::default());
    let n = u64::try_from(BUNDLES_TRUSTED_MAX).unwrap();
    let hashes: Vec<_> =
        (1..=n).map(|sequence| bundles.add(release(sequence), None, NOW).unwrap().bundle().hash()).collect();
    assert!(bundles.find(hashes[0]).is_some());
    bundles.add(release(n + 1), None, NOW).unwrap();
    assert!(bundles.find(hashes[0]).is_some(), "it was used after the second");
    assert!(bundles.find(hashes[1]).is_none());
}

#[test]
fn offer_above_the_size_limit_is_refused() {
    let bundles = TrustedBundles::new(trusting(&author()), Arc::default());
    let large = vec![b' '; 31 << 20];
    let names = ["data/a.json", "data/b.json", "data/c.json"];
    let files = with(&release(1), &names.map(|name| (name, large.as_slice()))).unwrap();
    assert!(matches!(bundles.add(files, None, NOW), Err(BundleError::FileTooLarge { .. })));
    let record = vec![b' '; 300 << 10];
    assert!(matches!(bundles.add(release(1), Some(&record), NOW), Err(BundleError::FileTooLarge { .. })));
}

#[test]
fn repetition_confirms_exactly_the_recorded_evaluation() {
    let engine = engine();
    let evaluator =
        Evaluator::link(&engine, &crate::testing::verify(committed(), &committed_trust()).unwrap());
    let evaluator = evaluator.unwrap();
    let sample = payment("acct-2", &["bob", "carol"]);
    let request = sample.request(Moment::Admission);
    let outcome = evaluator.evaluate(&request, &facts("2"), u64::MAX).raise_quorum_to(2);
    let recorded = Recorded::from(&outcome);
    assert_eq!(evaluator.repeat(&request, &recorded).unwrap(), outcome);
    assert_eq!(evaluator.repeat_inline(&request, &recorded).unwrap().unwrap(), outcome);
    let altered = |alter: fn(&mut Recorded)| {
        let mut recorded = recorded.clone();
        alter(&mut recorded);
        evaluator.repeat(&request, &recorded).unwrap_err()
    };
    let used = recorded.fuel_used;
    assert_eq!(altered(|it| it.fuel_used += 1), RepeatError::OtherFuel { recorded: used + 1, used });
    assert_eq!(altered(|it| drop(it.facts.pop())), RepeatError::OtherFacts);
    let doubled = |it: &mut Recorded| it.facts.push(it.facts[0].clone());
    assert_eq!(altered(doubled), RepeatError::OtherFacts);
    let many = |it: &mut Recorded| it.facts = vec![FactRead { name: "x".into(), value: None }; 129];
    assert_eq!(altered(many), RepeatError::TooManyFacts);
    let long = |it: &mut Recorded| it.facts[0].value = Some("x".repeat(2 << 20));
    assert_eq!(altered(long), RepeatError::TooManyFacts);
}

/// A failure of the host is not the policy's answer.
#[test]
fn failure_of_the_host_is_not_a_refusal() {
    let engine = crate::PolicyEngine::with_room_for(1).unwrap();
    let bundle = bundle_of(&engine, &guest(1, "", "i32.const 0"), |_| ());
    let evaluator = Evaluator::link(&engine, &bundle).unwrap();
    let sample = payment("acct-2", &["bob"]);
    let request = sample.request(Moment::Admission);
    let _occupied = evaluator.evaluate_and_retain(&request, &Facts::default()).unwrap();
    let repeated = evaluator.repeat(&request, &Recorded::default());
    assert_eq!(repeated, Err(RepeatError::Host(FaultKind::PoolExhausted.into())));
}
