//! The OpenAPI 3.1 document. utoipa derives it from the handlers and shapes; this module adds the parameters, headers and
//! errors that follow from a route's path, scope and body, so that handlers need not repeat them.

mod answers;
pub(crate) mod examples;
mod links;
pub(crate) mod page;
mod requests;
mod schemas;
mod walk;

use crate::error::{Code, ErrorBody};
use crate::routes::{self, Access};
use crate::wire::view::Awaiting;
use gateway_auth::Scope;
use gateway_domain::intent::OperationType;
use gateway_domain::key::KeyState;
use gateway_domain::operation::State;
use gateway_domain::policy::Decision;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use walk::{each_operation, scope};

/// The parts of the document that belong to no handler.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "operation-gateway",
        version = "1.0",
        description = include_str!("openapi/introduction.md"),
        contact(name = "The operator of this gateway"),
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "..", description = "This gateway")),
    tags(
        (name = "operations", description = "Payments"),
        (name = "custody", description = "Keys: their creation, changes and signatures"),
        (name = "policy", description = "The policy that decides on operations"),
        (name = "webhooks", description = "Events that the gateway sends, for operators"),
        (name = "log", description = "The log of all events, for auditors and monitors"),
        (name = "health", description = "Probes, metrics and this document; no credentials needed"),
    ),
    components(schemas(ErrorBody, Code, State, Awaiting, Decision, KeyState, OperationType))
)]
struct Document;

/// The document that utoipa derives from the handlers.
static DERIVED: LazyLock<utoipa::openapi::OpenApi> = LazyLock::new(|| {
    let routes = OpenApiRouter::with_openapi(Document::openapi());
    routes.merge(routes::api()).merge(routes::probes()).into_openapi()
});

/// Every route: method, path, access.
pub static ROUTES: LazyLock<Vec<(&str, &str, Access)>> = LazyLock::new(|| {
    let of_path = |(path, item)| {
        let route = move |(method, operation)| (method, String::as_str(path), routes::access(operation));
        routes::operations(item).map(route)
    };
    DERIVED.paths.paths.iter().flat_map(of_path).collect()
});

/// The document as text.
pub(crate) fn text(is_bypass: bool) -> &'static str {
    static AUTHENTICATED: LazyLock<String> = LazyLock::new(|| document().to_string());
    static BYPASS: LazyLock<String> = LazyLock::new(|| bypass_document().to_string());
    if is_bypass { &BYPASS } else { &AUTHENTICATED }
}

/// The document as JSON, for the modes in which callers are authenticated.
#[must_use]
pub fn document() -> Value {
    complete(&[])
}

/// The document as JSON, for the development bypass, where credentials are optional.
#[must_use]
pub fn bypass_document() -> Value {
    complete(&[json!({})])
}

/// `alternatives`: security requirements that are sufficient in place of the scope.
fn complete(alternatives: &[Value]) -> Value {
    let mut document = serde_json::to_value(&*DERIVED).unwrap_or_default();
    let schemes = json!({ "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the deployment's identity provider. Behind a trusted proxy, the credentials that the proxy accepts."
    }});
    if let Some(components) = document.get_mut("components").and_then(Value::as_object_mut) {
        components.insert("securitySchemes".to_owned(), schemes);
    }
    schemas::complete(&mut document);
    let requests = requests::complete(&mut document);
    schemas::complete_nullable(&mut document, &requests);
    answers::complete(&mut document);
    links::complete(&mut document);
    each_operation(&mut document, |_, operation| name_scope(operation, alternatives));
    document
}

/// Replaces the variant of [`Scope`] in `security` by the scope's name, adds the alternatives, and names the scope in the
/// description.
fn name_scope(operation: &mut Map<String, Value>, alternatives: &[Value]) {
    let (security, needs) = match scope(operation) {
        None => (Vec::new(), "Needs no credentials.".to_owned()),
        Some(Scope::Authenticated) => (
            [alternatives, &[json!({ "bearer": [] })]].concat(),
            "Needs credentials, and no scope.".to_owned(),
        ),
        Some(scope) => {
            let needed = [json!({ "bearer": [scope.name()] })];
            ([alternatives, &needed].concat(), format!("Needs the scope `{}`.", scope.name()))
        }
    };
    operation.insert("security".to_owned(), security.into());
    let description = match operation.get("description").and_then(Value::as_str) {
        Some(description) => format!("{description}\n\n{needs}"),
        None => needs,
    };
    operation.insert("description".to_owned(), description.into());
}
