//! The public forms of keys that wallets need, and signatures under derived keys.

use crate::harness::custody::{
    KEYS, create_key, execute, key, key_path, publish, refresh, rotate, sign, submit,
};
use crate::harness::samples::{payment, with};
use crate::harness::verify;
use crate::harness::world::World;
use serde_json::{Value, json};

const TR: &str = "frost-secp256k1-sha256-tr";

async fn derived(world: &World, name: &str, query: &str) -> Value {
    world.get(&key_path(name, &format!("/derive{query}"))).await.ok()
}

/// The body that creates a key with addresses.
fn bitcoin_key(name: &str) -> Value {
    with(key(name), "/signature_profile", json!(TR))
}

/// Signs with these members in the request; returns the published operation.
async fn signed(world: &World, name: &str, members: Value) -> Value {
    let mut body = sign(&members.to_string());
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    publish(world, &key_path(name, "/sign"), &body).await
}

#[tokio::test]
async fn signature_verifies_under_the_key_that_derive_shows_for_its_terms() {
    let world = World::start().await;
    execute(&world, KEYS, &bitcoin_key("btc")).await;
    let own = derived(&world, "btc", "").await;
    let child = derived(&world, "btc", "?path=0/7").await;
    assert_eq!(child, derived(&world, "btc", "?path=0%2F7").await);
    let view = world.get(&key_path("btc", "")).await.ok();
    assert_eq!((&own["path"], &child["path"]), (&Value::Null, &json!("0/7")));
    assert_eq!((&own["key_id"], &own["public_key_hex"]), (&view["key_id"], &view["public_key_hex"]));
    for key in [&own, &child] {
        let point = key["compressed_public_key_hex"].as_str().unwrap();
        assert_eq!(&point[2..], key["public_key_hex"]);
        assert!(key["extended_public_key"].as_str().unwrap().starts_with("xpub"));
    }
    let path = json!({ "network": "bitcoin", "path": "0/7" });
    let cases = [
        (json!({}), &own["public_key_hex"]),
        (json!({ "taproot": {} }), &own["taproot_output_key_hex"]),
        (json!({ "bip32": path }), &child["public_key_hex"]),
        (json!({ "bip32": path, "taproot": {} }), &child["taproot_output_key_hex"]),
        (json!({ "bip32": path, "taproot": { "merkle_root": null } }), &child["taproot_output_key_hex"]),
    ];
    for (members, public_key) in cases {
        let operation = signed(&world, "btc", members.clone()).await;
        assert_eq!(operation["result"]["public_key_hex"], *public_key, "{members}");
        verify::bip340(&operation);
    }
    // An output with scripts has another key. A new epoch changes none of them.
    let root = json!({ "taproot": { "merkle_root": "11".repeat(32) } });
    let scripts = signed(&world, "btc", root).await;
    verify::bip340(&scripts);
    assert_ne!(scripts["result"]["public_key_hex"], own["taproot_output_key_hex"]);
    execute(&world, &key_path("btc", "/refresh"), &refresh("2")).await;
    assert_eq!(derived(&world, "btc", "?path=0/7").await, child);
    let later = signed(&world, "btc", json!({ "bip32": path, "taproot": {}, "action": "again" })).await;
    assert_eq!(later["result"]["public_key_hex"], child["taproot_output_key_hex"]);
}

#[tokio::test]
async fn ed25519_keys_have_one_form_and_no_derived_keys() {
    let world = World::start().await;
    create_key(&world, "vault").await;
    let own = derived(&world, "vault", "").await;
    assert_eq!(own["public_key_hex"], world.get(&key_path("vault", "")).await.ok()["public_key_hex"]);
    for member in ["compressed_public_key_hex", "extended_public_key", "taproot_output_key_hex", "path"] {
        assert_eq!(own[member], Value::Null, "{member}");
    }
    let message = world.get(&key_path("vault", "/derive?path=0/7")).await.fails(400, "invalid_request");
    assert!(message.contains("frost-ed25519-sha512"), "{message}");
    for member in ["bip32", "taproot"] {
        let value = if member == "bip32" { json!({ "network": "x", "path": "0/1" }) } else { json!({}) };
        let mut body = sign(member);
        body[member] = value;
        let message = world.post(&key_path("vault", "/sign"), &body).await.fails(400, "invalid_json");
        assert!(message.starts_with(&format!("`/{member}` must be left out")), "{message}");
    }
}

#[tokio::test]
async fn derive_names_a_malformed_path_and_a_key_without_shares() {
    let world = World::start().await;
    submit(&world, KEYS, &bitcoin_key("btc")).await;
    for query in ["", "?path=0/1"] {
        let answer = world.get(&key_path("btc", &format!("/derive{query}"))).await;
        answer.fails(409, "custody_key_not_active");
    }
    world.get(&key_path("other", "/derive")).await.fails(404, "custody_key_not_found");
    for wrong in
        ["path=", "path=0", "path=0/1/2", "path=0'/1", "path=0/2147483648", "path=00/1", "path=0/1&path=0/1"]
    {
        let answer = world.get(&key_path("btc", &format!("/derive?{wrong}"))).await;
        answer.fails(400, "invalid_request");
    }
}

#[tokio::test]
async fn payments_have_no_taproot_output() {
    let world = World::start().await;
    let payment = with(payment("tap"), "/taproot", json!({}));
    let answer = world.post("/v1/operations/sign", &payment).await;
    assert!(answer.header("warning").contains("/taproot"), "{}", answer.header("warning"));
}

/// Funds at an address of such a key could never be spent.
#[tokio::test]
async fn rotated_key_has_no_addresses() {
    let world = World::start().await;
    execute(&world, KEYS, &bitcoin_key("old")).await;
    assert!(derived(&world, "old", "?path=0/1").await["taproot_output_key_hex"].is_string());
    execute(&world, &key_path("old", "/rotate"), &rotate("new")).await;
    for query in ["", "?path=0/1"] {
        let key = derived(&world, "old", query).await;
        assert_eq!(key["state"], "rotated");
        assert!(key["public_key_hex"].is_string() && key["compressed_public_key_hex"].is_string());
        for address in ["taproot_output_key_hex", "extended_public_key"] {
            assert_eq!(key[address], Value::Null, "{address}");
        }
    }
    assert!(derived(&world, "new", "").await["taproot_output_key_hex"].is_string());
}
