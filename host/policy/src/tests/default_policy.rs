//! The bundles in the repository: their verdicts, and what the host records.

use crate::bundle::WORLD;
use crate::testing::{committed, committed_bundle, committed_trust, engine, facts, payment, verify};
use crate::{Bundle, BundleError, Evaluator, PolicyEngine};
use gateway_domain::policy::{Decision, Moment};

fn load(engine: &PolicyEngine) -> Evaluator {
    Evaluator::load(engine, &verify(committed(), &committed_trust()).unwrap()).unwrap()
}

#[test]
fn the_committed_bundle_loads_under_the_development_roots_and_describes_itself() {
    assert!(committed_trust().trusts_development());
    let evaluator = load(&engine());
    assert_eq!(evaluator.describe().unwrap(), "payment-guard 3.0.0");
    assert_eq!(evaluator.bundle_id(), "payment-guard");
    let component = committed();
    let component = component.get("policy.wasm").unwrap();
    for path in ["/root", "/home", "/work", ".cargo/registry"] {
        assert!(!component.windows(path.len()).any(|window| window == path.as_bytes()), "{path}");
    }
}

#[test]
fn the_strict_bundle_is_the_same_component_with_data_and_loads_too() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles/payment-guard-strict");
    let files = crate::BundleFiles::read(&folder).unwrap();
    assert_eq!(files.get("policy.wasm").unwrap(), committed().get("policy.wasm").unwrap());
    let bundle = verify(files, &committed_trust()).unwrap();
    let evaluator = Evaluator::load(&engine(), &bundle).unwrap();
    assert!(evaluator.may_read_facts("velocity.") && !load(&engine()).may_read_facts("velocity."));
    // Each declared code occurs in a vector of one of the two bundles.
    let (mut shown, ours) =
        (std::collections::BTreeSet::new(), verify(committed(), &committed_trust()).unwrap());
    for (_, vector) in [bundle.vectors().unwrap(), ours.vectors().unwrap()].concat() {
        shown.extend(vector.expect.reasons.into_iter().chain(vector.expect.obligations));
    }
    let declared = [&bundle.manifest().reasons, &bundle.manifest().obligations];
    let declared = declared.into_iter().flatten().map(|declaration| declaration.code.clone());
    assert_eq!(declared.collect::<std::collections::BTreeSet<_>>(), shown);
    assert_eq!(bundle.manifest().reasons, ours.manifest().reasons);
    assert_eq!(bundle.manifest().obligations, ours.manifest().obligations);
}

/// The committed bundle without its data file of custody rules and their vectors.
fn without_custody_rules() -> Bundle {
    use crate::testing::{author, key, signed, without};
    let data = "data/custody.json";
    let vectors = "tests/custody.json";
    let files = without(&without(&committed(), data), vectors);
    let files = signed(&files, &[&key(1)], |manifest| {
        manifest.files.retain(|name, _| name != data && name != vectors);
    });
    verify(files, &author()).unwrap()
}

#[test]
fn a_bundle_without_custody_rules_denies_every_kind_but_payments() {
    let (permits, none) = (load(&engine()), Evaluator::load(&engine(), &without_custody_rules()).unwrap());
    let vectors = verify(committed(), &committed_trust()).unwrap().vectors().unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for (file, vector) in vectors.iter().filter(|(file, _)| file == "tests/custody.json") {
        let denied = none.answer(file, vector).unwrap();
        assert_eq!(denied.decision, Decision::Deny, "{}", vector.name);
        assert!(denied.reasons[0].ends_with("_not_permitted"), "{}: {:?}", vector.name, denied.reasons);
        if permits.answer(file, vector).unwrap().decision == Decision::Allow {
            let intent = serde_json::to_value(&vector.input.intent).unwrap();
            kinds.insert(intent["kind"].as_str().unwrap().to_owned());
        }
    }
    let all = ["asset_action", "key_create", "recover", "refresh", "reshare", "rotate"];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
    let sample = payment("acct-2", &["bob", "carol"]);
    let paid = none.evaluate(&sample.request(Moment::Admission), &facts("2"), u64::MAX);
    assert_eq!(paid.decision, Decision::Allow, "payments have the deployment's recipients");
}

#[test]
fn outcome_has_the_facts_read_and_the_subjects_counted() {
    let sample = payment("acct-2", &["alice", "bob", "carol"]);
    let outcome = load(&engine()).evaluate(&sample.request(Moment::Admission), &facts("2"), u64::MAX);
    assert_eq!(outcome.decision, Decision::Allow);
    assert_eq!(
        outcome.reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["recipient_permitted: account acct-2", "amount_positive", "quorum_reached: approvals 2, required 2"]
    );
    assert_eq!(
        outcome.facts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "deployment.permitted_recipients=acct-2,acct-3",
            "deployment.required_approvals=2",
            "deployment.separation_of_duties=true"
        ]
    );
    assert_eq!(
        (outcome.quorum.subjects, outcome.quorum.satisfied),
        (vec!["bob".into(), "carol".into()], true)
    );
    assert!(outcome.fault.is_none() && outcome.fuel_used > 0);
}

