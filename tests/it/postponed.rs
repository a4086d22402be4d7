//! Admissions that the policy allows at a later time only, and approvals that count for a while only.

use crate::evidence;
use crate::harness::bundles::{Site, key, obliging_bundle};
use crate::harness::process::publish_step;
use crate::harness::samples::{approval, path, payment, rejection, submit};
use crate::harness::timed::TimedWorld;
use crate::harness::verify;
use gateway_engine::ports::ReadClock as _;
use operation_gateway::SystemClock;
use serde_json::{Value, json};

/// The wait of the policy, and how long it lets approvals count. The nodes' clock is the system's, which a test's may leave by five minutes.
const MINUTE_MS: u64 = 60_000;

/// A gateway under a policy with this obligation; `value` is given the time of its start. The bundle's folder stays while the site does.
async fn world(
    (code, operand): (&str, &str),
    value: impl Fn(u64) -> u64,
    overrides: &[(&str, &str)],
) -> (Site, TimedWorld) {
    let site = Site::new();
    site.offer(&obliging_bundle((code, operand, value(SystemClock.now().0)), 1, &key(1)));
    let (bundle, trust) = (site.path("bundle"), site.path("trust.json"));
    let paths =
        [("policy_bundle", bundle.to_str().unwrap()), ("policy_trust_roots", trust.to_str().unwrap())];
    let world = TimedWorld::start(&[&paths, overrides].concat()).await;
    (site, world)
}

async fn waiting_world() -> (Site, TimedWorld) {
    world(("admit_not_before", "at_ms"), |now| now + MINUTE_MS, &[]).await
}

/// A payment that Alice and Bob approved, and that waits.
async fn waiting(world: &TimedWorld, reference: &str) -> Value {
    let operation = submit(world, &payment(reference)).await;
    world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    let view = world.post(&path(&operation, "/approve"), &approval("bob")).await.ok();
    assert_eq!(view["state"], "pending_approval", "{view}");
    assert!(view["approvals"]["admit_not_before_ms"].is_u64(), "{view}");
    view
}

