use crate::harness::modes::{Deployment, Mode, TestCaller};
use crate::harness::process::SIGN;
use crate::harness::samples::{approval, path, payment, with};
use crate::harness::world::World;
use serde_json::{Value, json};

const DECISIONS: &str = "/v1/policy/decisions";

/// The ids of the decisions that a query finds, from all its pages, newest first, without those on the key that development makes.
async fn found(world: &World, query: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("{DECISIONS}?limit=2&{query}{cursor}")).await.ok();
        let decisions = page["decisions"].as_array().unwrap();
        assert!(decisions.len() <= 2);
        let ours = decisions.iter().filter(|one| one["subject_id"] == "carol");
        ids.extend(ours.map(|one| one["decision_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { return ids };
        cursor = format!("&cursor={next}");
    }
}

fn refused(name: &str) -> Value {
    with(payment(name), "/payment/amount_minor", json!(0))
}

#[tokio::test]
async fn denial_names_its_record_which_is_found_and_explained() {
    let world = World::ticking().await;
    let paid = world.post(SIGN, &payment("paid")).await.ok()["operation"].clone();
    world.post(&path(&paid, "/approve"), &approval("alice")).await.ok();
    let id = paid["operation_id"].as_str().unwrap();
    let denied = world.call_as(&[("x-request-id", "at-three")], "POST", SIGN, &refused("no")).await;
    let name = denied.json["decision_id"].clone();
    assert_eq!(name, "refusal-1");
    let preview = json!({ "intent": refused("previewed") });
    world.call_as(&[("x-request-id", "asked")], "POST", "/v1/policy/preview", &preview).await.ok();

    let shown = world.get(&format!("{DECISIONS}/refusal-1")).await.ok();
    assert_eq!(
        json!([
            shown["decision"],
            shown["moment"],
            shown["request_id"],
            shown["idempotency_key"],
            shown["intact"]
        ]),
        json!(["DENY", "submit", "at-three", "no", true])
    );
    assert_eq!(shown["bundle_hash"], denied.json["bundle_hash"]);
    let reason =
        &shown["reasons"].as_array().unwrap().iter().find(|it| it["code"] == "amount_not_positive").unwrap();
    assert_eq!(**reason, denied.json["reasons"][0]);
    let collect = "More people must approve before the admission.";
    assert_eq!(shown["obligations"][0]["text"], collect, "{shown}");
    let fact = json!({ "name": "deployment.permitted_recipients", "value": "*", "class": "own" });
    assert!(shown["facts"].as_array().unwrap().contains(&fact), "{shown}");
    assert!(!shown.to_string().contains("acct-operating"), "no account but in operands and facts: {shown}");

    let (submission, approval) = (format!("{id}-1"), format!("{id}-3"));
    for (query, expected) in [
        ("".to_owned(), vec!["preview-1", "refusal-1", &approval, &submission]),
        ("decision=DENY".to_owned(), vec!["preview-1", "refusal-1"]),
        ("decision=ALLOW".to_owned(), vec![&*approval, &submission]),
        ("code=amount_not_positive".to_owned(), vec!["preview-1", "refusal-1"]),
        ("request_id=at-three".to_owned(), vec!["refusal-1"]),
        ("request_id=asked".to_owned(), vec!["preview-1"]),
        ("idempotency_key=no".to_owned(), vec!["refusal-1"]),
        ("idempotency_key=paid".to_owned(), vec![&*approval, &submission]),
        (format!("operation_id={id}"), vec![&*approval, &submission]),
        ("subject_id=CAROL".to_owned(), vec!["preview-1", "refusal-1", &approval, &submission]),
        ("subject_id=alice".to_owned(), vec![]),
        (format!("after_ms={}", shown["at_ms"]), vec!["preview-1"]),
        (format!("before_ms={}", shown["at_ms"]), vec![&*approval, &submission]),
        ("before_ms=0".to_owned(), vec![]),
    ] {
        assert_eq!(found(&world, &query).await, expected, "{query}");
    }
    assert_eq!(world.get(&format!("{DECISIONS}/{approval}")).await.ok()["moment"], "approval");
}

#[tokio::test]
async fn what_names_no_decision_is_an_error() {
    let world = World::start().await;
    for unknown in ["refusal-1", "preview-9", &format!("{}-1", "0".repeat(64))] {
        let message = world.get(&format!("{DECISIONS}/{unknown}")).await.fails(404, "not_found");
        assert!(message.contains(unknown), "{message}");
    }
    for wrong in ["1", "refusal-01", "refusal--1", "event-1"] {
        let message = world.get(&format!("{DECISIONS}/{wrong}")).await.fails(400, "invalid_request");
        assert!(message.contains("must be `refusal-N`"), "{message}");
    }
    for (query, expected) in [
        ("decision=maybe", "`decision` must be one of `ALLOW`, `DENY`"),
        ("operation_id=12", "`operation_id` must be 64 lowercase hexadecimal characters"),
        ("after_ms=yesterday", "`after_ms` must be a time"),
        ("bundle=x", "there is no parameter `bundle`"),
        ("cursor=1-2-3-0123456789abcdef", "`cursor` is of another list"),
        ("cursor=1-2", "`cursor` must be the `next_cursor`"),
    ] {
        let message = world.get(&format!("{DECISIONS}?{query}")).await.fails(400, "invalid_request");
        assert!(message.starts_with(expected), "{message}");
    }
}

#[tokio::test]
async fn decisions_of_other_tenants_are_not_found() {
    let deployment = Deployment::start(Mode::TrustedHeaders).await;
    let caller = |tenant| TestCaller {
        client: "desk",
        subject: "carol",
        roles: "approver operator",
        scopes: "operations.* audit.read",
        tenant: Some(tenant),
    };
    let client = |tenant| json!({ "client_id": "desk", "subject_id": "carol", "roles": [], "scopes": [], "tenant": tenant });
    let body = with(refused("no"), "/client", client("acme"));
    let denied = deployment.call_as(caller("acme"), "POST", SIGN, &body).await;
    let path = format!("{DECISIONS}/{}", denied.json["decision_id"].as_str().unwrap());
    assert_eq!(deployment.call_as(caller("acme"), "GET", &path, &Value::Null).await.ok()["tenant"], "acme");
    deployment.call_as(caller("other"), "GET", &path, &Value::Null).await.fails(404, "not_found");
    let of = async |tenant| {
        let listed = deployment.call_as(caller(tenant), "GET", DECISIONS, &Value::Null).await.ok();
        listed["decisions"].as_array().unwrap().len()
    };
    assert_eq!((of("acme").await, of("other").await), (1, 0));
}
