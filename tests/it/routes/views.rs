//! Snapshots of every response body: a change here is a change for clients.

use crate::harness::custody;
use crate::harness::samples::{admitted, path, payment, published, submitted};
use crate::harness::world::World;
use serde_json::{Value, json};

/// Hashes, signatures and instants differ from run to run; their shapes do not.
fn steady(value: Value) -> Value {
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
        // Proofs and notes: their signature lines begin with a dash.
        Value::String(text) if text.contains("\n\n\u{2014} ") => json!("<signed note>"),
        Value::String(text) => {
            let words: Vec<_> =
                text.split('/').map(|word| if word.len() == 64 { "<id>" } else { word }).collect();
            let text = words.join("/");
            json!(if let Some((name, _)) = text.split_once("now_ms=") {
                format!("{name}now_ms=<ms>")
            } else {
                text
            })
        }
        Value::Array(items) => items.into_iter().map(steady).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| {
                let value = if name.ends_with("_at_ms") { json!("<ms>") } else { steady(value) };
                (name, value)
            })
            .collect(),
        other => other,
    }
}

#[tokio::test]
async fn views_keep_their_shape() {
    let world = World::start().await;
    insta::assert_json_snapshot!("pending", steady(submitted(&world, &payment("a")).await));
    insta::assert_json_snapshot!("admitted", steady(admitted(&world, &payment("b")).await));
    let view = published(&world, &payment("c")).await;
    insta::assert_json_snapshot!("published", steady(view.clone()));
    let audit = world.get(&path(&view, "/audit-replay")).await.ok();
    let types: Vec<_> =
        audit["events"].as_array().unwrap().iter().map(|entry| &entry["event"]["change"]["type"]).collect();
    insta::assert_json_snapshot!("audit_event_types", types);
    let preview = world.post("/v1/policy/preview", &json!({ "intent": payment("d") })).await.ok();
    insta::assert_json_snapshot!("preview", steady(preview));
}

#[tokio::test]
async fn custody_views_keep_their_shape() {
    let world = World::ticking().await;
    let create = custody::submitted(&world, "/v1/custody/keys", &custody::key("cold")).await;
    insta::assert_json_snapshot!("custody_create", steady(create));
    insta::assert_json_snapshot!("custody_key", steady(custody::made(&world, "cold").await));
    let on_key = |action| custody::on_key("cold", action);
    let signed = custody::published(&world, &on_key("/sign"), &custody::sign("a")).await;
    insta::assert_json_snapshot!("custody_sign", steady(signed.clone()));
    let recover = custody::submitted(&world, &on_key("/recover"), &custody::recover("2")).await;
    insta::assert_json_snapshot!("custody_recover", steady(recover));
    let reshared = custody::executed(&world, &on_key("/reshare"), &custody::reshare("3")).await;
    insta::assert_json_snapshot!("custody_reshare", steady(reshared));
    let rotated = custody::executed(&world, &on_key("/rotate"), &custody::rotate("cold-2")).await;
    insta::assert_json_snapshot!("custody_rotate", steady(rotated));
    insta::assert_json_snapshot!("custody_key_rotated", steady(world.get(&on_key("")).await.ok()));
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
    insta::assert_json_snapshot!("custody_evidence", steady(evidence));
}
