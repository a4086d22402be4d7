//! Responses: the errors that all routes of a kind share, grouped by status, and headers.

use super::walk::{each_operation, referenced_shape, scope};
use crate::error::Code;
use gateway_auth::Scope;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Completes the responses of every operation.
pub(super) fn complete(document: &mut Value) {
    if let Some(components) = document.get_mut("components").and_then(Value::as_object_mut) {
        components.insert("headers".to_owned(), headers());
    }
    let descriptions = descriptions(document);
    let examples = serde_json::from_str(EXAMPLES).unwrap_or_default();
    each_operation(document, |path, operation| {
        let errors = errors(path, operation);
        let takes_body = operation.contains_key("requestBody");
        let takes_token = errors.contains(&Code::PolicyAdmissionRateLimited);
        let Some(Value::Object(answers)) = operation.get_mut("responses") else { return };
        for (status, answer) in answers.iter_mut() {
            describe(answer, &descriptions);
            add_example(answer, &examples);
            add_headers(answer, status, headers_of_answer(takes_body), takes_token);
        }
        for (status, codes) in group_by_status(&errors) {
            let mut answer = error_response(&codes);
            if codes.contains(&Code::InvalidJson.as_str()) {
                add_example(&mut answer, &examples);
            }
            add_headers(&mut answer, &status, headers_of_error(&status), takes_token);
            answers.insert(status, answer);
        }
    });
}

/// The descriptions of all schemas, by their references.
fn descriptions(document: &Value) -> BTreeMap<String, Value> {
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
    let described = schemas.into_iter().flatten().filter_map(|(name, schema)| {
        Some((format!("#/components/schemas/{name}"), schema.get("description")?.clone()))
    });
    described.collect()
}

/// Describes an answer without a description as its schema is described.
fn describe(answer: &mut Value, descriptions: &BTreeMap<String, Value>) {
    let reference = answer.pointer("/content/application~1json/schema/$ref").and_then(Value::as_str);
    let description = reference.and_then(|reference| descriptions.get(reference)).cloned();
    let Some(answer) = answer.as_object_mut() else { return };
    if answer.get("description").and_then(Value::as_str).is_none_or(str::is_empty) {
        answer
            .insert("description".to_owned(), description.unwrap_or_else(|| json!("The request succeeded.")));
    }
}

/// An example answer for each shape. The answers to the examples of requests, with other ids, hashes, keys and times.
const EXAMPLES: &str = include_str!("answers.json");

fn add_example(answer: &mut Value, examples: &Value) {
    let Some(content) = answer.pointer_mut("/content/application~1json").and_then(Value::as_object_mut)
    else {
        return;
    };
    let example = content.get("schema").and_then(referenced_shape).and_then(|shape| examples.get(shape));
    if let Some(example) = example.cloned() {
        content.insert("example".to_owned(), example);
    }
}

fn add_headers(answer: &mut Value, status: &str, mut names: Vec<Header>, takes_token: bool) {
    if takes_token && matches!(status, "200" | "403" | "429") {
        names.extend(RATE_LIMIT);
    }
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("headers".to_owned(), references(names));
    }
}

/// The error codes of an operation: those in its `x-errors`, which is removed, and those that follow from its path, scope and
/// body.
fn errors(path: &str, operation: &mut Map<String, Value>) -> Vec<Code> {
    let own = operation.remove("x-errors").unwrap_or_else(|| json!([]));
    let mut codes: Vec<Code> = serde_json::from_value(own).unwrap_or_default();
    codes.extend([Code::InvalidRequest, Code::OriginNotPermitted]);
    let Some(scope) = scope(operation) else { return codes };
    codes.extend([
        Code::AuthenticationRequired,
        Code::AuthenticationUnavailable,
        Code::InvalidToken,
        if scope == Scope::AuditRead { Code::AuditReplayForbidden } else { Code::InsufficientScope },
        Code::InternalError,
        Code::StoreUnavailable,
    ]);
    if path.contains("{operationId}") {
        codes.extend([Code::InvalidOperationId, Code::OperationNotFound]);
    }
    if path.contains("{keyRef}") {
        codes.push(Code::CustodyKeyNotFound);
    }
    if operation.contains_key("requestBody") {
        let fault = if path.ends_with("/execute") { Code::InvalidExecuteRequest } else { Code::InvalidJson };
        codes.extend([fault, Code::ClientBindingMismatch, Code::PayloadTooLarge, Code::UnsupportedMediaType]);
        codes.push(Code::RequestTimeout);
    }
    codes
}

