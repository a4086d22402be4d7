//! Shadow evaluation: the candidate is evaluated and compared, without effect.

use super::lifecycle::deployment::{self, Deployment, build, bundle, denying, hash_of};
use crate::Lifecycle;
use gateway_domain::policy::{Decision, Moment};
use gateway_engine::ports::{DescribePolicies, EvaluatePolicy, ShadowCounts};
use gateway_policy::testing::{facts, key, payment, signed};
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
        decision = lifecycle.host().evaluate(sample.request(Moment::Submit), &facts("2")).await.decision;
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