/// The types of the operation's events.
async fn events(world: &TimedWorld, view: &Value) -> Vec<String> {
    let audit = world.get(&path(view, "/audit-replay")).await.ok();
    let events = audit["events"].as_array().unwrap().iter();
    events.map(|entry| entry["event"]["change"]["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn postponed_operation_is_admitted_at_its_time_by_itself() {
    let (_site, world) = waiting_world().await;
    let view = waiting(&world, "waits").await;
    let until = view["approvals"]["admit_not_before_ms"].as_u64().unwrap();
    assert_eq!(view["approvals"]["subjects"], json!(["alice", "bob"]));
    assert_eq!((&view["approvals"]["missing"], &view["in_progress"]), (&json!([]), &Value::Null));
    assert_eq!(view["next_actions"], json!(["execute"]));
    let refused = world.post(&path(&view, "/execute"), &json!({})).await;
    let message = refused.fails(409, "operation_not_executed");
    assert!(message.contains("the policy does not admit it before 20"), "{message}");
    let late = world.post(&path(&view, "/approve"), &approval("dave")).await.ok();
    assert_eq!(late["approvals"], view["approvals"], "a late one changes nothing");
    world.advance_ms(i64::try_from(until - world.now().0).unwrap() - 1);
    world.engine.reconcile().await;
    assert_eq!(world.get(&path(&view, "")).await.ok()["state"], "pending_approval");

    world.advance_ms(1);
    assert_eq!(world.engine.reconcile().await, 1);
    let view = world.get(&path(&view, "")).await.ok();
    assert_eq!(
        (&view["state"], &view["approvals"]["admit_not_before_ms"]),
        (&json!("admitted"), &Value::Null)
    );
    let executed = world.post(&path(&view, "/execute"), &json!({})).await.ok();
    assert_eq!(executed["state"], "executed");
    let types = events(&world, &view).await;
    let expected = [
        "quorum_reached",
        "admission_postponed",
        "late_approval_recorded",
        "admission_resumed",
        "decision_signed",
        "admission_applied",
    ];
    assert!(types.windows(expected.len()).any(|part| part == expected), "{types:?}");
    let (publish, body) = publish_step();
    let published = world.post(&path(&view, publish), &body.unwrap()).await.ok();
    verify::bip340(&published);
    let evidence = world.get(&path(&view, "/evidence")).await.ok();
    let report = evidence::verify(&evidence, &evidence::roots(&world).await);
    evidence::assert_holds(&report, &["chain", "operation", "log"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_after_the_time_admits_as_the_reconciler_does() {
    let (_site, world) = waiting_world().await;
    let (executed, approved) = (waiting(&world, "executed").await, waiting(&world, "approved").await);
    world.advance_ms(i64::try_from(MINUTE_MS).unwrap());
    assert_eq!(world.post(&path(&executed, "/execute"), &json!({})).await.ok()["state"], "executed");
    let view = world.post(&path(&approved, "/approve"), &approval("dave")).await.ok();
    assert_eq!(view["state"], "admitted");
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_survives_a_restart_and_any_replica_ends_it() {
    let (_site, world) = waiting_world().await;
    let view = waiting(&world, "restarted").await;
    let world = world.restart().await;
    assert_eq!(world.get(&path(&view, "")).await.ok()["approvals"], view["approvals"]);
    let replica = world.replica_engine();
    world.advance_ms(i64::try_from(MINUTE_MS).unwrap());
    let (one, other) = tokio::join!(world.engine.reconcile(), replica.reconcile());
    assert!(one + other >= 1);
    assert_eq!(world.get(&path(&view, "")).await.ok()["state"], "admitted");
    let types = events(&world, &view).await;
    let n_resumed = types.iter().filter(|one| *one == "admission_resumed").count();
    assert_eq!(n_resumed, 1, "{types:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_operation_can_be_rejected_and_cancelled() {
    let (_site, world) = waiting_world().await;
    let view = waiting(&world, "rejected").await;
    assert!(view["approval_statement"].is_object(), "approvers sign their rejections");
    let rejected = world.post(&path(&view, "/reject"), &rejection("alice")).await.ok();
    assert_eq!((&rejected["state"], &rejected["failure"]["code"]), (&json!("failed"), &json!("rejected")));
    let view = waiting(&world, "cancelled").await;
    let cancelled = world.post(&path(&view, "/cancel"), &json!({ "reason": "twice" })).await.ok();
    assert_eq!(cancelled["failure"]["code"], "cancelled");
    world.advance_ms(i64::try_from(MINUTE_MS).unwrap());
    assert_eq!(world.engine.reconcile().await, 0, "neither goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_deadline_stops_while_an_operation_waits() {
    let ttl = [("approval_ttl_ms", "10000")];
    let (_site, world) = world(("admit_not_before", "at_ms"), |now| now + MINUTE_MS, &ttl).await;
    let view = waiting(&world, "patient").await;
    let (until, expires) =
        (view["approvals"]["admit_not_before_ms"].as_u64(), view["expires_at_ms"].as_u64());
    assert!(expires > until, "{view}");
    world.advance_ms(50_000);
    assert_eq!(world.engine.reconcile().await, 0);
    assert_eq!(world.get(&path(&view, "")).await.ok()["state"], "pending_approval", "it has not expired");
    world.advance_ms(10_000);
    world.engine.reconcile().await;
    assert_eq!(world.get(&path(&view, "")).await.ok()["state"], "admitted");
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_older_than_the_policy_lets_it_count_lapses() {
    let (_site, world) = world(("approvals_expire_ms", "ms"), |_| MINUTE_MS, &[]).await;
    let operation = submit(&world, &payment("slow")).await;
    let approve = path(&operation, "/approve");
    world.post(&approve, &approval("alice")).await.ok();
    world.advance_ms(i64::try_from(MINUTE_MS).unwrap() + 1);
    let shown = world.get(&path(&operation, "")).await.ok();
    assert_eq!(shown["approvals"]["lapsed"], json!([{ "subject_id": "alice", "reason": "too_old" }]));
    let view = world.post(&approve, &approval("bob")).await.ok();
    assert_eq!((&view["state"], &view["approvals"]["approved"]), (&json!("pending_approval"), &json!(1)));
    assert_eq!(view["approvals"]["lapsed"], shown["approvals"]["lapsed"]);
    let types = events(&world, &view).await;
    assert!(types.contains(&"approvals_lapsed".to_owned()), "{types:?}");
    let view = world.post(&approve, &approval("alice")).await.ok();
    assert_eq!((&view["state"], view["approvals"].get("lapsed")), (&json!("admitted"), None));
}
