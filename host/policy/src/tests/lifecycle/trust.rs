//! What takes the active bundle out: revoked keys and its own end.

use super::super::support::{NOW, facts, key, payment, role, signed, trust};
use super::deployment::{self, Deployment, bundle, hash_of};
use crate::lifecycle::Cause;
use gateway_domain::policy::{Decision, Facts, Moment};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{DescribePolicies, EvaluatePolicy};

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_signer_takes_the_active_bundle_out() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    let both = [&key(1), &key(2)];
    deployment.trust(&trust(vec![role("author", 1, &both)], &[&key(1)]));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::fault(&lifecycle).await, Some("untrusted_bundle"));
    let asked = payment("acct-2", &[]);
    let outcome = lifecycle.host().evaluate(asked.request(Moment::Submit), &facts("2")).await;
    assert_eq!((outcome.decision, outcome.bundle_hash), (Decision::Deny, hash_of(&bundle(1))));
    assert_eq!(outcome.reasons[0].code, "policy_fault:untrusted_bundle");
    let health = lifecycle.health();
    assert_eq!(health.fault, Some("untrusted_bundle"));
    assert!(health.refused.iter().any(|refused| refused.offer == "active"), "{health:?}");

    // A restart does not fall back to it either, and neither does one without the folder.
    deployment.remove_bundle();
    let restarted = deployment.open().await.unwrap();
    assert_eq!(deployment::fault(&restarted).await, Some("no_active_bundle"));
    assert_eq!(restarted.health().fault, Some("no_active_bundle"));

    // The same bundle with a signature that counts judges again, wherever it runs.
    deployment.offer(&signed(&bundle(1), &[&key(2)], |_| ()));
    for lifecycle in [&lifecycle, &restarted] {
        deployment::watch(lifecycle).await;
        assert_eq!((deployment::fault(lifecycle).await, lifecycle.health().refused), (None, vec![]));
    }
    // And the store has that signature: it is enough without the folder.
    deployment.remove_bundle();
    assert_eq!(deployment::fault(&deployment.open().await.unwrap()).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_taken_back_lets_it_judge_again() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    let both = vec![role("author", 1, &[&key(1), &key(2)])];
    deployment.trust(&trust(both.clone(), &[&key(1)]));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::fault(&lifecycle).await, Some("untrusted_bundle"));
    deployment.trust(&trust(both, &[]));
    deployment::watch(&lifecycle).await;
    assert_eq!((deployment::fault(&lifecycle).await, lifecycle.health().refused), (None, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_trust_roots_leave_the_last_ones_in_force() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    for damaged in ["", "{", r#"{"roles":[],"revoked":[]}"#] {
        std::fs::write(deployment.path("trust.json"), damaged).unwrap();
        lifecycle.reload(Cause::Asked).await;
        assert_eq!(deployment::fault(&lifecycle).await, None);
        assert_eq!(lifecycle.health().refused[0].offer, "trust_roots");
    }
    // They are the ones that a new bundle is held to.
    deployment.offer(&signed(&bundle(2), &[&key(2)], |_| ()));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_development_key_is_not_let_in_by_a_change_of_the_trust_roots() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.trust(&trust(vec![role("development", 1, &[&key(2)])], &[]));
    deployment.offer(&signed(&bundle(2), &[&key(2)], |_| ()));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
    assert!(lifecycle.health().refused.iter().any(|it| it.why.contains("in production")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_expires_while_active_gives_no_verdict_any_more() {
    let deployment = Deployment::new();
    let until = signed(&bundle(1), &[&key(1)], |manifest| manifest.not_after_ms = Some(NOW.0));
    let lifecycle = deployment.start(&until).await;
    assert_eq!((deployment::fault(&lifecycle).await, lifecycle.health().fault), (None, None));
    deployment.clock.set(EpochMs(NOW.0 + 1));
    assert_eq!(lifecycle.health().fault, Some("expired_bundle"));
    let asked = payment("acct-2", &[]);
    let at = async |now: Option<u64>| {
        let facts = Facts::from_pairs(now.map(|now| ("time.now_ms", now.to_string())));
        lifecycle.host().evaluate(asked.request(Moment::Admission), &facts).await
    };
    assert_eq!(at(Some(NOW.0)).await.fault, None);
    for late in [Some(NOW.0 + 1), None] {
        let outcome = at(late).await;
        assert_eq!((outcome.decision, outcome.fault.as_deref()), (Decision::Deny, Some("expired_bundle")));
        assert_eq!(outcome.bundle_hash, hash_of(&until));
    }
    // A restart has nothing better, and says so.
    let restarted = deployment.open().await.unwrap();
    assert_eq!(restarted.health().fault, Some("no_active_bundle"));
    assert!(
        restarted.health().refused.iter().all(|it| it.why.contains("expired")),
        "{:?}",
        restarted.health()
    );
    deployment.offer(&bundle(2));
    deployment::watch(&lifecycle).await;
    assert_eq!(lifecycle.health().fault, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_writes_the_store_makes_no_bundle() {
    let deployment = Deployment::new();
    deployment.start(&bundle(2)).await;
    deployment.remove_bundle();
    // Signed by who is trusted, and not what the high-water mark names; named, and signed by nobody.
    for lie in [bundle(1), signed(&bundle(2), &[], |_| ())] {
        let lifecycle = deployment.open_on_a_lying_store(&lie).await;
        assert_eq!(deployment::fault(&lifecycle).await, Some("no_active_bundle"));
        assert!(lifecycle.health().refused.iter().any(|it| it.offer == "active"), "{:?}", lifecycle.health());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_trust_roots_decide_anew_about_what_lies_there_unchanged() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    let newer = signed(&bundle(2), &[&key(2)], |_| ());
    deployment.offer(&newer);
    deployment.offer_candidate(&bundle(3));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
    assert!(lifecycle.status(1).await.unwrap().candidate.is_some());
    deployment.trust(&trust(vec![role("author", 1, &[&key(1), &key(2)])], &[&key(1)]));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&newer));
    let status = lifecycle.status(1).await.unwrap();
    assert_eq!((status.fault, status.candidate), (None, None), "the candidate's author is revoked");
    assert_eq!(status.refused.len(), 1, "{:?}", status.refused);
}
