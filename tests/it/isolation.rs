//! Another tenant's operations and keys are invisible: every answer is, byte for byte, the answer of a gateway without that
//! tenant's data.

use crate::harness::custody;
use crate::harness::modes::{Deployment, Mode, TestCaller};
use crate::harness::samples::{approval, payment, publication, with};
use crate::harness::world::Answer;
use axum::http::HeaderMap;
use gateway_api::{Access, ROUTES};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Routes that name no operation or key: they describe the deployment or create something.
const NAMELESS: [(&str, &str); 9] = [
    ("POST", "/v1/operations/sign"),
    ("POST", "/v1/custody/keys"),
    ("GET", "/v1/log/checkpoint"),
    ("GET", "/v1/log/key"),
    ("GET", "/v1/log/consistency"),
    ("GET", "/v1/log/inclusion"),
    ("POST", "/v1/policy/preview"),
    ("GET", "/v1/policy/bundles"),
    // The name is in the query; see `proofs`.
    ("GET", "/v1/log/tlog-proof"),
];

fn of(tenant: &'static str, subject: &'static str) -> TestCaller<'static> {
    let scopes = "operations.* custody.* audit.read";
    TestCaller { client: "desk", subject, roles: "approver operator", scopes, tenant: Some(tenant) }
}

fn client(tenant: &str, subject: &str) -> Value {
    json!({ "client_id": "desk", "subject_id": subject, "roles": [], "scopes": [], "tenant": tenant })
}

fn with_tenant(body: Value, tenant: &str) -> Value {
    with(body, "/client", client(tenant, "carol"))
}

/// The other tenant's data: operations of both families in every state, and keys.
struct TenantData {
    products: Vec<String>,
    custodies: Vec<String>,
    keys: Vec<&'static str>,
}

async fn drive(deployment: &Deployment, family: &str, submission: Answer, until: usize) -> String {
    let operation = submission.ok()["operation"].clone();
    let id = operation["operation_id"].as_str().unwrap().to_owned();
    let path = |action: &str| format!("/v1/{family}/{id}{action}");
    let steps = [
        ("alice", "/approve", approval("alice")),
        ("bob", "/approve", approval("bob")),
        ("carol", "/execute", Value::Null),
        ("carol", "/publish", publication()),
    ];
    for (subject, action, body) in steps.iter().take(until) {
        deployment.call_as(of("acme", subject), "POST", &path(action), body).await.ok();
    }
    id
}

async fn create_acme_data(deployment: &Deployment) -> TenantData {
    let carol = of("acme", "carol");
    let mut belongings =
        TenantData { products: Vec::new(), custodies: Vec::new(), keys: vec!["vault", "vault-2"] };
    for until in 0..=4 {
        let body = with_tenant(payment(&format!("acme-{until}")), "acme");
        let submitted = deployment.call_as(carol, "POST", "/v1/operations/sign", &body).await;
        belongings.products.push(drive(deployment, "operations", submitted, until).await);
    }
    for (key, until) in [("vault", 3), ("vault-2", 0)] {
        let body = with(with_tenant(custody::key(key), "acme"), "/tenant_id", json!("acme"));
        let submitted = deployment.call_as(carol, "POST", "/v1/custody/keys", &body).await;
        belongings.custodies.push(drive(deployment, "custody/operations", submitted, until).await);
    }
    for until in [0, 3] {
        let body = with_tenant(custody::sign(&format!("acme-{until}")), "acme");
        let submitted = deployment.call_as(carol, "POST", &custody::on_key("vault", "/sign"), &body).await;
        belongings.custodies.push(drive(deployment, "custody/operations", submitted, until).await);
    }
    belongings
}

/// A body that would succeed if the resource existed.
fn body(method: &str, route: &str) -> Value {
    let action = route.rsplit('/').next().unwrap();
    let sound = match (method, action) {
        ("GET", _) | (_, "execute") => return Value::Null,
        (_, "approve") => return approval("eve"),
        (_, "publish") => return publication(),
        (_, "node-recovery") => return json!({ "effect_id": "e", "result_root": "0".repeat(64) }),
        (_, "external-export") => return custody::export(&json!("r"), "Submitted"),
        (_, "sign") => custody::sign("eve"),
        (_, "refresh") => custody::refresh("2"),
        (_, "reshare") => custody::reshare("2"),
        (_, "rotate") => custody::rotate("eve-2"),
        (_, "recover") => custody::recover("2"),
        _ => panic!("{method} {route} needs a body here"),
    };
    with(sound, "/client", client("evil", "eve"))
}

/// The answer without the request's own name and time.
fn comparable(answer: Answer) -> (u16, HeaderMap, String) {
    let mut headers = answer.headers;
    assert!(headers.remove("x-request-id").is_some());
    headers.remove("date");
    (answer.status.as_u16(), headers, String::from_utf8(answer.bytes).unwrap())
}

/// Every request of tenant globex that names something of tenant acme.
fn requests(acme: &TenantData) -> Vec<(&'static str, String, Value)> {
    let mut requests = Vec::new();
    for (method, route, access) in ROUTES.iter() {
        if *access == Access::Open || NAMELESS.contains(&(*method, *route)) {
            continue;
        }
        let body = body(method, route);
        let names: Vec<(&str, &str)> = match (route.contains("{operationId}"), route.contains("{keyRef}")) {
            // Each under the paths of both families.
            (true, false) => {
                acme.products.iter().chain(&acme.custodies).map(|id| ("{operationId}", id.as_str())).collect()
            }
            (false, true) => acme.keys.iter().map(|key| ("{keyRef}", *key)).collect(),
            _ => panic!("{method} {route} has no name and is not in NAMELESS"),
        };
        for (place, name) in names {
            let path = route.replace(place, name);
            let queries: &[&str] = match path.rsplit('/').next().unwrap() {
                "operations" => &["", "?limit=1", "?cursor=1", "?cursor=1000000&limit=200"],
                "evidence" | "audit-replay" => &["", "?after_seq=0", "?after_seq=1"],
                _ => &[""],
            };
            requests.extend(queries.iter().map(|query| (*method, format!("{path}{query}"), body.clone())));
        }
    }
    requests
}

