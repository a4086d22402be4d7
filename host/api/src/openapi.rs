//! The OpenAPI 3.1 document: generated from the handlers and shapes, and completed with what all of a kind have in common,
//! so that a handler lists only what is its own.

mod answers;
mod examples;
mod links;
mod requests;
mod signatures;

use crate::access::{Access, ROUTES};
use crate::error::{Code, ErrorBody};
use crate::routes::{custody_keys, custody_operations, evidence, health, log, operations, policy};
use crate::wire::custody_view::{CustodyKeyState, CustodyOperationType};
use crate::wire::policy::PolicyDecision;
use crate::wire::view::OperationState;
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "operation-gateway",
        version = "1.0",
        description = "Signing operations with approvals, policy and threshold keys."
    ),
    paths(
        operations::sign,
        operations::show,
        operations::approve,
        operations::execute,
        operations::publish,
        operations::node_recovery,
        evidence::operation_evidence,
        evidence::operation_audit_replay,
        custody_keys::create,
        custody_keys::show,
        custody_keys::operations,
        custody_keys::sign,
        custody_keys::refresh,
        custody_keys::reshare,
        custody_keys::rotate,
        custody_keys::recover,
        custody_operations::show,
        custody_operations::approve,
        custody_operations::execute,
        custody_operations::publish,
        custody_operations::node_recovery,
        custody_operations::external_export,
        evidence::custody_evidence,
        evidence::custody_audit_replay,
        log::checkpoint,
        log::key,
        log::consistency,
        log::inclusion,
        log::tlog_proof,
        policy::preview,
        policy::bundles,
        health::healthz,
        health::readyz,
        health::metrics,
        health::openapi_json,
    ),
    components(schemas(
        ErrorBody,
        Code,
        OperationState,
        PolicyDecision,
        CustodyKeyState,
        CustodyOperationType
    ))
)]
struct Document;

/// The document as JSON, for every mode in which callers are authenticated.
#[must_use]
pub fn document() -> Value {
    secured(&[])
}

/// The document as JSON, for the development bypass: credentials are an offer there.
#[must_use]
pub fn document_of_the_bypass() -> Value {
    secured(&[json!({})])
}

/// What each endpoint takes, from the table of scopes. `besides`: other ways in.
fn secured(besides: &[Value]) -> Value {
    let mut document = serde_json::to_value(Document::openapi()).unwrap_or_default();
    let schemes = json!({ "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the deployment's identity provider. Behind a trusted proxy, whatever the proxy takes."
    }});
    if let Some(components) = document.get_mut("components").and_then(Value::as_object_mut) {
        components.insert("securitySchemes".to_owned(), schemes);
    }
    for (method, path, access) in ROUTES {
        let methods = document.get_mut("paths").and_then(|paths| paths.get_mut(*path));
        let operation = methods.and_then(|methods| methods.get_mut(method.to_lowercase()));
        if let (Some(operation), Access::Scope(scope)) = (operation.and_then(Value::as_object_mut), access) {
            let needed = [json!({ "bearer": [scope.name()] })];
            operation.insert("security".to_owned(), [besides, &needed].concat().into());
        }
    }
    signatures::complete(&mut document);
    requests::complete(&mut document);
    answers::complete(&mut document);
    links::complete(&mut document);
    document
}

/// Every operation with its path.
fn each_operation(document: &mut Value, mut complete: impl FnMut(&str, &mut Map<String, Value>)) {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for (path, methods) in paths.into_iter().flatten() {
        let operations = methods.as_object_mut().into_iter().flatten();
        operations.filter_map(|(_, operation)| operation.as_object_mut()).for_each(|it| complete(path, it));
    }
}

/// The name that a `$ref` to a shape ends with.
fn shape_named(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/")
}
