//! Other tenants' operations and keys are invisible: a request that names one gets the answer of a gateway without that tenant's
//! data, byte for byte except the request id and the date.

use crate::harness::custody::{self, KEYS};
use crate::harness::modes::{Deployment, Mode, TestCaller};
use crate::harness::process::SIGN;
use crate::harness::samples::{approval, payment, publication, rejection, with};
use crate::harness::world::Answer;
use axum::http::HeaderMap;
use gateway_api::{Access, ROUTES};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Routes that name no operation or key: they describe the deployment or create something.
const NAMELESS: [(&str, &str); 20] = [
    ("POST", SIGN),
    ("POST", KEYS),
    ("GET", "/v1/log/checkpoint"),
    ("GET", "/v1/log/key"),
    ("GET", "/v1/log/consistency"),
    ("GET", "/v1/log/inclusion"),
    ("POST", "/v1/policy/preview"),
    ("GET", "/v1/policy/bundles"),
    // Tests of their own compare the lists and events of tenants: `routes::lists` and `routes::events`.
    ("GET", "/v1/operations"),
    ("GET", "/v1/custody/operations"),
    ("GET", "/v1/custody/keys"),
    ("GET", "/v1/events"),
    // So does one the decisions of tenants: `routes::decisions`.
    ("GET", "/v1/policy/decisions"),
    ("GET", "/v1/policy/decisions/{decisionId}"),
    // So does one the differences of a candidate: `routes::policy_shadow`.
    ("GET", "/v1/policy/shadow"),
    // So do they the webhooks of tenants: `routes::webhooks`.
    ("GET", "/v1/webhooks"),
    ("GET", "/v1/caller"),
    ("POST", "/v1/webhooks/{name}/resend"),
    ("POST", "/v1/webhooks/{name}/dismiss"),
    // Its query names an operation; see `proof_requests`.
    ("GET", "/v1/log/tlog-proof"),
];

fn caller_of(tenant: &'static str, subject: &'static str) -> TestCaller<'static> {
    let scopes = "operations.* custody.* audit.read";
    TestCaller { client: "desk", subject, roles: "approver operator", scopes, tenant: Some(tenant) }
}

/// The `client` member of a body.
fn client(tenant: &str, subject: &str) -> Value {
    json!({ "client_id": "desk", "subject_id": subject, "roles": [], "scopes": [], "tenant": tenant })
}

fn with_tenant(body: Value, tenant: &str) -> Value {
    with(body, "/client", client(tenant, "carol"))
}

/// The data of tenant `acme`: ids of operations in several states, and names of keys.
struct TenantData {
    payments: Vec<String>,
    custody_operations: Vec<String>,
    keys: Vec<&'static str>,
}

/// Takes the first `n_steps` steps with the submitted operation; returns its id.
async fn drive(deployment: &Deployment, family: &str, submission: Answer, n_steps: usize) -> String {
    let operation = submission.ok()["operation"].clone();
    let id = operation["operation_id"].as_str().unwrap().to_owned();
    let path = |action: &str| format!("/v1/{family}/{id}{action}");
    let steps = [
        ("alice", "/approve", approval("alice")),
        ("bob", "/approve", approval("bob")),
        ("carol", "/execute", Value::Null),
        ("carol", "/publish", publication()),
    ];
    for (subject, action, body) in steps.iter().take(n_steps) {
        deployment.call_as(caller_of("acme", subject), "POST", &path(action), body).await.ok();
    }
    id
}

async fn create_acme_data(deployment: &Deployment) -> TenantData {
    let carol = caller_of("acme", "carol");
    let mut data =
        TenantData { payments: Vec::new(), custody_operations: Vec::new(), keys: vec!["vault", "vault-2"] };
    for n_steps in 0..=4 {
        let body = with_tenant(payment(&format!("acme-{n_steps}")), "acme");
        let submitted = deployment.call_as(carol, "POST", SIGN, &body).await;
        data.payments.push(drive(deployment, "operations", submitted, n_steps).await);
    }
    for (key, n_steps) in [("vault", 3), ("vault-2", 0)] {
        let body = with(with_tenant(custody::key(key), "acme"), "/tenant_id", json!("acme"));
        let submitted = deployment.call_as(carol, "POST", KEYS, &body).await;
        data.custody_operations.push(drive(deployment, "custody/operations", submitted, n_steps).await);
    }
    for n_steps in [0, 3] {
        let body = with_tenant(custody::sign(&format!("acme-{n_steps}")), "acme");
        let submitted = deployment.call_as(carol, "POST", &custody::key_path("vault", "/sign"), &body).await;
        data.custody_operations.push(drive(deployment, "custody/operations", submitted, n_steps).await);
    }
    data
}

