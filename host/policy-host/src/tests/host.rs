//! The policy host: evaluations on the caller's thread, on the worker pool, and without a bundle.

use crate::PolicyHost;
use crate::worker_pool::Lane;
use gateway_domain::policy::FaultKind;
use gateway_domain::policy::{Decision, Facts, Moment};
use gateway_policy::Evaluator;
use gateway_policy::limits::{
    FUEL_INLINE, FUEL_MAX, HEAVY_EVALUATIONS_WAITING_MAX, MEMORY_BYTES_INLINE, MEMORY_BYTES_MAX, TICK,
};
use gateway_policy::testing::{bundle_of, engine, facts, guest, load, payment};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant;

#[tokio::test]
async fn without_a_bundle_everything_is_denied() {
    let evaluation = PolicyHost::new()
        .evaluate_with_active(&payment("acct-2", &[]).request(Moment::Submit), &facts("2"))
        .await;
    assert_eq!(evaluation.fault_kind(), Some(FaultKind::NoActiveBundle));
    assert_eq!(evaluation.decision, Decision::Deny);
}

#[tokio::test]
async fn evaluation_restarted_on_the_pool_gives_the_same_result_as_a_single_run() {
    let count = "(loop $l
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $l (i32.lt_u (local.get $i) (i32.const 100000))))
        (call $get (i32.const 1024) (i32.const 10) (i32.const 512))
        i32.const 0";
    let (host, engine) = (PolicyHost::new(), engine());
    host.activate(load(&engine, &guest(1, r#"(data (i32.const 1024) "velocity.a")"#, count)).unwrap());
    let sample = payment("acct-2", &["bob"]);
    let request = sample.request(Moment::Admission);
    let on_pool = host.evaluate_with_active(&request, &facts("2")).await;
    let evaluator = host.active().unwrap();
    assert_eq!(
        evaluator.evaluate(&request, &facts("2"), FUEL_INLINE).fault_kind(),
        Some(FaultKind::OutOfFuel)
    );
    assert_eq!(on_pool, evaluator.evaluate(&request, &facts("2"), u64::MAX));
    assert!(on_pool.fault.is_none() && on_pool.fuel_used > FUEL_INLINE && on_pool.facts.len() == 1);
}

#[tokio::test]
async fn new_bundle_replaces_the_active_one_in_one_step() {
    let (host, engine) = (PolicyHost::new(), engine());
    host.activate(load(&engine, &guest(1, "", "unreachable")).unwrap());
    let sample = payment("acct-2", &[]);
    let fault =
        async || host.evaluate_with_active(&sample.request(Moment::Submit), &facts("2")).await.fault_kind();
    assert_eq!(fault().await, Some(FaultKind::Trap));
    host.activate(load(&engine, &guest(1, "", "i32.const 0")).unwrap());
    assert_eq!(fault().await, None);
}

/// Attempts at a time measurement, since a busy machine can delay any of them.
const ATTEMPTS_MAX: usize = 20;

/// Reads a long fact in an endless loop: few instructions, and much copying.
const READ_FACT: &str = "(loop $l
    (global.set $next (i32.const 65536))
    (call $get (i32.const 256) (i32.const 11) (i32.const 512))
    (br $l))
    unreachable";

#[tokio::test]
async fn work_that_costs_no_fuel_does_not_block_the_callers_thread() {
    let (host, engine) = (PolicyHost::new(), engine());
    let wasm = guest(32, r#"(data (i32.const 256) "time.now_ms")"#, READ_FACT);
    let bundle = bundle_of(&engine, &wasm, |manifest| {
        manifest.facts = vec!["time.now_ms".to_owned()];
        (manifest.limits.fuel, manifest.limits.memory_bytes) = (FUEL_MAX, 2 << 20);
    });
    host.activate(Evaluator::link(&engine, &bundle).unwrap());
    let facts = Facts::from_pairs([("time.now_ms", "7".repeat(1 << 20))]);
    let sample = payment("acct-2", &["bob"]);
    let request = sample.request(Moment::Submit);
    let mut blocked = Vec::new();
    for is_heavy_before in [false, true] {
        while blocked.last().is_none_or(|blocked| *blocked >= TICK * 50) {
            assert!(blocked.len() < ATTEMPTS_MAX, "the caller's thread was blocked for {blocked:?}");
            host.heavy().get(Lane::Decisions).store(is_heavy_before, Ordering::Relaxed);
            // The first poll runs the attempt on this thread. The rest runs on the pool.
            let started = Instant::now();
            let mut evaluation = Box::pin(host.evaluate_with_active(&request, &facts));
            let first = std::future::poll_fn(|cx| Poll::Ready(evaluation.as_mut().poll(cx))).await;
            blocked.push(started.elapsed());
            assert!(first.is_pending());
            assert_eq!(evaluation.await.fault_kind(), Some(FaultKind::Deadline));
            assert!(is_heavy(&host, Moment::Submit) && !is_heavy(&host, Moment::Preview));
        }
        blocked.clear();
    }
}

/// Growing memory uses hardly any fuel, but the allocation of pages takes time.
#[tokio::test]
async fn memory_is_not_given_on_the_callers_thread() {
    let (host, engine) = (PolicyHost::new(), engine());
    let sample = payment("acct-2", &["bob"]);
    let (request, facts) = (sample.request(Moment::Submit), facts("2"));
    let pages_inline = MEMORY_BYTES_INLINE / 65_536;
    for (grown, fault) in [(pages_inline, None), (pages_inline * 2, None), (1 << 14, Some(FaultKind::Memory))]
    {
        let body = format!("(drop (memory.grow (i32.const {}))) i32.const 0", grown - 1);
        let bundle = bundle_of(&engine, &guest(1, "", &body), |manifest| {
            manifest.limits.memory_bytes = u64::try_from(MEMORY_BYTES_MAX).unwrap();
        });
        host.activate(Evaluator::link(&engine, &bundle).unwrap());
        let evaluator = host.active().unwrap();
        // A single attempt could fail at its deadline on a busy machine.
        let is_inline = (0..ATTEMPTS_MAX).any(|_| evaluator.evaluate_inline(&request, &facts).is_some());
        assert_eq!(is_inline, grown == pages_inline, "{grown} pages");
        assert_eq!(host.evaluate_with_active(&request, &facts).await.fault_kind(), fault, "{grown} pages");
        assert_eq!(is_heavy(&host, request.moment), !is_inline);
    }
}

/// Previews are not limited like operations.
#[tokio::test]
async fn no_preview_holds_up_a_decision() {
    let (host, engine) = (Arc::new(PolicyHost::new()), engine());
    // Endless for a preview, and short for other moments.
    let body = "(if (i32.eq (i32.load8_u (local.get 0)) (i32.const 3)) (then (loop (br 0)))) i32.const 0";
    let bundle = bundle_of(&engine, &guest(1, "", body), |manifest| manifest.limits.fuel = FUEL_INLINE * 20);
    host.activate(Evaluator::link(&engine, &bundle).unwrap());
    let mut previews = tokio::task::JoinSet::new();
    // Far more than the queue of previews can have.
    for _ in 0..10 * HEAVY_EVALUATIONS_WAITING_MAX {
        let host = Arc::clone(&host);
        previews.spawn(async move {
            let sample = payment("acct-2", &["bob"]);
            host.evaluate_with_active(&sample.request(Moment::Preview), &facts("2")).await.fault_kind()
        });
    }
    while !is_heavy(&host, Moment::Preview) {
        tokio::task::yield_now().await;
    }
    assert!(!is_heavy(&host, Moment::Submit), "previews affected the choice for decisions");
    let sample = payment("acct-2", &["bob"]);
    for _ in 0..100 {
        assert_eq!(
            host.evaluate_with_active(&sample.request(Moment::Submit), &facts("2")).await.fault_kind(),
            None
        );
        assert!(!is_heavy(&host, Moment::Submit));
    }
    let faults = previews.join_all().await;
    assert!(faults.contains(&Some(FaultKind::PoolExhausted)), "the queue of previews is bounded");
}

fn is_heavy(host: &PolicyHost, moment: Moment) -> bool {
    host.heavy().get(Lane::of(moment)).load(Ordering::Relaxed)
}

#[test]
fn evaluations_run_side_by_side() {
    let evaluator = load(&engine(), &guest(1, "", "i32.const 0")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let sample = payment("acct-2", &["bob"]);
                for _ in 0..50 {
                    let evaluation =
                        evaluator.evaluate(&sample.request(Moment::Submit), &facts("2"), u64::MAX);
                    assert_eq!(evaluation.fault_kind(), None);
                }
            });
        }
    });
}
