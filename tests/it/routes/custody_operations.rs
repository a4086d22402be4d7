use super::{UNKNOWN, assert_refused_by_name};
use crate::harness::custody::{
    KEYS, abort, admit, create_key, execute, export, key, key_path, path, publish, refresh, sign, submit,
};
use crate::harness::modes::{TestCaller, test_caller};
use crate::harness::samples::{self, payment, with};
use crate::harness::world::World;
use serde_json::{Value, json};

pub(super) const POSTS: [&str; 6] =
    ["/approve", "/execute", "/publish", "/node-recovery", "/external-export", "/abort"];
pub(super) const GETS: [&str; 3] = ["", "/evidence", "/audit-replay"];

/// A valid body for each of [`POSTS`].
fn bodies() -> [Value; 6] {
    let recovery = json!({ "effect_id": "e", "result_root": UNKNOWN });
    [
        samples::approval("alice"),
        json!({}),
        samples::publication(),
        recovery,
        export(&json!("r"), "Submitted"),
        abort("alice", &[]),
    ]
}

#[tokio::test]
async fn operation_is_not_found_under_the_other_familys_paths() {
    let world = World::start().await;
    let payment = samples::submit(&world, &payment("payment")).await;
    let custody = submit(&world, KEYS, &key("cold")).await;
    let missing = world.get(&format!("/v1/custody/operations/{UNKNOWN}")).await;
    for other_family in [path(&payment, ""), samples::path(&custody, "")] {
        assert_eq!(world.get(&other_family).await.without_request_id(), missing.without_request_id());
    }
    missing.fails(404, "operation_not_found");
    for (action, body) in POSTS.iter().zip(bodies()) {
        world.post(&path(&payment, action), &body).await.fails(404, "operation_not_found");
        if !["/external-export", "/abort"].contains(action) {
            world.post(&samples::path(&custody, action), &body).await.fails(404, "operation_not_found");
        }
    }
    for action in GETS {
        world.get(&path(&payment, action)).await.fails(404, "operation_not_found");
    }
    world.get(&samples::path(&custody, "/audit-replay")).await.fails(404, "operation_not_found");
}

#[tokio::test]
async fn each_route_requires_its_scope() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let operation = publish(&world, &key_path("cold", "/sign"), &sign("scopes")).await;
    let as_alice = |scopes| TestCaller { tenant: Some("default"), ..test_caller("alice", scopes) }.headers();
    let scopes = [
        "custody.approve",
        "custody.execute",
        "custody.publish",
        "custody.recover",
        "custody.export",
        "custody.approve",
    ];
    let mut bodies = bodies();
    bodies[4] = export(&operation["runtime"]["publication_receipt"], "Submitted");
    for ((action, body), scope) in POSTS.iter().zip(bodies).zip(scopes) {
        for wrong in ["custody.read", "custody.manage", "operations.*", ""] {
            let answer = world.call_as(&as_alice(wrong), "POST", &path(&operation, action), &body).await;
            answer.fails(403, "insufficient_scope");
        }
        let answer = world.call_as(&as_alice(scope), "POST", &path(&operation, action), &body).await;
        // A signature cannot be aborted.
        if *action == "/abort" {
            answer.fails(409, "epoch_conflict");
        } else {
            answer.ok();
        }
    }
    for action in ["", "/evidence"] {
        world.call_as(&as_alice("custody.sign"), "GET", &path(&operation, action), &Value::Null).await.ok();
        let answer =
            world.call_as(&as_alice("operations.*"), "GET", &path(&operation, action), &Value::Null).await;
        answer.fails(403, "insufficient_scope");
    }
    let audit = path(&operation, "/audit-replay");
    let answer = world.call_as(&as_alice("custody.*"), "GET", &audit, &Value::Null).await;
    answer.fails(403, "audit_replay_forbidden");
    world.call_as(&as_alice("audit.read"), "GET", &audit, &Value::Null).await.ok();
}

#[tokio::test]
async fn invalid_bodies_get_the_error_code_of_the_endpoint() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let operation = admit(&world, &key_path("cold", "/sign"), &sign("bodies")).await;
    for body in ["[]", "7", "{\"requested_at_ms\":\"x\"}", "{\"signing_share_mul\":[1]}", "{"] {
        world.post_text(&path(&operation, "/execute"), body).await.fails(400, "invalid_execute_request");
    }
    for action in ["/approve", "/publish", "/node-recovery", "/external-export", "/abort"] {
        for body in ["", "[]", "7", "{}", "{\"client\":7}"] {
            world.post_text(&path(&operation, action), body).await.fails(400, "invalid_json");
        }
    }
    assert_eq!(world.get(&path(&operation, "")).await.ok(), operation);
}

