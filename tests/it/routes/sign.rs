use super::assert_refused_by_name;
use crate::harness::modes::{TestCaller, test_caller};
use crate::harness::process::SIGN;
use crate::harness::samples::{path, payment, submit, with};
use crate::harness::world::{Answer, World};
use serde_json::{Value, json};

#[tokio::test]
async fn missing_or_wrong_member_is_named() {
    let world = World::start().await;
    let cases = [
        ("/idempotency_key", Value::Null, "`/idempotency_key` is required"),
        ("/idempotency_key", json!(""), "`/idempotency_key` must not be empty"),
        ("/idempotency_key", json!(7), "`/idempotency_key` must be a string, not a number"),
        ("/payment", Value::Null, "`/payment` is required"),
        ("/payment", json!([]), "`/payment` must be an object, not an array"),
        ("/payment/amount_minor", json!("1"), "`/payment/amount_minor` must be an integer from"),
        ("/payment/amount_minor", json!(1.5), "`/payment/amount_minor` must be an integer from"),
        (
            "/payment/amount_minor",
            json!(9_223_372_036_854_775_808_u64),
            "`/payment/amount_minor` must be an integer",
        ),
        ("/payment/to_account", json!(""), "`/payment/to_account` must not be empty"),
        ("/payment/reference", json!("x".repeat(1025)), "`/payment/reference` must be at most 1024 bytes"),
        ("/requested_participants", json!([0, 0]), "`/requested_participants` names participant `0` twice"),
        (
            "/requested_participants",
            json!([0]),
            "`/requested_participants` must name 2 to 64 participants, not 1",
        ),
        (
            "/requested_participants",
            json!([]),
            "`/requested_participants` must name 2 to 64 participants, not 0",
        ),
        (
            "/requested_participants",
            json!([0, -1]),
            "`/requested_participants/1` must be an integer from 0 to 65535",
        ),
        (
            "/requested_participants",
            json!([0, 2000]),
            "`/requested_participants` participant `2000` is above 1023",
        ),
        ("/threshold", json!(0), "`/threshold` must be 2 to 3, the number of participants, not `0`"),
        ("/threshold", json!(4), "`/threshold` must be 2 to 3, the number of participants, not `4`"),
        ("/publication_mode", json!("later"), "`/publication_mode` must be one of `manual`, `automatic`"),
        (
            "/bip32",
            json!({"network": "bitcoin", "path": "0'/1"}),
            "`/bip32/path` must be two non-hardened indices",
        ),
        ("/bip32", json!({"network": "", "path": "0/1"}), "`/bip32/network` must not be empty"),
        ("/epoch_fence_token_hex", json!("xyz"), "`/epoch_fence_token_hex` must be 1 to 128 lowercase"),
        ("/client", Value::Null, "`/client` is required"),
        ("/client/roles", json!("admin"), "`/client/roles` must be an array, not a string"),
        ("/client/subject_id", json!(""), "`/client/subject_id` must not be empty"),
        ("/key_ref", json!(""), "`/key_ref` must not be empty"),
    ];
    assert_refused_by_name(&world, SIGN, &payment("bad"), &cases).await;
}

#[tokio::test]
async fn i64_bounds_are_kept_exactly() {
    let world = World::start().await;
    let body = with(payment("big"), "/payment/amount_minor", json!(i64::MAX));
    assert_eq!(submit(&world, &body).await["intent"]["amount_minor"], json!(i64::MAX));
}

#[tokio::test]
async fn policy_refusal_creates_no_operation() {
    let world = World::with(&[("permitted_recipients", "acct-payroll,acct-tax")]).await;
    let message = world.post(SIGN, &payment("refused")).await.fails(403, "policy_rejected");
    assert!(
        message.contains("recipient_not_permitted") && message.contains("acct-supplier-0042"),
        "{message}"
    );
    let permitted = with(payment("refused"), "/payment/to_account", json!("acct-tax"));
    assert_eq!(submit(&world, &permitted).await["state"], "pending_approval");
    for amount in [0, -5] {
        let body = with(permitted.clone(), "/payment/amount_minor", json!(amount));
        let body = with(body, "/idempotency_key", json!(format!("amount{amount}")));
        world.post(SIGN, &body).await.fails(403, "policy_rejected");
    }
}

