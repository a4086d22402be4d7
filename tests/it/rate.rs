//! The submission quota: per tenant and client, shared by engines on one store, kept over a restart, one token per submission.

use crate::harness::custody::{KEYS, create_key, key, key_path, sign};
use crate::harness::modes::{TestCaller, test_caller};
use crate::harness::process::SIGN;
use crate::harness::samples::{approval, path, payment, submit, with};
use crate::harness::timed::TimedWorld;
use crate::harness::world::{Answer, World};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const PREVIEW: &str = "/v1/policy/preview";

/// One token refills in a second, and the clock stands still unless a test moves it.
const SLOW: [(&str, &str); 2] = [("admission_rate", "1"), ("admission_burst", "20")];

fn quota(answer: &Answer) -> (u64, u64, u64) {
    let number = |name| answer.header(name).parse().unwrap();
    (number("ratelimit-limit"), number("ratelimit-remaining"), number("ratelimit-reset"))
}

fn has_no_quota_headers(answer: &Answer) -> bool {
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"]
        .iter()
        .all(|name| answer.header(name).is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_engines_on_one_store_share_the_submission_quota() {
    let world = TimedWorld::start(&SLOW).await;
    // Another client's payment makes the development key, so that no submission below has to.
    submit(&world, &with(payment("first"), "/client/client_id", json!("another"))).await;
    let replica = world.replica();
    let mut submissions = JoinSet::new();
    for n in 0..200 {
        let router = if n % 2 == 0 { world.router.clone() } else { replica.clone() };
        let body = payment(&format!("parallel-{n}")).to_string();
        submissions.spawn(World::send_to(router, Request::post(SIGN).body(Body::from(body)).unwrap()));
    }
    let answers = submissions.join_all().await;
    let accepted: Vec<_> = answers.iter().filter(|answer| answer.status == StatusCode::OK).collect();
    let n_limited = answers.iter().filter(|answer| answer.status == StatusCode::TOO_MANY_REQUESTS).count();
    assert_eq!((accepted.len(), n_limited), (20, 180));
    // Each accepted submission reports another remainder: every number from 19 down to 0.
    let mut left: Vec<_> = accepted.iter().map(|answer| quota(answer).1).collect();
    left.sort_unstable();
    assert_eq!(left, (0..20).collect::<Vec<_>>());
    for answer in answers.iter().filter(|answer| answer.status == StatusCode::TOO_MANY_REQUESTS) {
        assert_eq!((quota(answer), answer.header("retry-after")), ((20, 0, 20), "1"));
        assert_eq!(answer.json["error"], "policy_admission_rate_limited");
    }
}

#[tokio::test]
async fn accepted_submissions_report_the_remaining_quota_and_replays_take_no_token() {
    let world = TimedWorld::start(&[("admission_rate", "2"), ("admission_burst", "3")]).await;
    let first = world.post(SIGN, &payment("a")).await;
    assert_eq!(quota(&first), (3, 2, 1));
    assert!(first.header("retry-after").is_empty());
    for _ in 0..10 {
        let again = world.post(SIGN, &payment("a")).await;
        assert_eq!(again.header("idempotency-replayed"), "true");
        assert!(has_no_quota_headers(&again));
        let other_body = with(payment("a"), "/payment/amount_minor", json!(1));
        assert_eq!(world.post(SIGN, &other_body).await.header("idempotency-replayed"), "true");
    }
    assert_eq!(quota(&world.post(SIGN, &payment("b")).await), (3, 1, 1));
    assert_eq!(quota(&world.post(SIGN, &payment("c")).await), (3, 0, 2));
    let limited = world.post(SIGN, &payment("d")).await;
    assert_eq!((quota(&limited), limited.header("retry-after")), ((3, 0, 2), "1"));
    limited.fails(429, "policy_admission_rate_limited");
    // A replay is accepted when the quota is used up.
    world.post(SIGN, &payment("a")).await.ok();
    world.advance_ms(499);
    world.post(SIGN, &payment("d")).await.fails(429, "policy_admission_rate_limited");
    world.advance_ms(1);
    assert_eq!(quota(&world.post(SIGN, &payment("d")).await), (3, 0, 2));
}

#[tokio::test]
async fn quota_is_shared_by_both_families_and_separate_per_tenant() {
    let world = TimedWorld::start(&[("admission_rate", "1"), ("admission_burst", "3")]).await;
    let client = |tenant: &str| json!({ "client_id": "desk", "subject_id": "carol", "roles": [], "scopes": [], "tenant": tenant });
    let body = |name: &str, tenant: &str| with(payment(name), "/client", client(tenant));
    let key = |name: &str, tenant: &str| {
        with(with(key(name), "/client", client(tenant)), "/tenant_id", json!(tenant))
    };
    let post = async |tenant: &str, path: &str, body: &Value| {
        let caller = test_caller("carol", "operations.* custody.*");
        world.call_as(&TestCaller { tenant: Some(tenant), ..caller }.headers(), "POST", path, body).await
    };
    assert_eq!(quota(&post("a", SIGN, &body("1", "a")).await).1, 2);
    assert_eq!(quota(&post("a", KEYS, &key("k", "a")).await).1, 1);
    assert_eq!(quota(&post("a", SIGN, &body("2", "a")).await).1, 0);
    post("a", SIGN, &body("3", "a")).await.fails(429, "policy_admission_rate_limited");
    post("a", KEYS, &key("l", "a")).await.fails(429, "policy_admission_rate_limited");
    assert_eq!(quota(&post("b", SIGN, &body("1", "b")).await).1, 2);
}

#[tokio::test]
async fn custody_signatures_take_a_token_and_their_replays_do_not() {
    let world = TimedWorld::start(&[("admission_rate", "1"), ("admission_burst", "3")]).await;
    create_key(&world, "vault").await;
    let path = key_path("vault", "/sign");
    assert_eq!(quota(&world.post(&path, &sign("one")).await).1, 1);
    assert!(has_no_quota_headers(&world.post(&path, &sign("one")).await));
    assert_eq!(quota(&world.post(&path, &sign("two")).await).1, 0);
    world.post(&path, &sign("three")).await.fails(429, "policy_admission_rate_limited");
    assert!(has_no_quota_headers(&world.post(&path, &sign("two")).await));
}

#[tokio::test]
async fn policy_refusal_takes_one_token_and_impossible_request_takes_none() {
    let recipients = ("permitted_recipients", "acct-supplier-0042");
    let world = TimedWorld::start(&[("admission_rate", "1"), ("admission_burst", "4"), recipients]).await;
    let refused = |name: &str| with(payment(name), "/payment/to_account", json!("acct-else"));
    assert_eq!(quota(&world.post(SIGN, &payment("key")).await).1, 3);
    for left in [2, 1] {
        let answer = world.post(SIGN, &refused("1")).await;
        assert_eq!(quota(&answer).1, left);
        answer.fails(403, "policy_rejected");
    }
    // Requests that leave no record take no token: invalid bodies, unknown nodes, previews.
    let outsider = with(payment("outsider"), "/requested_participants", json!([0, 1, 16]));
    for _ in 0..5 {
        world.post(SIGN, &outsider).await.fails(400, "invalid_json");
        world.post_text(SIGN, "{").await.fails(400, "invalid_json");
        world.post(PREVIEW, &json!({ "intent": payment("p") })).await.ok();
    }
    assert_eq!(quota(&world.post(SIGN, &payment("2")).await).1, 0);
    // With the quota used up, the policy is not evaluated and nothing is recorded.
    let n_before = world.store.counters().jobs;
    world.post(SIGN, &refused("3")).await.fails(429, "policy_admission_rate_limited");
    assert_eq!(world.store.counters().jobs, n_before);
}

/// A rejected approval leaves a permanent record, like a refused submission.
#[tokio::test]
async fn approvals_that_do_not_count_take_a_token_and_those_that_count_do_not() {
    let duties = ("separation_of_duties", "true");
    let world = TimedWorld::start(&[("admission_rate", "1"), ("admission_burst", "4"), duties]).await;
    let operation = submit(&world, &payment("1")).await;
    let approve = path(&operation, "/approve");
    for _ in 0..3 {
        world.post(&approve, &approval("carol")).await.fails(403, "approver_not_permitted");
    }
    let n_before = world.store.counters().jobs;
    for _ in 0..5 {
        world.post(&approve, &approval("carol")).await.fails(429, "policy_admission_rate_limited");
    }
    assert_eq!(world.store.counters().jobs, n_before, "a request above the limit left a record");
    // The quota is used up, and approvals that count need no token.
    world.post(&approve, &approval("alice")).await.ok();
    assert_eq!(world.post(&approve, &approval("bob")).await.ok()["state"], "admitted");
}

#[tokio::test]
async fn restart_keeps_the_quota() {
    let world = TimedWorld::start(&[("admission_rate", "1"), ("admission_burst", "2")]).await;
    submit(&world, &payment("1")).await;
    submit(&world, &payment("2")).await;
    let world = world.restart().await;
    world.post(SIGN, &payment("3")).await.fails(429, "policy_admission_rate_limited");
    let denied = with(payment("4"), "/payment/amount_minor", json!(-1));
    world.post(SIGN, &denied).await.fails(429, "policy_admission_rate_limited");
    submit(&world, &payment("1")).await;
    world.advance_ms(1000);
    submit(&world, &payment("3")).await;
    world.post(SIGN, &payment("4")).await.fails(429, "policy_admission_rate_limited");
}

#[tokio::test]
async fn clock_set_back_neither_locks_out_nor_grants_a_burst() {
    let world = TimedWorld::start(&[("admission_rate", "1"), ("admission_burst", "3")]).await;
    for name in ["1", "2", "3"] {
        submit(&world, &payment(name)).await;
    }
    world.advance_ms(-30_000);
    world.post(SIGN, &payment("4")).await.fails(429, "policy_admission_rate_limited");
    world.advance_ms(-3_600_000);
    submit(&world, &payment("4")).await;
    world.post(SIGN, &payment("5")).await.fails(429, "policy_admission_rate_limited");
    world.advance_ms(1000);
    submit(&world, &payment("5")).await;
}

#[tokio::test]
async fn token_is_taken_in_the_commit_of_the_submission() {
    let commits = async |overrides: &[(&str, &str)]| {
        let world = TimedWorld::start(overrides).await;
        submit(&world, &payment("key")).await;
        let before = world.store.counters();
        submit(&world, &payment("counted")).await;
        let after = world.store.counters();
        (after.jobs - before.jobs, after.transactions - before.transactions)
    };
    assert_eq!(commits(&SLOW).await, commits(&[("admission_rate", "0")]).await);
    assert_eq!(commits(&SLOW).await, (1, 1));
}

#[tokio::test]
async fn previews_have_a_separate_quota() {
    let world =
        TimedWorld::start(&[("preview_rate", "1"), ("preview_burst", "2"), ("admission_rate", "1")]).await;
    let preview = |client: &str| json!({ "intent": with(payment("p"), "/client/client_id", json!(client)) });
    for _ in 0..2 {
        assert!(has_no_quota_headers(&world.post(PREVIEW, &preview("a")).await));
    }
    let limited = world.post(PREVIEW, &preview("a")).await;
    assert_eq!((quota(&limited), limited.header("retry-after")), ((2, 0, 2), "1"));
    let message = limited.fails(429, "policy_admission_rate_limited");
    assert_eq!(
        message,
        "the rate limit of this client allows 2 previews at once, and they are used up; retry in 1000 ms"
    );
    world.post(PREVIEW, &preview("b")).await.ok();
    world.post(SIGN, &with(payment("s"), "/client/client_id", json!("a"))).await.ok();
    world.advance_ms(1000);
    world.post(PREVIEW, &preview("a")).await.ok();
    world.post(PREVIEW, &preview("a")).await.fails(429, "policy_admission_rate_limited");
}
