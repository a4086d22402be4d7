use crate::harness::modes::TestCaller;
use crate::harness::samples::payment;
use crate::harness::world::World;
use gateway_domain::ids::Tenant;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{DeadLetter, KeepWebhooks as _, WebhookClaim, WebhookFailure, WebhookProgress};
use serde_json::{Value, json};

const WEBHOOKS: &str = "/v1/webhooks";

fn caller<'a>(tenant: &'a str, scopes: &'a str) -> Vec<(&'static str, &'a str)> {
    TestCaller { client: "desk", subject: "carol", roles: "operator", scopes, tenant: Some(tenant) }.headers()
}

/// Has the store keep a webhook that accepted the first five events and refused the one at index 4.
async fn keep(world: &World, name: &str, tenant: Option<&str>) {
    let (holder, until) = ([1; 16], EpochMs(u64::MAX));
    let claim = WebhookClaim {
        name: name.to_owned(),
        tenant: tenant.map(|tenant| Tenant(tenant.to_owned())),
        holder,
        now: EpochMs(1),
        until,
    };
    let webhook = world.store.webhook_claim(claim).await.unwrap().unwrap();
    let progress = WebhookProgress {
        name: name.to_owned(),
        holder,
        n_resends: webhook.n_resends,
        from: webhook.position,
        position: 5,
        failure: Some(WebhookFailure { since: EpochMs(7), why: "answers with status 500".to_owned() }),
        dead_letters: vec![DeadLetter {
            index: 4,
            at: EpochMs(6),
            why: "answers with status 400".to_owned(),
        }],
        until,
    };
    assert!(world.store.webhook_advance(progress).await.unwrap());
}

async fn names(world: &World, headers: &[(&str, &str)]) -> Vec<String> {
    let answer = world.call_as(headers, "GET", WEBHOOKS, &Value::Null).await.ok();
    let webhooks = answer["webhooks"].as_array().unwrap().iter();
    webhooks.map(|webhook| webhook["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn webhook_is_shown_and_set_back() {
    let world = World::ticking().await;
    assert_eq!(world.get(WEBHOOKS).await.ok(), json!({"webhooks": [], "log_position": 0}));
    for number in 0..3 {
        world.post("/v1/operations/sign", &payment(&format!("{number}"))).await.ok();
    }
    keep(&world, "books", Some("default")).await;
    let all = world.get(WEBHOOKS).await.ok();
    let mut expected = json!({
        "name": "books", "tenant": "default", "is_sent_to": true, "position": 5,
        "failure": {"since_ms": 7, "message": "answers with status 500"},
        "dead_letters_total": 1,
        "dead_letters": [{"index": 4, "at_ms": 6, "message": "answers with status 400"}],
    });
    assert_eq!(all["webhooks"], json!([expected]));
    assert!(all["log_position"].as_u64().unwrap() > 5, "{all}");

    let path = "/v1/webhooks/books/resend";
    let beyond = world.post(path, &json!({"from": 6})).await.fails(400, "invalid_request");
    assert_eq!(beyond, "`/from` must be at most 5: later events were not sent yet");
    for wrong in [json!({}), json!({"from": -1}), json!({"from": "5"}), json!({"from": null})] {
        world.post(path, &wrong).await.fails(400, "invalid_json");
    }
    assert_eq!(world.get(WEBHOOKS).await.ok(), all, "nothing has changed");
    expected["position"] = json!(3);
    expected["dead_letters_total"] = json!(0);
    expected["dead_letters"] = json!([]);
    assert_eq!(world.post(path, &json!({"from": 3})).await.ok(), expected);
    world.post("/v1/webhooks/other/resend", &json!({"from": 0})).await.fails(404, "not_found");
    world.post("/v1/webhooks/%ff/resend", &json!({"from": 0})).await.fails(404, "not_found");
}

#[tokio::test]
async fn refused_events_are_dismissed() {
    let world = World::ticking().await;
    world.post("/v1/operations/sign", &payment("one")).await.ok();
    keep(&world, "books", Some("default")).await;
    let path = "/v1/webhooks/books/dismiss";
    for (through, left) in [(3, 1), (4, 0), (4, 0)] {
        let shown = world.post(path, &json!({"through": through})).await.ok();
        assert_eq!(
            (&shown["dead_letters_total"], &shown["position"]),
            (&json!(left), &json!(5)),
            "{through}"
        );
    }
    world.post(path, &json!({"through": -1})).await.fails(400, "invalid_json");
    world.post("/v1/webhooks/other/dismiss", &json!({"through": 0})).await.fails(404, "not_found");
}

#[tokio::test]
async fn webhooks_are_those_of_the_callers_tenant() {
    let world = World::ticking().await;
    for number in 0..3 {
        world.post("/v1/operations/sign", &payment(&format!("{number}"))).await.ok();
    }
    for (name, tenant) in [("acme", Some("acme")), ("default", Some("default")), ("everything", None)] {
        keep(&world, name, tenant).await;
    }
    let manage = "webhooks.manage";
    assert_eq!(names(&world, &[]).await, ["acme", "default", "everything"]);
    for tenant in ["acme", "default"] {
        assert_eq!(names(&world, &caller(tenant, manage)).await, [tenant]);
    }
    assert_eq!(names(&world, &caller("third", manage)).await, [""; 0]);
    let mut unknown = None;
    for name in ["default", "everything", "nonexistent"] {
        let path = format!("/v1/webhooks/{name}/resend");
        let answer = world.call_as(&caller("acme", manage), "POST", &path, &json!({"from": 0})).await;
        let message = answer.fails(404, "not_found");
        assert_eq!(*unknown.get_or_insert_with(|| message.clone()), message, "{name}");
    }
    // Those of all tenants need a scope of their own, which gives nothing of other tenants.
    assert_eq!(names(&world, &caller("third", "webhooks.*")).await, ["everything"]);
    assert_eq!(names(&world, &caller("acme", "webhooks.*")).await, ["acme", "everything"]);
    for scopes in ["operations.*", "custody.*", "audit.read"] {
        let answer = world.call_as(&caller("acme", scopes), "GET", WEBHOOKS, &Value::Null).await;
        answer.fails(403, "insufficient_scope");
    }
    let (manager, from_0) = (caller("acme", manage), json!({"from": 0}));
    let own = world.call_as(&manager, "POST", "/v1/webhooks/acme/resend", &from_0).await;
    assert_eq!(own.ok()["position"], 0);
}
