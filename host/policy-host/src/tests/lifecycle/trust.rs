//! Why an active bundle stops evaluating: revoked keys, unreadable trust roots, and expiry.

use super::deployment::{self, Deployment, bundle, hash_of};
use crate::lifecycle::StartError;
use gateway_domain::policy::{Decision, Facts, FaultKind, Moment};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{DescribePolicies, EvaluatePolicy};
use gateway_policy::testing::{NOW, author, facts, key, payment, role, signed, trust};

#[tokio::test(flavor = "multi_thread")]
async fn revoking_its_signer_stops_the_active_bundle() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    let both = [&key(1), &key(2)];
    deployment.trust(&trust(vec![role("author", 1, &both)], &[&key(1)]));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::fault(&lifecycle).await, Some("untrusted_bundle"));
    let sample = payment("acct-2", &[]);
    let outcome = lifecycle.host().evaluate(None, sample.request(Moment::Submit), &facts("2")).await;
    assert_eq!((outcome.decision, outcome.bundle_hash), (Decision::Deny, hash_of(&bundle(1))));
    assert_eq!(outcome.reasons[0].code, "policy_fault:untrusted_bundle");
    let health = lifecycle.health();
    assert_eq!(health.fault, Some("untrusted_bundle"));
    assert!(health.refused.iter().any(|refused| refused.offer == "active"), "{health:?}");

    // After a restart without the folder, no bundle is active.
    deployment.remove_bundle();
    let restarted = deployment.open().await.unwrap();
    assert_eq!(deployment::fault(&restarted).await, Some("no_active_bundle"));
    assert_eq!(restarted.health().fault, Some("no_active_bundle"));

    // The same bundle with a trusted signature evaluates again, in both processes.
    deployment.offer(&signed(&bundle(1), &[&key(2)], |_| ()));
    for lifecycle in [&lifecycle, &restarted] {
        deployment::watch(lifecycle).await;
        assert_eq!((deployment::fault(lifecycle).await, lifecycle.health().refused), (None, vec![]));
    }
    // The store has the new signature, so a start without the folder succeeds.
    deployment.remove_bundle();
    assert_eq!(deployment::fault(&deployment.open().await.unwrap()).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn withdrawn_revocation_makes_the_bundle_evaluate_again() {
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
async fn revoking_the_only_key_of_a_role_stops_its_bundle_and_every_new_one() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.trust(&trust(vec![role("author", 1, &[&key(1)])], &[&key(1)]));
    deployment.offer(&bundle(2));
    deployment.offer_candidate(&bundle(3));
    deployment.record(4, &bundle(1), &[&key(1)]);
    for again in [false, true] {
        if again {
            lifecycle.reload().await;
        } else {
            lifecycle.reload_if_changed().await;
        }
        assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
        assert_eq!(deployment::fault(&lifecycle).await, Some("untrusted_bundle"));
        let status = lifecycle.status(10).await.unwrap();
        assert_eq!((status.fault, status.history.len()), (Some("untrusted_bundle"), 1));
        assert_eq!(status.candidate, None);
        let refused: Vec<_> = status.refused.iter().map(|it| it.offer).collect();
        assert_eq!(refused, ["active", "activation", "bundle", "candidate"]);
        assert!(status.refused[0].why.contains("0 of its keys are not revoked"), "{:?}", status.refused);
    }
    // A restarted gateway trusts none of them, and activates the next bundle with a trusted signature.
    let restarted = deployment.open().await.unwrap();
    assert_eq!(restarted.health().fault, Some("no_active_bundle"));
    deployment.trust(&trust(vec![role("author", 1, &[&key(1), &key(2)])], &[&key(1)]));
    deployment.offer(&signed(&bundle(2), &[&key(2)], |_| ()));
    for lifecycle in [&lifecycle, &restarted] {
        deployment::watch(lifecycle).await;
        assert_eq!(deployment::fault(lifecycle).await, None);
        assert_eq!(deployment::active(lifecycle), hash_of(&bundle(2)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_has_to_confirm_the_active_bundle_by_its_threshold() {
    let (author, security) = ([key(1), key(2)], [key(3)]);
    let roles = || vec![role("author", 2, &[&author[0], &author[1]]), role("security", 1, &[&security[0]])];
    let release = |sequence| signed(&bundle(sequence), &[&key(1), &key(2), &key(3)], |_| ());
    for revoked in [&author[0], &security[0]] {
        let deployment = Deployment::new();
        deployment.trust(&trust(roles(), &[]));
        let lifecycle = deployment.start(&release(1)).await;
        assert_eq!(deployment::fault(&lifecycle).await, None);
        deployment.trust(&trust(roles(), &[revoked]));
        deployment.offer(&release(2));
        deployment::watch(&lifecycle).await;
        assert_eq!(deployment::fault(&lifecycle).await, Some("untrusted_bundle"));
        assert_eq!(deployment::active(&lifecycle), hash_of(&release(1)));
    }
}

/// Replaces the file of trust roots by this text, a folder or a pipe; `None` removes it.
fn damage(deployment: &Deployment, damaged: Option<&str>) {
    let path = deployment.path("trust.json");
    match damaged {
        Some("a folder") => {
            std::fs::remove_file(&path).unwrap();
            std::fs::create_dir(&path).unwrap();
        }
        Some("a pipe") => {
            std::fs::remove_file(&path).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        }
        Some(text) => std::fs::write(&path, text).unwrap(),
        None => std::fs::remove_file(&path).unwrap(),
    }
}

fn repair(deployment: &Deployment) {
    let path = deployment.path("trust.json");
    if path.is_dir() {
        std::fs::remove_dir(&path).unwrap();
    } else if path.exists() {
        std::fs::remove_file(&path).unwrap();
    }
    deployment.trust(&author());
}

const DAMAGED: [Option<&str>; 6] =
    [Some(""), Some("{"), Some(r#"{"roles":[],"revoked":[]}"#), Some("a folder"), Some("a pipe"), None];

#[tokio::test(flavor = "multi_thread")]
async fn while_trust_roots_cannot_be_read_nothing_is_allowed_and_nothing_activated() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.offer_candidate(&bundle(9));
    deployment::watch(&lifecycle).await;
    for (sequence, damaged) in (2..).zip(DAMAGED) {
        damage(&deployment, damaged);
        deployment.offer(&bundle(sequence));
        deployment::watch(&lifecycle).await;
        assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(sequence - 1)));
        let sample = payment("acct-2", &[]);
        let outcome = lifecycle.host().evaluate(None, sample.request(Moment::Submit), &facts("2")).await;
        assert_eq!(
            (outcome.decision, outcome.fault_kind().map(FaultKind::as_str)),
            (Decision::Deny, Some("no_trust_roots"))
        );
        assert_eq!(outcome.reasons[0].code, "policy_fault:no_trust_roots");
        let status = lifecycle.status(10).await.unwrap();
        assert_eq!((status.fault, status.candidate), (Some("no_trust_roots"), None), "{damaged:?}");
        assert_eq!(status.refused[0].offer, "trust_roots");
        assert_eq!(status.history.len() as u64, sequence - 1, "past activations stay recorded");

        // A gateway that starts in this state has no active bundle, and reports why.
        let restarted = deployment.open().await.unwrap();
        assert_eq!(deployment::fault(&restarted).await, Some("no_active_bundle"), "{damaged:?}");
        assert_eq!(restarted.health().refused[0].offer, "trust_roots");

        // When the file has its former content again, both evaluate.
        repair(&deployment);
        for lifecycle in [&restarted, &lifecycle] {
            deployment::watch(lifecycle).await;
            assert_eq!((deployment::fault(lifecycle).await, lifecycle.health().refused), (None, vec![]));
            assert_eq!(deployment::active(lifecycle), hash_of(&bundle(sequence)));
            assert!(lifecycle.status(1).await.unwrap().candidate.is_some());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn last_good_bundle_survives_trust_roots_missing_for_a_moment() {
    for damaged in DAMAGED {
        let deployment = Deployment::new();
        let lifecycle = deployment.start(&bundle(1)).await;
        deployment.remove_bundle();
        damage(&deployment, damaged);
        deployment::watch(&lifecycle).await;
        let restarted = deployment.open().await.unwrap();
        repair(&deployment);
        for lifecycle in [&lifecycle, &restarted] {
            deployment::watch(lifecycle).await;
            assert_eq!(deployment::fault(lifecycle).await, None, "{damaged:?}");
            assert_eq!(deployment::active(lifecycle), hash_of(&bundle(1)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_start_without_trust_roots_fails() {
    for damaged in DAMAGED {
        let deployment = Deployment::new();
        damage(&deployment, damaged);
        deployment.offer(&bundle(1));
        let refused = deployment.open().await.unwrap_err();
        assert!(matches!(refused, StartError::TrustRoots(_)), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_roots_written_again_with_the_same_bytes_change_nothing() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.trust(&author());
    deployment::watch(&lifecycle).await;
    assert_eq!((deployment::fault(&lifecycle).await, lifecycle.health().refused), (None, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_trust_roots_cannot_trust_the_development_key_in_production() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.trust(&trust(vec![role("development", 1, &[&key(2)])], &[]));
    deployment.offer(&signed(&bundle(2), &[&key(2)], |_| ()));
    deployment::watch(&lifecycle).await;
    assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(1)));
    assert!(lifecycle.health().refused.iter().any(|it| it.why.contains("in production")));
}

#[tokio::test(flavor = "multi_thread")]
async fn bundle_that_expires_while_active_gives_no_more_verdicts() {
    let deployment = Deployment::new();
    let until = signed(&bundle(1), &[&key(1)], |manifest| manifest.not_after_ms = Some(NOW.0));
    let lifecycle = deployment.start(&until).await;
    assert_eq!((deployment::fault(&lifecycle).await, lifecycle.health().fault), (None, None));
    deployment.clock.set(EpochMs(NOW.0 + 1));
    assert_eq!(lifecycle.health().fault, Some("expired_bundle"));
    let sample = payment("acct-2", &[]);
    let at = async |now: Option<u64>| {
        let facts = Facts::from_pairs(now.map(|now| ("time.now_ms", now.to_string())));
        lifecycle.host().evaluate(None, sample.request(Moment::Admission), &facts).await
    };
    assert_eq!(at(Some(NOW.0)).await.fault_kind(), None);
    for late in [Some(NOW.0 + 1), None] {
        let outcome = at(late).await;
        assert_eq!(
            (outcome.decision, outcome.fault_kind().map(FaultKind::as_str)),
            (Decision::Deny, Some("expired_bundle"))
        );
        assert_eq!(outcome.bundle_hash, hash_of(&until));
    }
    // After a restart no bundle is active, and the refusal says why.
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
async fn a_clock_that_goes_back_before_the_bundles_first_instant_gives_no_verdict() {
    let deployment = Deployment::new();
    let from_now = signed(&bundle(1), &[&key(1)], |manifest| manifest.not_before_ms = Some(NOW.0));
    let lifecycle = deployment.start(&from_now).await;
    assert_eq!(lifecycle.health().fault, None);
    deployment.clock.set(EpochMs(NOW.0 - 1));
    assert_eq!(lifecycle.health().fault, Some("expired_bundle"));
    let sample = payment("acct-2", &[]);
    for (now, fault) in
        [(Some(NOW.0 - 1), Some("expired_bundle")), (None, Some("expired_bundle")), (Some(NOW.0), None)]
    {
        let facts = Facts::from_pairs(now.map(|now| ("time.now_ms", now.to_string())));
        let outcome = lifecycle.host().evaluate(None, sample.request(Moment::Admission), &facts).await;
        assert_eq!(outcome.fault_kind().map(FaultKind::as_str), fault, "{now:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bundle_written_into_the_store_without_signatures_is_refused() {
    let deployment = Deployment::new();
    deployment.start(&bundle(2)).await;
    deployment.remove_bundle();
    // A signed bundle that the high-water mark does not name, and the bundle that it names without signatures.
    for files in [bundle(1), signed(&bundle(2), &[], |_| ())] {
        let lifecycle = deployment.open_with_stored_files(&files).await;
        assert_eq!(deployment::fault(&lifecycle).await, Some("no_active_bundle"));
        assert!(lifecycle.health().refused.iter().any(|it| it.offer == "active"), "{:?}", lifecycle.health());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_trust_roots_are_applied_to_an_unchanged_bundle_folder() {
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
