use crate::harness::modes::test_caller;
use crate::harness::samples::payment;
use crate::harness::world::{Answer, World};
use serde_json::{Value, json};

const BUNDLES: &str = "/v1/policy/bundles";

async fn get_with_scope(world: &World, scope: &str) -> Answer {
    world.call_as(&test_caller("carol", scope).headers(), "GET", BUNDLES, &Value::Null).await
}

#[tokio::test]
async fn policy_bundles_are_readable_with_preview_or_audit_scope() {
    let world = World::start().await;
    for scope in ["operations.read", "operations.sign", "audit.read"] {
        get_with_scope(&world, scope).await.ok();
    }
    get_with_scope(&world, "custody.read").await.fails(403, "insufficient_scope");
}

#[tokio::test]
async fn history_limit_must_be_a_small_number() {
    let world = World::start().await;
    for query in ["limit=0", "limit=201", "limit=x", "limit=1&limit=2", "limit="] {
        world.get(&format!("{BUNDLES}?{query}")).await.fails(400, "invalid_request");
    }
    let shown = world.get(&format!("{BUNDLES}?limit=1")).await.ok();
    assert_eq!(shown["history"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn policy_bundles_shows_the_signed_manifest() {
    let world = World::start().await;
    let shown = world.get(BUNDLES).await.ok();
    let manifest: Value =
        serde_json::from_str(include_str!("../../../bundles/payment-guard/manifest.json")).unwrap();
    let bundle = &shown["active"]["bundle"];
    for member in ["bundle_id", "version", "sequence", "capabilities", "facts", "limits"] {
        assert_eq!(bundle[member], manifest[member], "{member}");
    }
    let preview = world.post("/v1/policy/preview", &json!({ "intent": payment("same") })).await.ok();
    assert_eq!(shown["active"]["bundle_hash"], preview["bundle_hash"]);
    assert_eq!(shown["active"]["bundle_hash"], bundle["bundle_hash"]);
    assert_eq!(shown["history"], json!([shown["active"]]));
    for name in ["fault", "candidate", "last_refusal"] {
        assert_eq!(shown[name], Value::Null, "{name}");
    }
    assert_eq!(shown["refused"], json!([]));
}
