//! The OpenAPI 3.1 document: generated from the handlers and shapes, and completed with what all of a kind have in common,
//! so that a handler lists only what is its own.

mod answers;
mod examples;
mod links;
mod requests;

use crate::error::{Code, ErrorBody};
use crate::routes::{custody_keys, custody_operations, evidence, health, log, operations, policy};
use crate::wire::custody_view::{CustodyKeyState, CustodyOperationType};
use crate::wire::policy::PolicyDecision;
use crate::wire::view::OperationState;
use serde_json::{Map, Value};
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

/// The document as JSON.
#[must_use]
pub fn document() -> Value {
    let mut document = serde_json::to_value(Document::openapi()).unwrap_or_default();
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
