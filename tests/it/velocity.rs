//! Daily limits of the policy `bundles/payment-guard-strict`, with the real store, authority and nodes.
//!
//! Its `data/limits.json` permits 100 `XTS` a day to leave an account and 150 to reach a recipient.

use crate::harness::samples::{admit, approval, path, payment, submit, with};
use crate::harness::world::{Answer, World};
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;

const STRICT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard-strict");

fn payment_from(idempotency_key: &str, account: &str, amount_minor: i64) -> Value {
    let body = with(payment(idempotency_key), "/payment/currency", json!("XTS"));
    let body = with(body, "/payment/from_account", json!(account));
    with(body, "/payment/amount_minor", json!(amount_minor))
}

/// Submits each payment and approves it once, in sequence; then sends all second approvals concurrently.
async fn approve_concurrently(world: &Arc<World>, payments: Vec<Value>) -> Vec<Answer> {
    let mut last_approvals = Vec::new();
    for body in payments {
        let operation = submit(world, &body).await;
        let approve = path(&operation, "/approve");
        world.post(&approve, &approval("alice")).await.ok();
        last_approvals.push((approve, approval("bob")));
    }
    world.post_concurrently(last_approvals).await
}

/// The number of admitted payments; the others must have been denied because of the limit named `limit`.
#[track_caller]
fn n_admitted(answers: Vec<Answer>, limit: &str) -> usize {
    let (admitted, denied): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == StatusCode::OK);
    assert!(admitted.iter().all(|answer| answer.json["state"] == "admitted"), "{admitted:?}");
    for answer in denied {
        let reasons = answer.json["reasons"].as_array().unwrap();
        let codes: Vec<_> = reasons.iter().map(|reason| reason["code"].as_str().unwrap()).collect();
        assert_eq!(codes, ["velocity_exceeded"], "only what denies");
        let why = answer.fails(403, "policy_rejected");
        assert!(why.contains("velocity_exceeded") && why.contains(limit), "{why}");
    }
    admitted.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_payments_stay_within_the_accounts_daily_limit() {
    let world = Arc::new(World::with(&[("policy_bundle", STRICT)]).await);
    let payments = (0..20).map(|nth| payment_from(&format!("p-{nth}"), "acct-1", 10)).collect();
    let answers = approve_concurrently(&world, payments).await;
    assert_eq!(n_admitted(answers, "account_day_max"), 10);
}

/// Payments to different recipients have no recipient's lock in common, only the account's.
#[tokio::test(flavor = "multi_thread")]
async fn payments_to_several_recipients_share_the_accounts_daily_limit() {
    let world = Arc::new(World::with(&[("policy_bundle", STRICT)]).await);
    let recipients = ["acct-2", "acct-3", "acct-supplier-0042"];
    let payments = (0..12).zip(recipients.into_iter().cycle()).map(|(nth, recipient)| {
        with(payment_from(&format!("p-{nth}"), "acct-1", 60), "/payment/to_account", json!(recipient))
    });
    let answers = approve_concurrently(&world, payments.collect()).await;
    assert_eq!(n_admitted(answers, "account_day_max"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_of_many_accounts_share_the_recipients_daily_limit() {
    let world = Arc::new(World::with(&[("policy_bundle", STRICT)]).await);
    let payments = (0..20).map(|nth| payment_from(&format!("p-{nth}"), &format!("acct-{nth}"), 10)).collect();
    let answers = approve_concurrently(&world, payments).await;
    assert_eq!(n_admitted(answers, "recipient_day_max"), 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_payment_releases_its_share_of_the_limit() {
    let world = World::ticking_with(&[("policy_bundle", STRICT)]).await;
    // Also makes the key, so before ceremonies are rejected.
    let first = admit(&world, &payment_from("first", "acct-1", 100)).await;
    let preview = json!({ "intent": payment_from("p", "acct-1", 1), "approvals": [approval("alice"), approval("bob")] });
    let decision = async || world.post("/v1/policy/preview", &preview).await.ok()["decision"].clone();
    assert_eq!(decision().await, "DENY");
    world.faults.set_rejecting(true);
    let refused = world.post_nothing(&path(&first, "/execute")).await;
    assert_ne!(refused.status, StatusCode::OK, "{}", refused.json);
    assert_eq!(decision().await, "ALLOW");
}

#[tokio::test(flavor = "multi_thread")]
async fn spent_amounts_are_read_only_for_a_policy_with_that_permission() {
    for (overrides, reads) in [(&[][..], false), (&[("policy_bundle", STRICT)], true)] {
        let world = World::ticking_with(overrides).await;
        admit(&world, &payment_from("one", "acct-1", 10)).await;
        let evaluations = std::mem::take(&mut *world.evaluations.lock().unwrap());
        let of_payments = evaluations.iter().filter(|one| one.client_id == "treasury-desk");
        let read: Vec<bool> = of_payments.map(|one| one.has_velocity).collect();
        assert_eq!(read, [reads; 4], "a submission, two approvals, an admission");
        assert!(evaluations.iter().all(|one| one.client_id == "treasury-desk" || !one.has_velocity));
    }
}
