//! Hostile bodies get no 5xx and change no operation or key.

use crate::harness::custody::{self, KEYS};
use crate::harness::process::SIGN;
use crate::harness::samples::{admit, path, payment, submit, with};
use crate::harness::world::World;
use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

/// Hostile bodies: not JSON, too deep, too long, wrong types and values, and beginnings of a valid body.
fn hostile_texts() -> Vec<String> {
    let good = payment("hostile").to_string();
    let mut texts = vec![
        String::new(),
        "null".into(),
        "\"text\"".into(),
        "[]".into(),
        "{".into(),
        "\u{0}".into(),
        "{\"a\":\"\u{0}\"}".into(),
        "[".repeat(10_000),
        format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)),
        "{\"a\":".repeat(10_000),
        format!("{{\"x\":\"{}\"}}", "y".repeat(5 * 1024 * 1024)),
        "1180591620717411303424".into(),
        "{\"idempotency_key\":\"a\",\"idempotency_key\":\"b\"}".into(),
        good.replace("12500", "1180591620717411303424"),
        good.replace("12500", "1e400"),
        good.replace("12500", "-0"),
        good.replace("12500", "\"12500\""),
        good.replace("acct-supplier-0042", "\\u0000\\ud800"),
        good.replace("treasury-1", "../../../etc/passwd\\u0000'; DROP TABLE operations; --"),
        good.replace("[0,1,2]", "[65535,65536]"),
        good.replace("[0,1,2]", &format!("[{}]", vec!["1"; 20_000].join(","))),
        good.replace("\"manual\"", "{\"manual\":{}}"),
        good.replace("hostile", &"k".repeat(70_000)),
    ];
    // A valid body, cut off at every seventh byte.
    texts.extend((0..good.len()).step_by(7).map(|end| good[..end].to_owned()));
    texts
}

/// The answer must not be a 5xx, and an error must have a code and a message.
async fn assert_no_5xx(world: &World, path: &str, body: Vec<u8>) {
    let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
    let answer = world.send(Request::post(path).body(Body::from(body)).unwrap()).await;
    assert!(answer.status.as_u16() < 500, "{path} {shown}: {} {}", answer.status, answer.json);
    if !answer.status.is_success() {
        assert!(answer.json["error"].is_string() && answer.json["message"].is_string(), "{path} {shown}");
    }
}

#[tokio::test]
async fn hostile_bodies_get_no_5xx() {
    let world = World::start().await;
    let operation = submit(&world, &payment("victim")).await;
    let paths = ["/approve", "/execute", "/publish", "/node-recovery"].map(|action| path(&operation, action));
    for text in hostile_texts() {
        for path in paths.iter().map(String::as_str).chain([SIGN, "/v1/policy/preview"]) {
            assert_no_5xx(&world, path, text.clone().into_bytes()).await;
        }
    }
    let now = world.get(&path(&operation, "")).await.ok();
    assert_eq!(now["state"], "pending_approval");
    assert_eq!(now["approvals"], operation["approvals"]);
}

/// Hostile variants of a valid custody body: cut off, or with a member of a wrong type or value.
fn hostile_variants(good: &Value) -> Vec<String> {
    let text = good.to_string();
    let mut texts = hostile_texts();
    // Without those that vary a payment's values.
    texts.truncate(22);
    texts.extend((0..text.len()).step_by(5).map(|end| text[..end].to_owned()));
    let pointers: Vec<String> = good.as_object().unwrap().keys().map(|name| format!("/{name}")).collect();
    for pointer in &pointers {
        let huge: Vec<u32> = (0..70_000).collect();
        for value in [
            json!(null),
            json!(-1),
            json!(1e300),
            json!(""),
            json!("\u{0}"),
            json!([[]]),
            json!({}),
            json!(huge),
        ] {
            texts.push(with(good.clone(), pointer, value).to_string());
        }
    }
    texts
}

#[tokio::test]
async fn hostile_custody_bodies_get_no_5xx() {
    let world = World::start().await;
    let victim = custody::submit(&world, KEYS, &custody::key("victim")).await;
    let key_view = world.get("/v1/custody/keys/victim").await.ok();
    let key_path = |action: &str| custody::key_path("victim", action);
    let of = |action: &str| custody::path(&victim, action);
    let recovery = json!({ "effect_id": "e", "result_root": "0".repeat(64) });
    let targets = [
        (KEYS.to_owned(), custody::key("victim")),
        (key_path("/sign"), custody::sign("h")),
        (key_path("/refresh"), custody::refresh("h")),
        (key_path("/reshare"), custody::reshare("h")),
        (key_path("/rotate"), custody::rotate("victim")),
        (key_path("/recover"), custody::recover("h")),
        (of("/approve"), json!({ "subject_id": "", "roles": [], "approved_at_ms": 0 })),
        (of("/execute"), json!({ "requested_at_ms": 0 })),
        (of("/publish"), json!({ "scope": "", "requested_at_ms": 0 })),
        (of("/node-recovery"), recovery),
        (of("/external-export"), custody::export(&json!("r"), "Submitted")),
    ];
    for (path, good) in targets {
        for text in hostile_variants(&good) {
            assert_no_5xx(&world, &path, text.into_bytes()).await;
        }
    }
    let now = world.get(&custody::path(&victim, "")).await.ok();
    assert_eq!(now["state"], "pending_approval");
    let after = world.get("/v1/custody/keys/victim").await.ok();
    assert_eq!((&after["state"], &after["threshold"]), (&key_view["state"], &key_view["threshold"]));
}

#[tokio::test]
async fn body_with_a_flipped_bit_gets_no_5xx() {
    let world = World::start().await;
    let good = json!({ "intent": payment("bits") }).to_string().into_bytes();
    for index in 0..good.len() {
        let mut body = good.clone();
        body[index] ^= 1 << (index % 8);
        assert_no_5xx(&world, "/v1/policy/preview", body).await;
    }
}

#[tokio::test]
async fn oversized_deep_or_ambiguous_body_is_refused() {
    let world = World::start().await;
    let large = format!("{{\"x\":\"{}\"}}", "y".repeat(5 * 1024 * 1024));
    world.post_text(SIGN, &large).await.fails(413, "payload_too_large");
    let deep = "[".repeat(10_000);
    let message = world.post_text(SIGN, &deep).await.fails(400, "invalid_json");
    assert!(message.contains("nested deeper than 64"), "{message}");
    let twice = "{\"a\":1,\"a\":2}";
    let message = world.post_text(SIGN, twice).await.fails(400, "invalid_json");
    assert!(message.contains("member `a` appears twice"), "{message}");
}

/// Only the names of keys and accounts may not contain such characters.
#[tokio::test]
async fn unusual_texts_are_kept_through_a_whole_operation() {
    let world = World::start().await;
    let unusual = "\u{1}\u{7f}'\"; DROP TABLE operations; --\u{202e}\u{1F980}";
    let mut body = payment("unusual");
    for pointer in ["/payment/reference", "/client/subject_id", "/idempotency_key"] {
        *body.pointer_mut(pointer).unwrap() = json!(unusual);
    }
    let operation = admit(&world, &body).await;
    let executed = world.post_nothing(&path(&operation, "/execute")).await.ok();
    assert_eq!(executed["intent"]["reference"], unusual);
}
