//! Every route in every mode: without credentials, with invalid ones, and with each scope.

use crate::harness::modes::{Credentials, Deployment, MODES, Mode, TestCaller, test_caller};
use gateway_api::{Access, ROUTES, openapi};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// All scopes, and names that resemble a scope.
const SCOPES: [&str; 31] = [
    "operations.sign",
    "operations.read",
    "operations.approve",
    "operations.execute",
    "operations.publish",
    "operations.recover",
    "operations.*",
    "custody.read",
    "custody.sign",
    "custody.manage",
    "custody.approve",
    "custody.execute",
    "custody.publish",
    "custody.recover",
    "custody.export",
    "custody.*",
    "webhooks.manage",
    "webhooks.*",
    "audit.read",
    "audit.*",
    "*",
    "operations",
    "operations*",
    "OPERATIONS.SIGN",
    "operations.none",
    "operations.",
    "custody",
    "custody.none",
    "read",
    "openid",
    "",
];

/// A path of this route with ids and names that do not exist.
fn example_path(route: &str) -> String {
    route.replace("{operationId}", &"0".repeat(64)).replace("{keyRef}", "k")
}

/// Whether the answer says that the credentials or their scopes are insufficient.
fn is_refused(status: u16, code: &str) -> bool {
    status == 401 || ["insufficient_scope", "audit_replay_forbidden"].contains(&code)
}

/// Status, error code and `WWW-Authenticate` of the answer to a request without a body.
async fn answer(
    deployment: &Deployment,
    with: &Credentials,
    method: &str,
    route: &str,
) -> (u16, String, String) {
    let answer = deployment.call(with, method, &example_path(route), &Value::Null).await;
    let code = answer.json["error"].as_str().unwrap_or_default().to_owned();
    (answer.status.as_u16(), code, answer.header("www-authenticate").to_owned())
}

async fn assert_access_without_credentials(deployment: &Deployment) {
    for (method, route, access) in ROUTES.iter() {
        for none in deployment.no_credentials() {
            let (status, code, challenge) = answer(deployment, &none, method, route).await;
            match (access, deployment.mode) {
                (Access::Open, _) | (_, Mode::Bypass) => {
                    assert!(!is_refused(status, &code), "{method} {route}")
                }
                (Access::Scope(_), _) => {
                    assert_eq!((status, code.as_str()), (401, "authentication_required"), "{method} {route}");
                    assert_eq!(challenge, "Bearer realm=\"operation-gateway\"");
                }
            }
        }
    }
}

async fn assert_access_with_invalid_credentials(deployment: &Deployment) {
    for invalid in deployment.invalid() {
        for (method, route, access) in ROUTES.iter() {
            let (status, code, challenge) = answer(deployment, &invalid, method, route).await;
            if *access == Access::Open {
                assert!(!is_refused(status, &code), "{method} {route}");
                continue;
            }
            assert_eq!(status, 401, "{:?} {method} {route} {invalid:?}", deployment.mode);
            let is_token = invalid.headers.iter().any(|(_, value)| value.starts_with(b"Bearer"));
            let takes_tokens = [Mode::Jwks, Mode::Introspection].contains(&deployment.mode);
            let expected = if is_token && takes_tokens { "invalid_token" } else { "authentication_required" };
            assert_eq!(code, expected, "{method} {route} {invalid:?}");
            assert_eq!(
                challenge.contains("error=\"invalid_token\""),
                expected == "invalid_token",
                "{challenge}"
            );
        }
    }
}

