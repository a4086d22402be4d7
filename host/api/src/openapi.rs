//! The OpenAPI 3.1 document, generated from the handlers and shapes.

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

/// The document as JSON.
#[must_use]
pub fn document() -> Value {
    let mut document = serde_json::to_value(Document::openapi()).unwrap_or_default();
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    for operation in paths.filter_map(|(_, methods)| methods.get_mut("post")) {
        if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
            of_every_body(responses);
            of_every_submission(responses);
        }
    }
    document
}

/// Whatever takes a body may wait for it in vain.
fn of_every_body(responses: &mut Map<String, Value>) {
    if let Some(too_large) = responses.get("413") {
        let mut too_slow = too_large.clone();
        if let Some(description) = too_slow.get_mut("description") {
            *description = Value::from("`request_timeout`");
        }
        responses.insert("408".to_owned(), too_slow);
    }
}

/// Whatever is charged to a client's budget says what is left of it.
fn of_every_submission(responses: &mut Map<String, Value>) {
    if !responses.contains_key("429") {
        return;
    }
    let header = |text: &str| json!({ "description": text, "schema": { "type": "integer", "minimum": 0 } });
    let headers = json!({
        "RateLimit-Limit": header("Submissions of this client at once; not on a replay"),
        "RateLimit-Remaining": header("How many of them are left"),
        "RateLimit-Reset": header("Seconds until all of them are there again"),
    });
    for status in ["200", "429"] {
        if let Some(response) = responses.get_mut(status).and_then(Value::as_object_mut) {
            response.insert("headers".to_owned(), headers.clone());
        }
    }
}