#[tokio::test]
async fn key_changes_are_published_in_any_non_blank_scope() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let refreshed = execute(&world, &key_path("cold", "/refresh"), &refresh("2")).await;
    let publication = |scope| json!({ "scope": scope, "requested_at_ms": 1 });
    let publish = path(&refreshed, "/publish");
    let message = world.post(&publish, &publication("")).await.fails(400, "invalid_json");
    assert_eq!(message, "`/scope` must not be empty");
    assert_eq!(world.post(&publish, &publication("epoch")).await.ok()["state"], "published");
    let signed = execute(&world, &key_path("cold", "/sign"), &sign("s")).await;
    world.post(&path(&signed, "/publish"), &publication("epoch")).await.fails(400, "invalid_json");
}

#[tokio::test]
async fn external_export_state_only_moves_forward() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let signed = execute(&world, &key_path("cold", "/sign"), &sign("export")).await;
    let external_export = path(&signed, "/external-export");
    let early = export(&json!("r"), "Submitted");
    world.post(&external_export, &early).await.fails(409, "operation_not_executed");
    let view = publish(&world, &key_path("cold", "/sign"), &sign("export")).await;
    assert_eq!(view["next_actions"], json!(["external-export"]));
    let receipt = view["runtime"]["publication_receipt"].clone();
    let cases = [
        ("/state", json!("settled"), "`/state` must be one of `Submitted`, `Accepted`, `Settled`"),
        ("/export_ref", json!("7C".repeat(32)), "`/export_ref` must be 64 lowercase"),
        ("/rail", json!(""), "`/rail` must not be empty"),
        ("/external_id", json!(""), "`/external_id` must not be empty"),
        ("/publication_receipt", Value::Null, "`/publication_receipt` is required"),
        ("/exported_at_ms", json!(1.5), "`/exported_at_ms` must be an integer"),
    ];
    assert_refused_by_name(&world, &external_export, &export(&receipt, "Submitted"), &cases).await;
    let wrong = world.post(&external_export, &export(&json!("f".repeat(64)), "Submitted")).await;
    wrong.fails(409, "publication_receipt_mismatch");
    let accepted = world.post(&external_export, &export(&receipt, "Accepted")).await.ok();
    assert_eq!(
        (&accepted["state"], &accepted["external_export"]["state"]),
        (&json!("published"), &json!("Accepted"))
    );
    assert_eq!(world.post(&external_export, &export(&receipt, "Accepted")).await.ok(), accepted);
    world.post(&external_export, &export(&receipt, "Submitted")).await.fails(409, "external_export_conflict");
    let other = with(export(&receipt, "Settled"), "/external_id", json!("external-1"));
    let message = world.post(&external_export, &other).await.fails(409, "external_export_conflict");
    assert_eq!(
        message,
        "the export is `Accepted` on rail `swift` as `external-98765`: the same export may only go forward"
    );
    let settled = world.post(&external_export, &export(&receipt, "Settled")).await.ok();
    assert_eq!(settled["next_actions"], json!([]));
    assert_eq!(settled["links"].as_object().unwrap().keys().collect::<Vec<_>>(), ["self"]);
    assert_eq!(world.post(&external_export, &export(&receipt, "Settled")).await.ok(), settled);
    world.post(&external_export, &export(&receipt, "Accepted")).await.fails(409, "external_export_conflict");
}