fn proofs(acme: &TenantData) -> Vec<(&'static str, String, Value)> {
    let ids = acme.products.iter().chain(&acme.custodies);
    ids.flat_map(|id| [1, 2, 99].map(|seq| format!("/v1/log/tlog-proof?operation_id={id}&seq={seq}")))
        .map(|path| ("GET", path, Value::Null))
        .collect()
}

#[tokio::test]
async fn every_route_with_a_name_hides_other_tenants() {
    for mode in [Mode::TrustedHeaders, Mode::Jwks] {
        let (theirs, empty) = (Deployment::start(mode).await, Deployment::start(mode).await);
        let acme = create_acme_data(&theirs).await;
        let requests = [requests(&acme), proofs(&acme)].concat();
        assert!(requests.len() > 150);
        let mut refusals = BTreeSet::new();
        for (method, path, body) in requests {
            let eve = of("evil", "eve");
            let there = comparable(theirs.call_as(eve, method, &path, &body).await);
            let never = comparable(empty.call_as(eve, method, &path, &body).await);
            assert_eq!(there, never, "{method} {path}");
            assert_eq!(there.0, 404, "{method} {path}: {}", there.2);
            refusals.insert(serde_json::from_str::<Value>(&there.2).unwrap()["error"].to_string());
        }
        assert_eq!(refusals.len(), 2, "{refusals:?}");
        // None of the requests changed anything.
        for id in &acme.products {
            let now = theirs
                .call_as(of("acme", "carol"), "GET", &format!("/v1/operations/{id}"), &Value::Null)
                .await;
            assert!(!now.ok()["approvals"]["subjects"].to_string().contains("eve"));
        }
    }
}

/// A name that another tenant uses is free: it creates the caller's own resource, and is no replay.
#[tokio::test]
async fn names_used_by_another_tenant_are_free() {
    let (theirs, empty) = (Deployment::start(Mode::Jwks).await, Deployment::start(Mode::Jwks).await);
    create_acme_data(&theirs).await;
    let eve = of("evil", "eve");
    let own = |body: Value| with(body, "/client", client("evil", "eve"));
    let key = with(own(custody::key("vault")), "/tenant_id", json!("evil"));
    let creations = [
        ("/v1/operations/sign", own(payment("acme-0"))),
        ("/v1/operations/sign", own(payment("acme-4"))),
        ("/v1/operations/sign", own(with(payment("eves"), "/key_ref", json!("vault-2")))),
        ("/v1/custody/keys", key),
        ("/v1/custody/keys/vault/sign", own(custody::sign("acme-3"))),
    ];
    for (path, body) in creations {
        // Random and time-dependent values may differ; nothing else may.
        let made = |answer: Answer| {
            assert_eq!(answer.header("idempotency-replayed"), "", "{path}");
            assert_eq!(answer.header("warning"), "", "{path}");
            let mut operation = answer.ok()["operation"].clone();
            for chance in ["runtime", "result", "links"] {
                operation.as_object_mut().unwrap().remove(chance);
            }
            // One family has it inside its intent, the other beside it.
            for clock in ["created_at_ms", "updated_at_ms"] {
                operation["intent"].as_object_mut().unwrap().remove(clock);
                operation.as_object_mut().unwrap().remove(clock);
            }
            operation
        };
        let there = made(theirs.call_as(eve, "POST", path, &body).await);
        let never = made(empty.call_as(eve, "POST", path, &body).await);
        assert_eq!(there, never, "{path}");
    }
    // A tenant's list has its own operations, whatever the cursor.
    for query in ["", "?cursor=1000000"] {
        let path = format!("/v1/custody/keys/vault/operations{query}");
        let listed = |answer: Answer| {
            let operations = answer.ok()["operations"].as_array().unwrap().clone();
            operations.iter().map(|operation| operation["operation_id"].clone()).collect::<Vec<_>>()
        };
        let there = listed(theirs.call_as(eve, "GET", &path, &Value::Null).await);
        assert_eq!(there, listed(empty.call_as(eve, "GET", &path, &Value::Null).await));
        assert_eq!(there.len(), 2);
    }
    // A preview that names another tenant's key gets the answer of a key that does not exist.
    let preview = json!({ "intent": own(with(payment("p"), "/key_ref", json!("vault"))) });
    let there = theirs.call_as(eve, "POST", "/v1/policy/preview", &preview).await.ok();
    let never = empty.call_as(eve, "POST", "/v1/policy/preview", &preview).await.ok();
    assert_eq!(there["decision"], never["decision"]);
    // Another tenant's key is not created, whichever caller asks for it.
    let foreign = with(own(custody::key("new")), "/tenant_id", json!("acme"));
    theirs.call_as(eve, "POST", "/v1/custody/keys", &foreign).await.fails(403, "client_binding_mismatch");
    let posing = with(payment("posing"), "/client", client("acme", "eve"));
    theirs.call_as(eve, "POST", "/v1/operations/sign", &posing).await.fails(403, "client_binding_mismatch");
}
