use crate::harness::custody;
use crate::harness::process::SIGN;
use crate::harness::samples::{approval, payment, with};
use crate::harness::world::World;
use serde_json::{Value, json};

const PREVIEW: &str = "/v1/policy/preview";

#[tokio::test]
async fn preview_creates_nothing() {
    let world = World::start().await;
    let preview = world.post(PREVIEW, &json!({ "intent": payment("preview") })).await.ok();
    assert_eq!((&preview["decision"], &preview["bundle_id"]), (&json!("ALLOW"), &json!("payment-guard")));
    assert_eq!(preview["bundle_hash"].as_str().unwrap().len(), 64);
    let facts: Vec<_> =
        preview["facts"].as_array().unwrap().iter().map(|fact| fact.as_str().unwrap()).collect();
    assert!(facts.contains(&"deployment.permitted_recipients=*"), "{facts:?}");
    let created = world.post(SIGN, &payment("preview")).await;
    assert_eq!(created.header("idempotency-replayed"), "");
}

#[tokio::test]
async fn preview_counts_distinct_approving_subjects() {
    let world = World::start().await;
    let preview = |approvals: Value| json!({ "intent": payment("p"), "approvals": approvals });
    let twice = json!([approval("alice"), approval("alice")]);
    let denied = world.post(PREVIEW, &preview(twice)).await.ok();
    assert_eq!(denied["decision"], "DENY");
    assert!(denied["reasons"].to_string().contains("quorum_not_reached"), "{denied}");
    let enough = json!([approval("alice"), approval("bob")]);
    assert_eq!(world.post(PREVIEW, &preview(enough)).await.ok()["decision"], "ALLOW");
    assert_eq!(world.post(PREVIEW, &preview(json!([]))).await.ok()["decision"], "ALLOW");
}

#[tokio::test]
async fn preview_refusal_names_its_reason() {
    let world = World::with(&[("permitted_recipients", "acct-payroll")]).await;
    let denied = world.post(PREVIEW, &json!({ "intent": payment("p") })).await.ok();
    assert_eq!(denied["decision"], "DENY");
    assert!(denied["reasons"][0].as_str().unwrap().starts_with("recipient_not_permitted"), "{denied}");
}

#[tokio::test]
async fn invalid_preview_is_refused_by_member() {
    let world = World::start().await;
    let missing = world.post(PREVIEW, &json!({})).await.fails(400, "invalid_json");
    assert_eq!(missing, "`/intent` is required");
    let intent = with(payment("p"), "/payment/amount_minor", json!("1"));
    let message = world.post(PREVIEW, &json!({ "intent": intent })).await.fails(400, "invalid_json");
    assert!(message.starts_with("`/intent/payment/amount_minor` must be an integer"), "{message}");
    let with_empty = |pointer: &str| {
        let mut body = json!({ "intent": payment("p"), "approvals": [approval("alice"), approval("bob")] });
        *body.pointer_mut(pointer).unwrap() = json!("");
        body
    };
    for pointer in [
        "/intent/idempotency_key",
        "/intent/payment/from_account",
        "/intent/client/subject_id",
        "/approvals/1/subject_id",
    ] {
        let message = world.post(PREVIEW, &with_empty(pointer)).await.fails(400, "invalid_json");
        assert_eq!(message, format!("`{pointer}` must not be empty"));
    }
    let approvals = json!({ "intent": payment("p"), "approvals": [{}] });
    let approvals = world.post(PREVIEW, &approvals).await.fails(400, "invalid_json");
    assert_eq!(approvals, "`/approvals/0/subject_id` is required");
}

#[tokio::test]
async fn preview_refuses_what_a_submission_would() {
    let world = World::start().await;
    custody::create_key(&world, "plain").await;
    let plain = with(payment("p"), "/key_ref", json!("plain"));
    for (body, expected) in [
        (
            with(plain.clone(), "/bip32", json!({ "network": "bitcoin", "path": "0/1" })),
            "`/bip32` must be left out: the key's profile is `frost-ed25519-sha512`",
        ),
        (
            with(payment("p"), "/requested_participants", json!([1, 99])),
            "`/requested_participants` names participant `99`",
        ),
        (
            with(plain, "/requested_participants", json!([1, 3])),
            "`/requested_participants` must be participants of the key: 0, 1, 2",
        ),
    ] {
        let submitted = world.post(SIGN, &body).await.fails(400, "invalid_json");
        assert!(submitted.starts_with(expected), "{submitted}");
        let previewed = world.post(PREVIEW, &json!({ "intent": body })).await.fails(400, "invalid_json");
        assert_eq!(previewed, submitted.replacen("`/", "`/intent/", 1));
    }
}
