//! Shadow evaluation: the candidate is evaluated and compared, without effect.

use super::lifecycle::deployment::{self, Deployment, build, bundle, denying, hash_of};
use crate::Lifecycle;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::policy::{Decision, Moment};
use gateway_engine::ports::{DescribePolicies, EvaluatePolicy, ShadowCounts};
use gateway_policy::testing::{facts, key, payment, signed};
use std::sync::Arc;
use std::time::Duration;

/// Waits until all requests so far are counted, and returns the counts.
async fn counts(lifecycle: &Lifecycle, n_offered: u64) -> ShadowCounts {
    loop {
        let counts = lifecycle.status(1).await.unwrap().candidate.unwrap().counts;
        if counts.n_evaluated + counts.n_dropped == n_offered {
            return counts;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn evaluate(lifecycle: &Lifecycle, n: u64) -> Decision {
    let sample = payment("acct-2", &["bob"]);
    let mut decision = Decision::Deny;
    for _ in 0..n {
        decision =
            lifecycle.host().evaluate(None, sample.request(Moment::Submit), &facts("2")).await.decision;
    }
    decision
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_decisions_are_compared_and_counted() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(3)).await;
    let other_quorum = "(i32.store (i32.const 28) (i32.const 1)) i32.const 0";
    let trap = build("unreachable");
    let cases = [
        (bundle(2), "same"),
        (denying(2), "allow_to_deny"),
        (signed(&build(other_quorum), &[&key(1)], |manifest| manifest.sequence = 9), "otherwise_different"),
        (trap, "fault"),
    ];
    for (candidate, expected) in cases {
        deployment.offer_candidate(&candidate);
        deployment::watch(&lifecycle).await;
        assert_eq!(evaluate(&lifecycle, 3).await, Decision::Allow, "{expected}: the active bundle decides");
        let counts = counts(&lifecycle, 3).await;
        let shadow = lifecycle.shadow_differences().unwrap();
        assert_eq!(shadow.candidate, hash_of(&candidate));
        let expected_results = if expected == "same" { vec![] } else { vec![expected; 3] };
        let results: Vec<_> = shadow.differences.iter().map(|one| one.result.as_str()).collect();
        assert_eq!(results, expected_results);
        let found = [
            ("same", counts.n_same),
            ("allow_to_deny", counts.n_allow_to_deny),
            ("deny_to_allow", counts.n_deny_to_allow),
            ("otherwise_different", counts.n_otherwise_different),
            ("fault", counts.n_faults),
        ];
        let found: Vec<_> = found.into_iter().filter(|(_, n)| *n > 0).collect();
        assert_eq!(found, [(expected, 3)], "a new candidate begins at zero");
        assert!(counts.fuel_active > 0 && counts.fuel_candidate > 0, "{counts:?}");
        assert_eq!(deployment::active(&lifecycle), hash_of(&bundle(3)));
        assert_eq!(lifecycle.status(5).await.unwrap().history.len(), 1, "it is not an activation");
    }
    deployment.offer(&denying(4));
    deployment.offer_candidate(&bundle(5));
    deployment::watch(&lifecycle).await;
    assert_eq!(evaluate(&lifecycle, 2).await, Decision::Deny);
    assert_eq!(counts(&lifecycle, 2).await.n_deny_to_allow, 2);
    std::fs::remove_dir_all(deployment.path("candidate")).unwrap();
    deployment::watch(&lifecycle).await;
    assert_eq!(lifecycle.status(1).await.unwrap().candidate, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_candidate_delays_no_decision_and_dropped_requests_are_counted() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    let endless = build("(loop $l (br $l)) unreachable");
    deployment.offer_candidate(&signed(&endless, &[&key(1)], |manifest| {
        manifest.limits.fuel = gateway_policy::limits::FUEL_MAX;
    }));
    deployment::watch(&lifecycle).await;
    let n_offered = gateway_policy::limits::SHADOW_QUEUE_MAX as u64 + 200;
    assert_eq!(evaluate(&lifecycle, n_offered).await, Decision::Allow);
    let counts = lifecycle.status(1).await.unwrap().candidate.unwrap().counts;
    assert!(counts.n_dropped > 0 && counts.n_dropped <= 200, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unsigned_candidate_is_refused_and_the_previous_one_stops() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.offer_candidate(&bundle(2));
    deployment::watch(&lifecycle).await;
    assert!(lifecycle.status(1).await.unwrap().candidate.is_some());
    deployment.offer_candidate(&signed(&bundle(2), &[], |_| ()));
    deployment::watch(&lifecycle).await;
    let status = lifecycle.status(1).await.unwrap();
    assert_eq!((status.candidate, status.refused[0].offer), (None, "candidate"));
    assert_eq!((status.fault, deployment::active(&lifecycle)), (None, hash_of(&bundle(1))));
}

/// The time of the evaluation names each request.
#[tokio::test(flavor = "multi_thread")]
async fn latest_differences_are_kept_and_previews_make_room_first() {
    let deployment = Deployment::new();
    let lifecycle = deployment.start(&bundle(1)).await;
    deployment.offer_candidate(&denying(2));
    deployment::watch(&lifecycle).await;
    let sample = payment("acct-2", &["bob"]);
    let n_max = gateway_policy::limits::SHADOW_DIFFERENCES_MAX as u64;
    let operation_id = Some(OperationId(Hex32::new([7; 32])));
    let evaluate = async |at: u64| {
        let (id, moment) =
            if at.is_multiple_of(2) { (operation_id, Moment::Submit) } else { (None, Moment::Preview) };
        let facts = facts("2").assuming([("time.now_ms".to_owned(), Some(at.to_string()))].into());
        lifecycle.host().evaluate(id, sample.request(moment), &facts).await;
    };
    let kept = || {
        let differences = lifecycle.shadow_differences().unwrap().differences;
        differences.iter().map(|one| one.at_ms.unwrap().0).collect::<Vec<_>>()
    };
    for at in 0..n_max {
        evaluate(at).await;
    }
    counts(&lifecycle, n_max).await;
    assert_eq!(kept(), (0..n_max).rev().collect::<Vec<_>>(), "newest first");
    for at in n_max..n_max + 2 {
        evaluate(at).await;
    }
    counts(&lifecycle, n_max + 2).await;
    assert_eq!(kept(), (0..n_max + 2).rev().filter(|at| ![1, 3].contains(at)).collect::<Vec<_>>());
    for at in 0..2 * n_max {
        evaluate(2 * (n_max + at)).await;
    }
    counts(&lifecycle, 3 * n_max + 2).await;
    assert_eq!(kept(), (0..n_max).map(|at| 6 * n_max - 2 - 2 * at).collect::<Vec<_>>());

    let latest = Arc::clone(&lifecycle.shadow_differences().unwrap().differences[0]);
    assert_eq!(
        (latest.operation_id, &latest.input),
        (operation_id, &sample.request(Moment::Submit).to_input())
    );
    let (before, after) = (&latest.before, &latest.after);
    assert_eq!((before.decision, before.bundle_hash), (Decision::Allow, hash_of(&bundle(1))));
    assert_eq!((after.decision, after.bundle_hash), (Decision::Deny, hash_of(&denying(2))));
    deployment.offer_candidate(&denying(3));
    deployment::watch(&lifecycle).await;
    assert_eq!(kept(), [0; 0], "another candidate begins without any");
}
