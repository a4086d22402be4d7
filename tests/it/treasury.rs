//! The rule of a treasury, `bundles/treasury`: `host/docs/tutorials/treasury.md`.

use crate::harness::bundles::{Site, key, release};
use crate::harness::custody::{self, KEYS};
use crate::harness::process::SIGN;
use crate::harness::samples::{approval, path, payment, publication, submit, with};
use crate::harness::timed::TimedWorld;
use crate::harness::verify;
use gateway_domain::policy::document::Document;
use gateway_domain::testing::approvers::{self, key_entry, registry};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::ReadClock;
use gateway_policy::TrustPolicy;
use gateway_policy::testing::{committed_bundle, role, signed, signed_document, trust};
use operation_gateway::SystemClock;
use serde_json::{Value, json};
use std::fs;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// How long the exchange rates are valid, longer than a test's clock goes forward.
const RATES_MS: i64 = 60 * DAY_MS;

/// The people: Carol of the team `sales` submits. Of the treasurers only Erin is of another team.
fn people() -> String {
    let treasurer = |subject: &str, team: &str, seed: u8| {
        json!({
            "subject_id": subject, "tenants": ["default"], "roles": ["approver", "treasurer"],
            "attributes": { "team": team }, "keys": [key_entry(&approvers::key(seed))],
        })
    };
    registry(&[
        json!({ "subject_id": "carol", "tenants": ["default"], "attributes": { "team": "sales" } }),
        treasurer("alice", "sales", 1),
        treasurer("bob", "sales", 2),
        treasurer("dave", "sales", 3),
        treasurer("erin", "treasury", 4),
    ])
}

/// 10,000.01 EUR.
fn large(name: &str) -> Value {
    with(payment(name), "/payment/amount_minor", json!(1_000_001))
}

/// A payment to a recipient of its own.
fn small(name: &str) -> Value {
    with(payment(name), "/payment/to_account", json!("acct-3"))
}

/// Whether the policy closes at the gateway's time: a weekend or a holiday in Zurich.
async fn is_closed(world: &TimedWorld) -> bool {
    let answer = world.post("/v1/policy/preview", &json!({ "intent": payment("preview") })).await.ok();
    answer["decision"] == "DENY"
}

/// Moves the clock by this step until the policy is as wanted. No week lacks a working day, and none a Saturday.
async fn move_until(world: &TimedWorld, step_ms: i64, closed: bool) {
    for _ in 0..60 {
        if is_closed(world).await == closed {
            return;
        }
        world.advance_ms(step_ms);
    }
    panic!("closed is {} at all these times", !closed);
}

/// The approval of a treasurer; returns the view.
async fn approve(world: &TimedWorld, operation: &Value, subject: &str) -> Value {
    let body = with(approval(subject), "/roles", json!(["treasurer"]));
    let body = with(body, "/approved_at_ms", json!(world.now().0));
    world.post(&path(operation, "/approve"), &body).await.ok()
}

async fn view(world: &TimedWorld, operation: &Value) -> Value {
    world.get(&path(operation, "")).await.ok()
}

async fn published(world: &TimedWorld, operation: &Value) {
    let executed = world.post_nothing(&path(operation, "/execute")).await.ok();
    assert_eq!(executed["state"], "executed", "{executed}");
    let view = world.post(&path(operation, "/publish"), &publication()).await.ok();
    assert_eq!(view["state"], "published", "{view}");
    verify::signature(&view);
}

/// A large payment to a new recipient that three treasurers of the submitter's team, and then Erin, approve.
async fn gathered(world: &TimedWorld, operation: &Value) -> Value {
    let missing = |people: u32, other_team: u32, treasurers: u32| {
        let all =
            [(json!(null), people), (json!("other_team"), other_team), (json!("treasurer"), treasurers)];
        let all = all.into_iter().filter(|(_, people)| *people > 0);
        json!(all.map(|(group, people)| json!({ "group": group, "people": people })).collect::<Vec<_>>())
    };
    assert_eq!(operation["approvals"]["missing"], missing(3, 1, 3));
    for (subject, left) in [("alice", 2), ("bob", 1), ("dave", 0)] {
        let view = approve(world, operation, subject).await;
        assert_eq!(view["state"], "pending_approval", "{view}");
        assert_eq!(view["approvals"]["missing"], missing(left, 1, left), "{subject}");
        assert!(view["approvals"]["admit_not_before_ms"].is_null(), "{view}");
    }
    approve(world, operation, "erin").await
}

/// Writes the exchange rates, and trust roots by which a key of their own signs them.
fn publish_rates(site: &Site) {
    let trust = TrustPolicy {
        documents: vec![role("rates", 1, &[&key(3)])],
        ..trust(vec![role("author", 1, &[&key(1), &key(2)])], &[])
    };
    fs::write(site.path("trust.json"), serde_json::to_vec(&trust).unwrap()).unwrap();
    let document = Document {
        name: "rates".into(),
        sequence: 1,
        not_after_ms: EpochMs(SystemClock.now().0.saturating_add_signed(RATES_MS)),
        content: serde_json::from_str(include_str!("../../policy-guest/examples/treasury/rates.json"))
            .unwrap(),
    };
    let envelope = signed_document(&document, &[&key(3)]).envelope;
    fs::create_dir(site.path("documents")).unwrap();
    fs::write(site.path("documents/rates.json"), serde_json::to_vec(&envelope).unwrap()).unwrap();
}