/// A body that is valid for the route.
fn valid_body(method: &str, route: &str) -> Value {
    let action = route.rsplit('/').next().unwrap();
    let body = match (method, action) {
        ("GET", _) | (_, "execute") => return Value::Null,
        (_, "approve") => return approval("eve"),
        (_, "publish") => return publication(),
        (_, "node-recovery") => return json!({ "effect_id": "e", "result_root": "0".repeat(64) }),
        (_, "contributions") => {
            let recovery = custody::recover("2");
            let members = ["recovery_case_ref", "recovering_participant", "helper_participants"];
            members.into_iter().map(|name| (name.to_owned(), recovery[name].clone())).collect()
        }
        (_, "cancel") => return json!({ "reason": "r" }),
        (_, "abort") => return custody::abort("eve", &[]),
        (_, "reject") => return rejection("eve"),
        (_, "external-export") => return custody::export(&json!("r"), "Submitted"),
        (_, "sign") => custody::sign("eve"),
        (_, "refresh") => custody::refresh("2"),
        (_, "reshare") => custody::reshare("2"),
        (_, "rotate") => custody::rotate("eve-2"),
        (_, "recover") => custody::recover("2"),
        _ => panic!("{method} {route} needs a body here"),
    };
    with(body, "/client", client("evil", "eve"))
}

/// Status, headers and body of the answer, without the request id, the length, which depends on the id, and the date.
fn comparable(answer: Answer) -> (u16, HeaderMap, String) {
    let body = answer.without_request_id();
    let mut headers = answer.headers;
    assert!(headers.remove("x-request-id").is_some());
    headers.remove("content-length");
    headers.remove("date");
    (answer.status.as_u16(), headers, body)
}