#[tokio::test]
async fn evidence_discloses_the_result_after_publication_and_no_credential() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let body = with(sign("evidence"), "/client/token_jti", json!("jti-secret"));
    let body = with(body, "/client/cert_sha256", json!("cert-secret"));
    let executed = execute(&world, &key_path("cold", "/sign"), &body).await;
    let evidence = path(&executed, "/evidence");
    let unpublished = world.get(&evidence).await.ok();
    assert_eq!(unpublished["result"], json!({}));
    assert!(!unpublished.to_string().contains("/change/signature/signature_hex"), "{unpublished}");
    let view = publish(&world, &key_path("cold", "/sign"), &body).await;
    let shown = world.get(&evidence).await.ok();
    assert_eq!(shown["intent"]["request_digest"], "5a".repeat(32));
    assert_eq!(shown["decision"]["admission_hash"], view["runtime"]["admission_hash"]);
    assert_eq!(shown["result"], view["result"]);
    assert_eq!(shown["approvals"].as_array().unwrap().len(), 2);
    let steps: Vec<_> =
        shown["receipts"].as_array().unwrap().iter().map(|receipt| &receipt["step"]).collect();
    assert_eq!(steps, ["admission", "policy-receipt", "execute", "publish"]);
    assert_eq!(shown["record_root"], view["runtime"]["record_root"]);
    let events = shown["events"].as_array().unwrap();
    assert_eq!(events.last().unwrap()["event_hash"], shown["record_root"]);
    assert_eq!(
        (events.len(), &shown["truncated"]),
        (shown["total_events"].as_u64().unwrap() as usize, &json!(false))
    );
    let fence = shown["key"]["active_epoch_root"].clone();
    assert_eq!(fence, world.get(&key_path("cold", "")).await.ok()["active_epoch_root"]);
    let fenced = with(sign("fenced"), "/epoch_fence_token_hex", fence);
    assert_eq!(execute(&world, &key_path("cold", "/sign"), &fenced).await["state"], "executed");
    let audit = world.get(&path(&view, "/audit-replay")).await.ok().to_string();
    for (text, hidden) in [
        (shown.to_string(), &["jti-secret", "cert-secret"][..]),
        (audit, &["jti-secret", "cert-secret", "vault move"]),
    ] {
        for hidden in hidden {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
    }
}

#[tokio::test]
async fn exports_keep_the_newest_events_below_the_size_cap() {
    let cap = 24 * 1024;
    let world = World::with(&[("audit_bytes_max", &cap.to_string())]).await;
    let operation = submit(&world, KEYS, &key("cap")).await;
    for number in 0..70 {
        let approval = samples::approval(&format!("{number}-{}", "x".repeat(900)));
        world.post(&path(&operation, "/approve"), &approval).await.ok();
    }
    for export in ["/evidence", "/audit-replay"] {
        let newest = world.get(&path(&operation, export)).await.ok();
        assert!(newest.to_string().len() <= cap, "{export}: {}", newest.to_string().len());
        assert_eq!(newest["truncated"], true);
    }
}

#[tokio::test]
async fn recovery_answers_with_the_operation() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let view = publish(&world, &key_path("cold", "/sign"), &sign("recover")).await;
    let evidence = world.get(&path(&view, "/evidence")).await.ok();
    for effect in evidence["effects"].as_array().unwrap() {
        let recovered = world.post(&path(&view, "/node-recovery"), effect).await.ok();
        assert_eq!(
            (&recovered["operation_id"], &recovered["operation_type"]),
            (&view["operation_id"], &json!("sign"))
        );
        let other = with(effect.clone(), "/result_root", json!(UNKNOWN));
        world.post(&path(&view, "/node-recovery"), &other).await.fails(409, "recovery_conflict");
    }
}

#[tokio::test]
async fn signature_fenced_to_an_epoch_that_the_key_left_fails_at_execution() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let fence = world.get(&key_path("cold", "")).await.ok()["active_epoch_root"].clone();
    let fenced = with(sign("fenced"), "/epoch_fence_token_hex", fence);
    let admitted = admit(&world, &key_path("cold", "/sign"), &fenced).await;
    assert_eq!(admitted["warnings"], json!([]));
    execute(&world, &key_path("cold", "/refresh"), &refresh("2")).await;
    world.post_nothing(&path(&admitted, "/execute")).await.fails(409, "epoch_fence_mismatch");
    let failed = world.get(&path(&admitted, "")).await.ok();
    assert_eq!(
        (&failed["state"], &failed["failure"]["code"]),
        (&json!("failed"), &json!("epoch_fence_mismatch"))
    );
}

#[tokio::test]
async fn production_refuses_a_fence_that_does_not_hold_at_submission() {
    let world = World::ticking_in_production().await;
    create_key(&world, "cold").await;
    let root = world.get(&key_path("cold", "")).await.ok()["active_epoch_root"].as_str().unwrap().to_owned();
    let fenced = with(sign("fenced"), "/epoch_fence_token_hex", json!("00".repeat(32)));
    let message = world.post(&key_path("cold", "/sign"), &fenced).await.fails(400, "invalid_json");
    assert_eq!(message, format!("`/epoch_fence_token_hex` must be the key's active epoch root, `{root}`"));
    let right = with(sign("fenced"), "/epoch_fence_token_hex", json!(root));
    world.post(&key_path("cold", "/sign"), &right).await.ok();
}