/// Alice submitted it. The policy compares texts; what is recorded has the spelling of the approvals.
#[test]
fn policy_counts_one_person_in_several_spellings_once() {
    let policy = load(&engine());
    let counted = |approvers: &[&str]| {
        let sample = payment("acct-2", approvers);
        let outcome = policy.evaluate(&sample.request(Moment::Admission), &facts("2"), u64::MAX);
        assert_eq!(outcome.fault, None, "{approvers:?}");
        (outcome.quorum.subjects, outcome.quorum.satisfied)
    };
    assert_eq!(counted(&["Bob", "BOB", "b\u{ad}ob"]), (vec!["Bob".to_owned()], false));
    assert_eq!(counted(&["ALICE", "Bob", " alice"]), (vec!["Bob".to_owned()], false), "the submitter");
    let two = ["REN\u{c9}E".to_owned(), "Bob".to_owned()];
    assert_eq!(counted(&["REN\u{c9}E", "rene\u{301}e", "Bob"]), (two.to_vec(), true));
}

#[test]
fn absent_facts_are_recorded_when_read() {
    let sample = payment("acct-2", &[]);
    let none = gateway_domain::policy::Facts::default();
    let outcome = load(&engine()).evaluate(&sample.request(Moment::Submit), &none, u64::MAX);
    assert_eq!(outcome.decision, Decision::Deny);
    assert_eq!(outcome.facts[0].to_string(), "deployment.permitted_recipients=(none)");
}

#[test]
fn the_same_question_gives_the_same_bytes_and_fuel_on_two_engines() {
    let sample = payment("acct-9", &["bob"]);
    let answer =
        |evaluator: &Evaluator| evaluator.evaluate(&sample.request(Moment::Preview), &facts("2"), u64::MAX);
    let (first, second) = (load(&engine()), load(&engine()));
    let reference = answer(&first);
    for evaluation in [answer(&first), answer(&second), answer(&second)] {
        assert_eq!(evaluation, reference);
    }
    let other = first.evaluate(&sample.request(Moment::Submit), &facts("2"), u64::MAX);
    assert_ne!(other.input_hash, reference.input_hash);
    assert_ne!(other.output_hash, reference.output_hash);
}

#[test]
fn bundle_whose_vectors_fail_is_not_loaded() {
    use crate::testing::{author, key, signed, with};
    let vectors = committed();
    let vectors = String::from_utf8(vectors.get("tests/quorum.json").unwrap().to_vec()).unwrap();
    let broken = vectors.replacen("\"satisfied\": true", "\"satisfied\": false", 1);
    let files = with(&committed(), &[("tests/quorum.json", broken.as_bytes())]).unwrap();
    let hash = gateway_domain::canonical::digest_bytes("", broken.as_bytes());
    let files = signed(&files, &[&key(1)], |manifest| {
        manifest.files.insert("tests/quorum.json".into(), hash);
    });
    let refused = Evaluator::load(&engine(), &verify(files, &author()).unwrap()).unwrap_err();
    assert!(matches!(&refused, BundleError::Vector { file, .. } if file == "tests/quorum.json"), "{refused}");
}

/// The Cedar engine as a guest of the pure world. All in one test, since compiling its 3.5 MB takes seconds. Loading the bundle
/// runs its vectors, which check its decisions.
#[test]
fn committed_cedar_bundle_passes_its_vectors_and_is_deterministic() {
    let bundle = verify(committed_bundle("cedar-example"), &committed_trust()).unwrap();
    assert_eq!(bundle.manifest().world, WORLD);
    assert!(bundle.manifest().capabilities.iter().all(|capability| capability.starts_with("svc:")));
    let evaluator = Evaluator::load(&engine(), &bundle).unwrap();

    let sample = payment("acct-2", &["bob", "carol"]);
    let evaluate = || evaluator.evaluate(&sample.request(Moment::Admission), &facts("2"), u64::MAX);
    let (first, again) = (evaluate(), evaluate());
    assert_eq!((first.fault_kind(), first.decision), (None, Decision::Allow));
    assert_eq!(first, again);
    assert_eq!(first.reasons[0].operand("policy"), Some("payment-to-permitted-recipient"));
    assert_eq!(first.reasons[0].operand("place"), Some("data/policies.cedar:5:1"));
    let read: Vec<_> = first.facts.iter().map(|fact| fact.name.as_str()).collect();
    let declared = &bundle.manifest().facts;
    assert!(read.len() == declared.len() && read.iter().all(|name| declared.iter().any(|it| it == name)));
    assert!(first.fuel_used < evaluator.fuel_max() / 2, "{}", first.fuel_used);
}