/// Requests to all routes that name an operation or a key in their path, for each of acme's that fits.
fn requests(acme: &TenantData) -> Vec<(&'static str, String, Value)> {
    let mut requests = Vec::new();
    for (method, route, access) in ROUTES.iter() {
        if *access == Access::Open || NAMELESS.contains(&(*method, *route)) {
            continue;
        }
        let body = valid_body(method, route);
        let names: Vec<(&str, &str)> = match (route.contains("{operationId}"), route.contains("{keyRef}")) {
            // Every operation under the paths of both families.
            (true, false) => acme
                .payments
                .iter()
                .chain(&acme.custody_operations)
                .map(|id| ("{operationId}", id.as_str()))
                .collect(),
            (false, true) => acme.keys.iter().map(|key| ("{keyRef}", *key)).collect(),
            _ => panic!("{method} {route} has no name and is not in NAMELESS"),
        };
        for (parameter, name) in names {
            let path = route.replace(parameter, name);
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

/// Requests for log proofs of acme's operations.
fn proof_requests(acme: &TenantData) -> Vec<(&'static str, String, Value)> {
    let ids = acme.payments.iter().chain(&acme.custody_operations);
    ids.flat_map(|id| [1, 2, 99].map(|seq| format!("/v1/log/tlog-proof?operation_id={id}&seq={seq}")))
        .map(|path| ("GET", path, Value::Null))
        .collect()
}

#[tokio::test]
async fn every_route_with_a_name_hides_other_tenants() {
    for mode in [Mode::TrustedHeaders, Mode::Jwks] {
        let (with_acme, empty) = (Deployment::start(mode).await, Deployment::start(mode).await);
        let acme = create_acme_data(&with_acme).await;
        let requests = [requests(&acme), proof_requests(&acme)].concat();
        assert!(requests.len() > 150);
        let mut codes = BTreeSet::new();
        for (method, path, body) in requests {
            let eve = caller_of("evil", "eve");
            let answer = comparable(with_acme.call_as(eve, method, &path, &body).await);
            let expected = comparable(empty.call_as(eve, method, &path, &body).await);
            assert_eq!(answer, expected, "{method} {path}");
            assert_eq!(answer.0, 404, "{method} {path}: {}", answer.2);
            codes.insert(serde_json::from_str::<Value>(&answer.2).unwrap()["error"].to_string());
        }
        assert_eq!(codes.len(), 2, "{codes:?}");
        // None of the requests changed anything.
        for id in &acme.payments {
            let now = with_acme
                .call_as(caller_of("acme", "carol"), "GET", &format!("/v1/operations/{id}"), &Value::Null)
                .await;
            assert!(!now.ok()["approvals"]["subjects"].to_string().contains("eve"));
        }
    }
}

/// A tenant can use a name that another tenant uses: it creates the caller's own resource, and is not taken as a replay.
#[tokio::test]
async fn names_that_another_tenant_uses_are_available() {
    let (with_acme, empty) = (Deployment::start(Mode::Jwks).await, Deployment::start(Mode::Jwks).await);
    create_acme_data(&with_acme).await;
    let eve = caller_of("evil", "eve");
    let own = |body: Value| with(body, "/client", client("evil", "eve"));
    let key = with(own(custody::key("vault")), "/tenant_id", json!("evil"));
    let creations = [
        (SIGN, own(payment("acme-0"))),
        (SIGN, own(payment("acme-4"))),
        (SIGN, own(with(payment("eves"), "/key_ref", json!("vault-2")))),
        (KEYS, key),
        ("/v1/custody/keys/vault/sign", own(custody::sign("acme-3"))),
    ];
    for (path, body) in creations {
        // The new operation, without values that are random or depend on the time.
        let created = |answer: Answer| {
            assert_eq!(answer.header("idempotency-replayed"), "", "{path}");
            assert_eq!(answer.header("warning"), "", "{path}");
            let mut operation = answer.ok()["operation"].clone();
            // The intent names the public key.
            for random in ["runtime", "result", "links", "approval_statement"] {
                operation.as_object_mut().unwrap().remove(random);
            }
            for random in ["public_key_artifact_ref", "intent_hash"] {
                operation["intent"].as_object_mut().unwrap().remove(random);
            }
            for time in ["created_at_ms", "updated_at_ms", "expires_at_ms"] {
                operation.as_object_mut().unwrap().remove(time);
            }
            operation
        };
        let answer = created(with_acme.call_as(eve, "POST", path, &body).await);
        let expected = created(empty.call_as(eve, "POST", path, &body).await);
        assert_eq!(answer, expected, "{path}");
    }
    // A key's list has only the operations of the caller's tenant, also for a cursor of the other tenant.
    for query in ["", "?cursor=1000000"] {
        let path = format!("/v1/custody/keys/vault/operations{query}");
        let listed = |answer: Answer| {
            let operations = answer.ok()["operations"].as_array().unwrap().clone();
            operations.iter().map(|operation| operation["operation_id"].clone()).collect::<Vec<_>>()
        };
        let answer = listed(with_acme.call_as(eve, "GET", &path, &Value::Null).await);
        assert_eq!(answer, listed(empty.call_as(eve, "GET", &path, &Value::Null).await));
        assert_eq!(answer.len(), 2);
    }
    // A preview that names another tenant's key gets the answer of a key that does not exist.
    let preview = json!({ "intent": own(with(payment("p"), "/key_ref", json!("vault"))) });
    let answer = with_acme.call_as(eve, "POST", "/v1/policy/preview", &preview).await.ok();
    let expected = empty.call_as(eve, "POST", "/v1/policy/preview", &preview).await.ok();
    assert_eq!(answer["decision"], expected["decision"]);
    // A caller can neither create a key for another tenant nor submit a payment in its name.
    let foreign = with(own(custody::key("new")), "/tenant_id", json!("acme"));
    with_acme.call_as(eve, "POST", KEYS, &foreign).await.fails(403, "client_binding_mismatch");
    let impersonated = with(payment("impersonated"), "/client", client("acme", "eve"));
    with_acme.call_as(eve, "POST", SIGN, &impersonated).await.fails(403, "client_binding_mismatch");
}
