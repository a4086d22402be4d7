//! Limits over time, with the real policy, store, authority and nodes: `bundles/payment-guard-strict`.
//!
//! Its `data/limits.json` permits 100 `XTS` a day to leave an account and 150 to reach a recipient.

use crate::harness::faulty::Faults;
use crate::harness::samples::{admitted, approval, path, payment, submitted, with};
use crate::harness::world::{Answer, World};
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const STRICT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard-strict");

fn of(idempotency_key: &str, account: &str, amount_minor: i64) -> Value {
    let body = with(payment(idempotency_key), "/payment/currency", json!("XTS"));
    let body = with(body, "/payment/from_account", json!(account));
    with(body, "/payment/amount_minor", json!(amount_minor))
}

/// Submits each and approves it once, in sequence; sends the last approvals concurrently.
async fn last_approvals_concurrently(world: &Arc<World>, payments: Vec<Value>) -> Vec<Answer> {
    let mut paths = Vec::new();
    for body in payments {
        let operation = submitted(world, &body).await;
        let approve = path(&operation, "/approve");
        world.post(&approve, &approval("alice")).await.ok();
        paths.push(approve);
    }
    let calls = paths.into_iter().map(|path| {
        let world = Arc::clone(world);
        tokio::spawn(async move { world.post(&path, &approval("bob")).await })
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        answers.push(call.await.unwrap());
    }
    answers
}

/// The number of admitted payments; the others must have been denied for the limit.
#[track_caller]
fn n_admitted(answers: Vec<Answer>, limit: &str) -> usize {
    let (admitted, denied): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == StatusCode::OK);
    assert!(admitted.iter().all(|answer| answer.json["state"] == "admitted"), "{admitted:?}");
    for answer in denied {
        let why = answer.fails(403, "policy_rejected");
        assert!(why.contains("velocity_exceeded") && why.contains(limit), "{why}");
    }
    admitted.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_payments_stay_within_the_accounts_daily_limit() {
    let world = Arc::new(World::with(&[("policy_bundle", STRICT)]).await);
    let payments = (0..20).map(|nth| of(&format!("p-{nth}"), "acct-1", 10)).collect();
    let answers = last_approvals_concurrently(&world, payments).await;
    assert_eq!(n_admitted(answers, "account_day_max"), 10);
}

/// Only the account's own lock serialises these: the first payment to each recipient finds an empty day.
#[tokio::test(flavor = "multi_thread")]
async fn payments_to_several_recipients_share_the_accounts_daily_limit() {
    let world = Arc::new(World::with(&[("policy_bundle", STRICT)]).await);
    let recipients = ["acct-2", "acct-3", "acct-supplier-0042"];
    let payments = (0..12).zip(recipients.into_iter().cycle()).map(|(nth, recipient)| {
        with(of(&format!("p-{nth}"), "acct-1", 60), "/payment/to_account", json!(recipient))
    });
    let answers = last_approvals_concurrently(&world, payments.collect()).await;
    assert_eq!(n_admitted(answers, "account_day_max"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_of_many_accounts_share_the_recipients_daily_limit() {
    let world = Arc::new(World::with(&[("policy_bundle", STRICT)]).await);
    let payments = (0..20).map(|nth| of(&format!("p-{nth}"), &format!("acct-{nth}"), 10)).collect();
    let answers = last_approvals_concurrently(&world, payments).await;
    assert_eq!(n_admitted(answers, "recipient_day_max"), 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_payment_releases_its_share_of_the_limit() {
    let faults: Arc<Faults> = Arc::default();
    let world = World::with_faults(faults.clone(), &[("policy_bundle", STRICT)]).await;
    // The key is made while ceremonies still work.
    let first = admitted(&world, &of("first", "acct-1", 100)).await;
    let preview =
        json!({ "intent": of("p", "acct-1", 1), "approvals": [approval("alice"), approval("bob")] });
    let decision = async || world.post("/v1/policy/preview", &preview).await.ok()["decision"].clone();
    assert_eq!(decision().await, "DENY");
    faults.refusing.store(true, Ordering::SeqCst);
    let refused = world.post_nothing(&path(&first, "/execute")).await;
    assert_ne!(refused.status, StatusCode::OK, "{}", refused.json);
    assert_eq!(decision().await, "ALLOW");
}

#[tokio::test(flavor = "multi_thread")]
async fn spent_amounts_are_read_only_for_a_policy_with_that_permission() {
    for (given, reads) in [(&[][..], false), (&[("policy_bundle", STRICT)], true)] {
        let world = World::with_faults(Arc::default(), given).await;
        admitted(&world, &of("one", "acct-1", 10)).await;
        let evaluations = std::mem::take(&mut *world.evaluations.lock().unwrap());
        let of_payments = evaluations.iter().filter(|one| one.client_id == "treasury-desk");
        let read: Vec<bool> = of_payments.map(|one| one.has_velocity).collect();
        assert_eq!(read, [reads; 4], "a submission, two approvals, an admission");
        assert!(evaluations.iter().all(|one| one.client_id == "treasury-desk" || !one.has_velocity));
    }
}
