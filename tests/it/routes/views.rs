//! Snapshots of response bodies. A changed snapshot is a change for clients.

use crate::harness::custody;
use crate::harness::samples::{admit, path, payment, publish, submit};
use crate::harness::world::World;
use serde_json::{Value, json};

/// Replaces what differs from run to run, such as hashes, signatures and times, by placeholders.
fn mask(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() >= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            if text.bytes().all(|byte| byte == b'0') {
                json!("<zeros>")
            } else {
                json!(format!("<{} hex>", text.len()))
            }
        }
        Value::String(text) if text.starts_with("frost-") && text.contains(':') => {
            json!(text.split_once(':').map(|(profile, _)| format!("{profile}:<key>")))
        }
        // Log proofs and signed notes, whose signature lines begin with a dash.
        Value::String(text) if text.contains("\n\n\u{2014} ") => json!("<signed note>"),
        Value::String(text) => {
            let without = |text: &str, separator: char, mask: &str| {
                let is_hash =
                    |part: &str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
                let parts = text.split(separator).map(|part| if is_hash(part) { mask } else { part });
                parts.collect::<Vec<_>>().join(&separator.to_string())
            };
            let text = without(&without(&text, '/', "<id>"), '"', "<64 hex>");
            json!(if let Some((name, _)) = text.split_once("now_ms=") {
                format!("{name}now_ms=<ms>")
            } else {
                text
            })
        }
        Value::Array(items) => items.into_iter().map(mask).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| {
                let is_time = name.ends_with("_ms") && value.is_number();
                let value = if is_time { json!("<ms>") } else { mask(value) };
                (name, value)
            })
            .collect(),
        other => other,
    }
}

#[tokio::test]
async fn views_keep_their_shape() {
    let world = World::start().await;
    insta::assert_json_snapshot!("pending", mask(submit(&world, &payment("a")).await));
    insta::assert_json_snapshot!("admitted", mask(admit(&world, &payment("b")).await));
    let view = publish(&world, &payment("c")).await;
    insta::assert_json_snapshot!("published", mask(view.clone()));
    let audit = world.get(&path(&view, "/audit-replay")).await.ok();
    let types: Vec<_> =
        audit["events"].as_array().unwrap().iter().map(|entry| &entry["event"]["change"]["type"]).collect();
    insta::assert_json_snapshot!("audit_event_types", types);
    let preview = world.post("/v1/policy/preview", &json!({ "intent": payment("d") })).await.ok();
    insta::assert_json_snapshot!("preview", mask(preview));
}

#[tokio::test]
async fn custody_views_keep_their_shape() {
    let world = World::ticking().await;
    let create = custody::submit(&world, "/v1/custody/keys", &custody::key("cold")).await;
    insta::assert_json_snapshot!("custody_create", mask(create));
    insta::assert_json_snapshot!("custody_key", mask(custody::create_key(&world, "cold").await));
    let key_path = |action| custody::key_path("cold", action);
    let signed = custody::publish(&world, &key_path("/sign"), &custody::sign("a")).await;
    insta::assert_json_snapshot!("custody_sign", mask(signed.clone()));
    let recover = custody::submit(&world, &key_path("/recover"), &custody::recover("2")).await;
    insta::assert_json_snapshot!("custody_recover", mask(recover));
    let reshared = custody::execute(&world, &key_path("/reshare"), &custody::reshare("3")).await;
    insta::assert_json_snapshot!("custody_reshare", mask(reshared));
    let rotated = custody::execute(&world, &key_path("/rotate"), &custody::rotate("cold-2")).await;
    insta::assert_json_snapshot!("custody_rotate", mask(rotated));
    insta::assert_json_snapshot!("custody_key_rotated", mask(world.get(&key_path("")).await.ok()));
    let receipt = &signed["runtime"]["publication_receipt"];
    let export = custody::export(receipt, "Settled");
    world.post(&custody::path(&signed, "/external-export"), &export).await.ok();
    let evidence = world.get(&custody::path(&signed, "/evidence")).await.ok();
    let types: Vec<_> = evidence["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["event"]["change"]["type"])
        .collect();
    insta::assert_json_snapshot!("custody_event_types", types);
    let mut evidence = evidence;
    evidence["events"] = json!("<events>");
    evidence["decision"]["envelope"] = json!("<envelope>");
    insta::assert_json_snapshot!("custody_evidence", mask(evidence));
}
