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
    assert_eq!(missing, "`/intent` is required, unless `/custody` is given");
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

#[tokio::test]
async fn every_kind_of_operation_can_be_previewed() {
    let world = World::start().await;
    custody::create_key(&world, "plain").await;
    let preview = async |custody: Value| world.post(PREVIEW, &json!({ "custody": custody })).await;
    let on_key = |kind: &str, body: Value| json!({ "key_ref": "plain", kind: body });
    for custody in [
        json!({ "key_create": custody::key("vault") }),
        on_key("sign", custody::sign("p")),
        on_key("refresh", custody::refresh("2")),
        on_key("reshare", custody::reshare("2")),
        on_key("rotate", custody::rotate("vault-2")),
        on_key("recover", custody::recover("2")),
    ] {
        let shown = preview(custody.clone()).await.ok();
        assert_eq!(shown["decision"], "ALLOW", "{custody}: {shown}");
    }
    let unknown = preview(json!({ "key_ref": "other", "refresh": custody::refresh("2") })).await;
    unknown.fails(404, "custody_key_not_found");
    for (custody, expected) in [
        (json!({}), "`/custody` must have exactly one of"),
        (
            json!({ "key_ref": "plain", "refresh": custody::refresh("2"), "sign": custody::sign("p") }),
            "`/custody` must have exactly one of",
        ),
        (json!({ "refresh": custody::refresh("2") }), "`/custody/key_ref` must not be empty"),
        (on_key("refresh", custody::refresh("")), "`/custody/refresh/target_epoch`"),
        (on_key("rotate", with(custody::rotate("v"), "/threshold", json!(1))), "`/custody/rotate/threshold`"),
    ] {
        let message = preview(custody).await.fails(400, "invalid_json");
        assert!(message.starts_with(expected), "{expected}: {message}");
    }
    let both = json!({ "intent": payment("p"), "custody": { "key_create": custody::key("vault") } });
    let message = world.post(PREVIEW, &both).await.fails(400, "invalid_json");
    assert_eq!(message, "`/custody` must be absent if `/intent` is given");
}

#[tokio::test]
async fn preview_with_assumed_facts_uses_them_and_is_not_recorded() {
    let world = World::with(&[("permitted_recipients", "acct-payroll")]).await;
    let preview = async |what_if: Value| {
        world.post(PREVIEW, &json!({ "intent": payment("p"), "what_if": what_if })).await
    };
    let recorded = async || {
        let decisions = world.get("/v1/policy/decisions").await.ok()["decisions"].clone();
        decisions.as_array().unwrap().len()
    };
    assert_eq!(preview(json!(null)).await.ok()["decision"], "DENY");
    let before = recorded().await;
    let assumed = preview(json!({ "deployment.permitted_recipients": "*", "time.now_ms": "7" })).await.ok();
    assert_eq!(assumed["decision"], "ALLOW");
    assert!(assumed["facts"].to_string().contains("deployment.permitted_recipients=*"), "{assumed}");
    let absent = preview(json!({ "deployment.permitted_recipients": null })).await.ok();
    assert!(absent["facts"].to_string().contains("deployment.permitted_recipients=(none)"), "{absent}");
    assert_eq!(recorded().await, before);
    for (fact, expected) in [
        ("velocity.*", "`/what_if/velocity.*` is not a fact"),
        ("x/y", "`/what_if/x~1y` is not a fact"),
        ("time.weekday.Europe/Zurich", "`/what_if/time.weekday.Europe~1Zurich` follows from `time.now_ms`"),
    ] {
        let message = preview(json!({ fact: "1" })).await.fails(400, "invalid_json");
        assert!(message.starts_with(expected), "{message}");
    }
}