/// The codes of the reasons in an error body.
fn reasons(answer: &Answer) -> Vec<&str> {
    let reasons = answer.json["reasons"].as_array().unwrap().iter();
    reasons.map(|reason| reason["code"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn refusal_lists_the_reasons_that_deny_and_no_others() {
    let world = World::with(&[("permitted_recipients", "acct-tax")]).await;
    let zero = with(payment("zero"), "/payment/amount_minor", json!(0));
    let answer = world.post(SIGN, &zero).await;
    assert_eq!(reasons(&answer), ["recipient_not_permitted", "amount_not_positive"]);
    let answer = world.post(SIGN, &with(zero, "/payment/to_account", json!("acct-tax"))).await;
    assert_eq!(reasons(&answer), ["amount_not_positive"]);
    let reason = &answer.json["reasons"][0];
    let operands = json!([{ "name": "amount_minor", "value": "0" }, { "name": "currency", "value": "EUR" }]);
    assert_eq!(reason["operands"], operands);
    assert_eq!(reason["text"], "The amount is zero or negative.");
    assert_eq!(reason["remedy"], "Submit an amount of at least 1 minor unit.");
    let (bundle_hash, decision_id) = (&answer.json["bundle_hash"], &answer.json["decision_id"]);
    assert_eq!((bundle_hash.as_str().map(str::len), decision_id), (Some(64), &json!("refusal-2")));
    let message = answer.fails(403, "policy_rejected");
    let expected = "policy denies the operation: amount_not_positive: amount_minor 0, currency EUR";
    assert_eq!(message, expected);
}

#[tokio::test]
async fn terms_must_match_the_existing_key() {
    let world = World::start().await;
    submit(&world, &with(payment("first"), "/threshold", json!(3))).await;
    let lower = world.post(SIGN, &payment("lower")).await.fails(400, "invalid_json");
    assert!(lower.contains("`/threshold` must be at least the key's threshold, 3"), "{lower}");
    let outsider = with(payment("outsider"), "/requested_participants", json!([0, 1, 9]));
    let outsider = with(outsider, "/threshold", json!(3));
    let outsider = world.post(SIGN, &outsider).await.fails(400, "invalid_json");
    assert!(outsider.contains("must be participants of the key: 0, 1, 2"), "{outsider}");
    let few = with(with(payment("few"), "/requested_participants", json!([0, 1])), "/threshold", Value::Null);
    let few = world.post(SIGN, &few).await.fails(400, "invalid_json");
    assert!(few.contains("must name at least 3 participants"), "{few}");
}

#[tokio::test]
async fn unknown_key_is_not_found_without_provisioning() {
    let world = World::with(&[("auto_provision_keys", "false")]).await;
    world.post(SIGN, &payment("unknown")).await.fails(404, "custody_key_not_found");
    let unnamed = with(payment("unnamed"), "/key_ref", Value::Null);
    world.post(SIGN, &unnamed).await.fails(400, "invalid_json");
}

#[tokio::test]
async fn submissions_above_the_rate_limit_are_refused_and_replays_are_not() {
    // With its own clock: on a busy machine, the time between submissions could refill the quota.
    let world = World::ticking_with(&[("admission_rate", "1"), ("admission_burst", "2")]).await;
    submit(&world, &payment("rate-1")).await;
    submit(&world, &payment("rate-2")).await;
    let limited = world.post(SIGN, &payment("rate-3")).await;
    assert_eq!((limited.header("retry-after"), limited.header("ratelimit-limit")), ("1", "2"));
    assert_eq!(limited.header("ratelimit-remaining"), "0");
    limited.fails(429, "policy_admission_rate_limited");
    for _ in 0..5 {
        submit(&world, &payment("rate-1")).await;
    }
    let other = with(payment("rate-4"), "/client/client_id", json!("another-desk"));
    submit(&world, &other).await;
}

#[tokio::test]
async fn unknown_members_are_warned_about_or_refused() {
    let world = World::start().await;
    let body = with(payment("extra"), "/payment/colour\u{e9}", json!([1.5]));
    let answer = world.post(SIGN, &body).await;
    assert_eq!(answer.header("warning"), "299 - \"ignored unknown members: /payment/colour\"");
    let shown = answer.ok()["operation"].clone();
    let warnings = json!([{
        "code": "unknown_member", "pointer": "/payment/colour\u{e9}",
        "message": "is not a member of this request, and was ignored",
    }]);
    assert_eq!(shown["warnings"], warnings);
    assert_eq!(world.get(&path(&shown, "")).await.ok()["warnings"], json!([]));
    let strict = World::with(&[("unknown_fields", "reject")]).await;
    let message = strict.post(SIGN, &body).await.fails(400, "invalid_json");
    assert!(message.contains("is not a member of this request"), "{message}");
}

#[tokio::test]
async fn client_member_must_match_the_authenticated_caller() {
    let world = World::start().await;
    let post = async |scopes, body: &Value| {
        let carol = TestCaller { client: "treasury-desk", ..test_caller("carol", scopes) };
        world.call_as(&carol.headers(), "POST", SIGN, body).await
    };
    post("operations.sign", &payment("me")).await.ok();
    post("operations.read", &payment("me")).await.fails(403, "insufficient_scope");
    let other = with(payment("me"), "/client/subject_id", json!("mallory"));
    post("operations.sign", &other).await.fails(403, "client_binding_mismatch");
    let more_roles = with(payment("me"), "/client/roles", json!(["operator", "admin"]));
    post("operations.sign", &more_roles).await.fails(403, "client_binding_mismatch");
    let anonymous = world.call_as(&[("x-scopes", "operations.sign")], "POST", SIGN, &payment("me")).await;
    assert!(anonymous.header("www-authenticate").starts_with("Bearer"));
    anonymous.fails(401, "authentication_required");
}

#[tokio::test]
async fn unreadable_identity_headers_are_refused() {
    let world = World::start().await;
    let valid = [("x-client-id", "treasury-desk"), ("x-subject-id", "carol"), ("x-roles", "operator")];
    let identity = |extra: &[(&'static str, &'static str)]| {
        [&valid[..], &[("x-scopes", "operations.sign")], extra].concat()
    };
    world.call_as(&identity(&[]), "POST", SIGN, &payment("who")).await.ok();
    let twice = identity(&[("x-subject-id", "mallory")]);
    world.call_as(&twice, "POST", SIGN, &payment("who")).await.fails(400, "invalid_request");
    let unreadable = identity(&[("x-tenant", "M\u{fc}nchen")]);
    world.call_as(&unreadable, "POST", SIGN, &payment("who")).await.fails(400, "invalid_request");
}

#[tokio::test]
async fn reserved_names_and_unknown_nodes_are_refused() {
    let world = World::start().await;
    let reserved = with(payment("reserved"), "/key_ref", json!("development/2-of-0-1-2"));
    let message = world.post(SIGN, &reserved).await.fails(400, "invalid_json");
    assert!(message.starts_with("`/key_ref` must not begin with `development/`"), "{message}");
    let outsider = with(payment("outsider"), "/requested_participants", json!([0, 1, 16]));
    let message = world.post(SIGN, &outsider).await.fails(400, "invalid_json");
    assert!(message.contains("names participant `16`; this deployment has the nodes 0 to 15"), "{message}");
}

#[tokio::test]
async fn different_bodies_under_one_key_are_recorded_once_each_up_to_a_limit() {
    let world = World::start().await;
    let operation = submit(&world, &payment("replayed")).await;
    for amount in (0..100).chain(0..100) {
        submit(&world, &with(payment("replayed"), "/payment/amount_minor", json!(amount))).await;
    }
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    assert_eq!(audit["total_events"], 2 + 64);
}

#[tokio::test]
async fn accounts_that_look_like_others_are_refused() {
    let world = World::ticking().await;
    let cases = [
        ("acct-1\u{200b}", "must consist of visible characters and spaces, and has U+200B"),
        ("acct-1\u{a0}", "must consist of visible characters and spaces, and has U+00A0"),
        ("acct-1 ", "must not have a space at either end, or two in a row"),
        ("cafe\u{301}", "must be in Unicode's normalization form C (NFC)"),
    ];
    for pointer in ["/payment/from_account", "/payment/to_account"] {
        for (account, rule) in cases {
            let message = world.post(SIGN, &with(payment("x"), pointer, json!(account))).await;
            assert_eq!(message.fails(400, "invalid_json"), format!("`{pointer}` {rule}"), "{account:?}");
        }
    }
    submit(&world, &with(payment("x"), "/payment/from_account", json!("caf\u{e9} 2"))).await;
}
