//! The engine's port: inline, apart, and without a bundle.

use super::support::{engine, facts, guest, load, payment};
use crate::limits::FUEL_INLINE;
use crate::{EvaluationFault, PolicyHost};
use gateway_domain::policy::{Decision, Moment};

#[tokio::test]
async fn without_a_bundle_everything_is_denied() {
    let evaluation =
        PolicyHost::new().judge(&payment("acct-2", &[]).request(Moment::Submit), &facts("2")).await;
    assert_eq!(evaluation.fault, Some(EvaluationFault::NoActiveBundle));
    assert_eq!(evaluation.outcome.decision, Decision::Deny);
}

#[tokio::test]
async fn work_beyond_the_first_slice_is_started_over_and_gives_what_one_run_gives() {
    let count = "(loop $l
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $l (i32.lt_u (local.get $i) (i32.const 100000))))
        (call $get (i32.const 1024) (i32.const 3) (i32.const 512))
        i32.const 0";
    let (host, engine) = (PolicyHost::new(), engine());
    host.activate(load(&engine, &guest(1, r#"(data (i32.const 1024) "x.a")"#, count)).unwrap());
    let asked = payment("acct-2", &["bob"]);
    let request = asked.request(Moment::Admission);
    let apart = host.judge(&request, &facts("2")).await;
    let evaluator = host.active().unwrap();
    assert_eq!(
        evaluator.evaluate(&request, &facts("2"), FUEL_INLINE).fault,
        Some(EvaluationFault::OutOfFuel)
    );
    assert_eq!(apart, evaluator.evaluate(&request, &facts("2"), u64::MAX));
    assert!(apart.fault.is_none() && apart.outcome.fuel_used > FUEL_INLINE && apart.outcome.facts.len() == 1);
}

#[tokio::test]
async fn a_new_bundle_takes_over_in_one_step() {
    let (host, engine) = (PolicyHost::new(), engine());
    host.activate(load(&engine, &guest(1, "", "unreachable")).unwrap());
    let asked = payment("acct-2", &[]);
    let fault = async || host.judge(&asked.request(Moment::Submit), &facts("2")).await.fault;
    assert_eq!(fault().await, Some(EvaluationFault::Trap));
    host.activate(load(&engine, &guest(1, "", "i32.const 0")).unwrap());
    assert_eq!(fault().await, None);
}

#[test]
fn evaluations_run_side_by_side() {
    let evaluator = load(&engine(), &guest(1, "", "i32.const 0")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let asked = payment("acct-2", &["bob"]);
                for _ in 0..50 {
                    let evaluation =
                        evaluator.evaluate(&asked.request(Moment::Submit), &facts("2"), u64::MAX);
                    assert_eq!(evaluation.fault, None);
                }
            });
        }
    });
}