async fn assert_access_with_each_scope(deployment: &Deployment) {
    for scope in SCOPES {
        let with = deployment.credentials(test_caller("alice", scope));
        for (method, route, access) in ROUTES.iter() {
            let (status, code, challenge) = answer(deployment, &with, method, route).await;
            let mode = deployment.mode;
            match access {
                Access::Scope(needed) if !needed.is_satisfied_by(&[scope.to_owned()]) => {
                    let is_audit = needed.name() == "audit.read";
                    let expected = if is_audit { "audit_replay_forbidden" } else { "insufficient_scope" };
                    assert_eq!(
                        (status, code.as_str()),
                        (403, expected),
                        "{mode:?} {method} {route} with `{scope}`"
                    );
                    let expected = format!("error=\"insufficient_scope\", scope=\"{}\"", needed.name());
                    assert!(challenge.contains(&expected), "{challenge}");
                }
                Access::Scope(_) | Access::Open => {
                    assert!(
                        !is_refused(status, &code),
                        "{mode:?} {method} {route} with `{scope}`: {status} {code}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn every_route_requires_its_scope_in_every_mode() {
    for mode in MODES {
        let deployment = Deployment::start(mode).await;
        assert_access_without_credentials(&deployment).await;
        assert_access_with_invalid_credentials(&deployment).await;
        assert_access_with_each_scope(&deployment).await;
    }
}

/// Reads the router's source: only `routes!` may register handlers, since it also documents them.
#[test]
fn router_registers_documented_routes_only() {
    let source =
        concat!(include_str!("../../host/api/src/lib.rs"), include_str!("../../host/api/src/routes.rs"));
    // Both families of operations have the routes of one macro.
    let operations = include_str!("../../host/api/src/routes/operations.rs");
    for undocumented in [".route(", "route_service(", ".nest", "routing::", "OpenApiRouter::from"] {
        assert!(!source.contains(undocumented) && !operations.contains(undocumented), "{undocumented}");
    }
    let table: BTreeSet<_> = ROUTES.iter().map(|(method, path, _)| (*method, *path)).collect();
    assert_eq!(table.len(), ROUTES.len(), "duplicate route in the table");
    // `/healthz` is served on both addresses.
    let n_routes = source.matches("routes!(").count() + 2 * operations.matches(" routes!(").count();
    assert_eq!(n_routes, ROUTES.len() + 1);
}

#[test]
fn openapi_document_lists_the_scopes_of_the_table() {
    let (document, bypass) = (openapi::document(), openapi::bypass_document());
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    for (method, path, access) in ROUTES.iter() {
        let operation = |document: &Value| document["paths"][*path][method.to_lowercase()].clone();
        match access {
            Access::Open => assert_eq!(operation(&document)["security"], json!([]), "{path}"),
            Access::Scope(scope) => {
                // No scope, only credentials.
                let names: Vec<_> = Some(scope.name()).into_iter().filter(|name| !name.is_empty()).collect();
                let needed = json!({ "bearer": names });
                assert_eq!(operation(&document)["security"], json!([needed]), "{path}");
                assert_eq!(operation(&bypass)["security"], json!([{}, needed]), "{path}");
                let responses = &operation(&document)["responses"];
                assert!(responses["401"].is_object() && responses["403"].is_object(), "{path}");
                let unavailable = responses["503"]["description"].as_str().unwrap();
                assert!(unavailable.contains("`authentication_unavailable`"), "{path}");
            }
        }
    }
}

/// A payment from submission to publication in every mode; each caller has the scope `operations.sign` alone.
#[tokio::test]
async fn payment_is_published_in_every_mode() {
    use crate::harness::samples::{approval, path, payment, publication};
    for mode in MODES {
        let deployment = Deployment::start(mode).await;
        let carol = TestCaller { client: "treasury-desk", ..test_caller("carol", "operations.sign") };
        let submitted = deployment.call_as(carol, "POST", "/v1/operations/sign", &payment("life")).await.ok();
        let operation = &submitted["operation"];
        for subject in ["alice", "bob"] {
            let approver = test_caller(subject, "operations.sign");
            deployment.call_as(approver, "POST", &path(operation, "/approve"), &approval(subject)).await.ok();
        }
        deployment.call_as(carol, "POST", &path(operation, "/execute"), &Value::Null).await.ok();
        let publish =
            deployment.call_as(carol, "POST", &path(operation, "/publish"), &publication()).await.ok();
        assert_eq!(publish["state"], "published", "{mode:?}");
    }
}