fn group_by_status(codes: &[Code]) -> BTreeMap<String, Vec<&'static str>> {
    let mut statuses = BTreeMap::<String, Vec<_>>::new();
    for code in codes {
        statuses.entry(code.status().as_str().to_owned()).or_default().push(code.as_str());
    }
    statuses
}

/// The response for errors with these codes, which `x-error-codes` lists for programs. All errors have one schema, so that
/// generated clients have one type for them.
fn error_response(codes: &[&str]) -> Value {
    let description = codes.iter().map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", ");
    let body = json!({ "$ref": "#/components/schemas/ErrorBody" });
    json!({
        "description": description,
        "content": { "application/json": { "schema": body } },
        "x-error-codes": codes,
    })
}

/// The components of all headers, by name.
fn headers() -> Value {
    let digits = json!({ "type": "string", "pattern": "^[0-9]+$" });
    json!({
        "RequestId": {
            "description": "The request's `x-request-id` if it is valid, else a new one",
            "required": true,
            "schema": { "type": "string", "pattern": "^[A-Za-z0-9_.:/+=-]{1,128}$" },
        },
        "CacheControl": {
            "description": "The response must not be cached", "required": true,
            "schema": { "type": "string", "enum": ["no-store"] },
        },
        "Warning": {
            "description": "299: a member was ignored, a signature profile was substituted, or the body differs from the first one with this idempotency key",
            "schema": { "type": "string", "pattern": "^299 - \"" },
        },
        "IdempotencyReplayed": {
            "description": "The answer shows an operation that an earlier request created",
            "schema": { "type": "string", "enum": ["true"] },
        },
        "Authenticate": {
            "description": "Challenge of RFC 6750", "required": true,
            "schema": { "type": "string", "pattern": "^Bearer " },
        },
        "RetryAfter": { "description": "Seconds to wait before the next attempt", "required": true, "schema": digits },
        "RateLimitLimit": {
            "description": "Tokens in a full quota; present when the request took a token, or found the quota used up", "schema": digits
        },
        "RateLimitRemaining": { "description": "Tokens left in the quota", "schema": digits },
        "RateLimitReset": {
            "description": "Seconds until the quota is full", "schema": digits
        },
    })
}

/// A header's name, and that of its component.
type Header = (&'static str, &'static str);

/// The headers of every answer.
const EVERY: [Header; 2] = [("x-request-id", "RequestId"), ("cache-control", "CacheControl")];

/// The headers of an answer that took a token from the client's quota.
const RATE_LIMIT: [Header; 3] = [
    ("ratelimit-limit", "RateLimitLimit"),
    ("ratelimit-remaining", "RateLimitRemaining"),
    ("ratelimit-reset", "RateLimitReset"),
];

fn headers_of_answer(takes_body: bool) -> Vec<Header> {
    let own = [("warning", "Warning"), ("idempotency-replayed", "IdempotencyReplayed")];
    EVERY.into_iter().chain(own.into_iter().filter(|_| takes_body)).collect()
}

fn headers_of_error(status: &str) -> Vec<Header> {
    let own: &[Header] = match status {
        "401" => &[("www-authenticate", "Authenticate")],
        "429" | "503" => &[("retry-after", "RetryAfter")],
        _ => &[],
    };
    EVERY.iter().chain(own).copied().collect()
}

fn references(names: Vec<Header>) -> Value {
    let reference = |component: &str| json!({ "$ref": format!("#/components/headers/{component}") });
    Value::Object(names.into_iter().map(|(name, it)| (name.to_owned(), reference(it))).collect())
}