/// A gateway with a key, under the rule. The key is made under the default policy, since on a closed day the rule submits no payment that
/// needs one. The site has the bundle, the exchange rates and the registry.
async fn world() -> (Site, TimedWorld) {
    let site = Site::new();
    publish_rates(&site);
    site.offer(&release(1, &key(1)));
    let at = |name: &str| site.path(name).display().to_string();
    let (bundle, trust, file) = (at("bundle"), at("trust.json"), at("approvers.json"));
    let documents = at("documents");
    fs::write(&file, people()).unwrap();
    let fortnight = (14 * DAY_MS).to_string();
    let settings = [
        ("policy_bundle", bundle.as_str()),
        ("policy_trust_roots", &trust),
        ("policy_documents", &documents),
        ("signed_approvals", "optional"),
        ("approvers_file", &file),
        ("approval_ttl_ms", &fortnight),
    ];
    let world = TimedWorld::start(&settings).await;
    let operation = submit(&world, &small("makes the key")).await;
    approve(&world, &operation, "alice").await;
    assert_eq!(approve(&world, &operation, "bob").await["state"], "admitted");
    let rule = signed(&committed_bundle("treasury"), &[&key(1)], |manifest| manifest.sequence = 2);
    site.offer(&rule);
    let world = world.restart().await;
    (site, world)
}

/// The wait of a day is lived through by the gateway's clock, which first goes back a day; the nodes' clock is the machine's. On a weekend
/// or a holiday of that clock nothing is admitted: then this shows that the payment waits longer.
#[tokio::test(flavor = "multi_thread")]
async fn large_payment_to_a_new_recipient_needs_three_treasurers_and_a_day() {
    let (_site, world) = world().await;
    let start = i64::try_from(world.now().0).unwrap();
    let go_to = |at_ms: i64| world.advance_ms(at_ms - i64::try_from(world.now().0).unwrap());
    let is_closed_today = is_closed(&world).await;

    // Submitted on a working day, and approved a day ago.
    go_to(start - DAY_MS);
    move_until(&world, -6 * HOUR_MS, false).await;
    let operation = submit(&world, &large("large")).await;
    go_to(start - DAY_MS);
    let was_closed = is_closed(&world).await;
    let waiting = gathered(&world, &operation).await;
    assert_eq!(waiting["state"], "pending_approval", "{waiting}");
    assert_eq!(waiting["approvals"]["missing"], json!([]));
    assert_eq!(waiting["approvals"]["subjects"], json!(["alice", "bob", "dave", "erin"]));
    assert_eq!(waiting["approvals"]["admit_not_before_ms"], json!(start), "closed then: {was_closed}");
    let message =
        world.post_nothing(&path(&operation, "/execute")).await.fails(409, "operation_not_executed");
    assert!(message.contains("the policy does not admit it before 20"), "{message}");
    go_to(start - 1);
    world.engine.reconcile().await;
    assert_eq!(view(&world, &operation).await["approvals"], waiting["approvals"]);
    go_to(start);
    world.engine.reconcile().await;
    let after = view(&world, &operation).await;

    if is_closed_today {
        assert_eq!(after["state"], "pending_approval", "{after}");
        assert_eq!(after["approvals"]["admit_not_before_ms"], json!(start + HOUR_MS));
    } else {
        assert_eq!(after["state"], "admitted", "{after}");
        published(&world, &operation).await;
        // Two people are enough for a small payment, of whatever team, at once.
        let operation = submit(&world, &small("small")).await;
        assert_eq!(operation["approvals"]["missing"], json!([{ "group": null, "people": 2 }]));
        approve(&world, &operation, "alice").await;
        assert_eq!(approve(&world, &operation, "bob").await["state"], "admitted");
        published(&world, &operation).await;

        // The recipient of the large payment is known eight days later. No node's clock is there yet, so nothing is admitted.
        go_to(start + 6 * DAY_MS);
        move_until(&world, -6 * HOUR_MS, false).await;
        let operation = submit(&world, &large("a day too early")).await;
        assert_eq!(operation["approvals"]["missing"][1]["group"], "other_team");
        go_to(start + 8 * DAY_MS);
        move_until(&world, 6 * HOUR_MS, false).await;
        let operation = submit(&world, &large("known")).await;
        assert_eq!(operation["approvals"]["missing"], json!([{ "group": null, "people": 2 }]));
        let view = approve(&world, &operation, "alice").await;
        assert_eq!(view["approvals"]["missing"], json!([{ "group": null, "people": 1 }]));
    }

    move_until(&world, 6 * HOUR_MS, true).await;
    let refused = world.post(SIGN, &small("on a closed day")).await;
    let reason = &refused.json["reasons"][0];
    assert_eq!(reason["code"], "closed", "{}", refused.json);
    assert_eq!(reason["remedy"], "Submit on a working day in Zurich.");
    refused.fails(403, "policy_rejected");
    world.post(KEYS, &custody::key("by-a-client")).await.fails(403, "policy_rejected");
}

#[tokio::test(flavor = "multi_thread")]
async fn payment_is_refused_once_the_exchange_rates_have_expired() {
    let (_site, world) = world().await;
    let reasons = async || {
        let refused = world.post("/v1/policy/preview", &json!({ "intent": payment("preview") })).await.ok();
        refused["reasons"].to_string()
    };
    assert!(!reasons().await.contains("amount_not_convertible"));
    world.advance_ms(RATES_MS + 1);
    assert!(reasons().await.contains("amount_not_convertible"));
    let refused = world.post(SIGN, &small("without rates")).await;
    assert!(refused.json["reasons"].to_string().contains("amount_not_convertible"), "{}", refused.json);
    refused.fails(403, "policy_rejected");
}
