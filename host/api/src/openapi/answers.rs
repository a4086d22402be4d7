//! Answers: the errors that all operations of a kind share, which codes each status has where, and headers.

use super::each_operation;
use crate::error::Code;
use serde_json::{Map, Value, json};

/// Completes the answers of every operation.
pub(super) fn complete(document: &mut Value) {
    if let Some(components) = document.get_mut("components").and_then(Value::as_object_mut) {
        components.insert("headers".to_owned(), headers());
    }
    if let Some(Value::Object(body)) = document.pointer_mut("/components/schemas/ErrorBody") {
        body.insert("additionalProperties".to_owned(), json!(false));
    }
    each_operation(document, |path, operation| {
        let shared = shared(path, operation);
        let takes_body = operation.contains_key("requestBody");
        let Some(Value::Object(answers)) = operation.get_mut("responses") else { return };
        shared.into_iter().for_each(|code| list(answers, code));
        let is_charged = answers.contains_key("429");
        for (status, answer) in answers.iter_mut() {
            let Some(answer) = answer.as_object_mut() else { continue };
            let is_error = say_codes(status, answer);
            let mut names = if is_error { headers_of_error(status) } else { headers_of_answer(takes_body) };
            if is_charged && matches!(status.as_str(), "200" | "403" | "429") {
                names.extend(BUDGET);
            }
            answer.insert("headers".to_owned(), references(names));
        }
    });
}

/// Codes that an operation can answer with because of what it takes, whatever it does.
fn shared(path: &str, operation: &Map<String, Value>) -> Vec<Code> {
    if operation.get("tags") == Some(&json!(["health"])) {
        return vec![Code::InvalidRequest, Code::OriginNotPermitted];
    }
    let is_audit = path.ends_with("/audit-replay") || path.starts_with("/v1/log/");
    let mut codes = vec![
        Code::InvalidRequest,
        Code::OriginNotPermitted,
        Code::AuthenticationRequired,
        Code::AuthenticationUnavailable,
        Code::InvalidToken,
        if is_audit { Code::AuditReplayForbidden } else { Code::InsufficientScope },
        Code::InternalError,
        Code::StoreUnavailable,
    ];
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

/// Lists a code in the description of its status, unless the handler has it there.
fn list(answers: &mut Map<String, Value>, code: Code) {
    let status = code.status().as_u16().to_string();
    let answer = answers.entry(status).or_insert_with(|| json!({}));
    let listed = answer.get("description").and_then(Value::as_str).unwrap_or_default();
    let word = format!("`{}`", code.as_str());
    if listed.contains(&word) {
        return;
    }
    let text = if listed.is_empty() { word } else { format!("{listed}, {word}") };
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("description".to_owned(), json!(text));
    }
}

/// An error's body has one of the codes that its description lists. An answer with a body of its own, as that of `/readyz`,
/// keeps it and is none. Whether it is an error.
fn say_codes(status: &str, answer: &mut Map<String, Value>) -> bool {
    if !status.starts_with(['4', '5']) || answer.contains_key("content") {
        return false;
    }
    let description = answer.get("description").and_then(Value::as_str).unwrap_or_default();
    let codes: Vec<_> = description.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let body = json!({ "allOf": [
        { "$ref": "#/components/schemas/ErrorBody" },
        { "properties": { "error": { "enum": codes } } },
    ] });
    answer.insert("content".to_owned(), json!({ "application/json": { "schema": body } }));
    true
}

/// Every header that answers have, by name.
fn headers() -> Value {
    let digits = json!({ "type": "string", "pattern": "^[0-9]+$" });
    json!({
        "RequestId": {
            "description": "The request's own `x-request-id` where it is short and plain, else one made for it",
            "required": true,
            "schema": { "type": "string", "pattern": "^[A-Za-z0-9_.:/+=-]{1,128}$" },
        },
        "CacheControl": {
            "description": "Nothing is cached", "required": true,
            "schema": { "type": "string", "enum": ["no-store"] },
        },
        "Warning": {
            "description": "299, where part of the request was not taken as it was meant",
            "schema": { "type": "string", "pattern": "^299 - \"" },
        },
        "IdempotencyReplayed": {
            "description": "That the operation was there before",
            "schema": { "type": "string", "enum": ["true"] },
        },
        "Authenticate": {
            "description": "RFC 6750", "required": true,
            "schema": { "type": "string", "pattern": "^Bearer " },
        },
        "RetryAfter": { "description": "Seconds", "required": true, "schema": digits },
        "RateLimitLimit": {
            "description": "Submissions of this client at once; only where one was charged, or refused for its budget", "schema": digits
        },
        "RateLimitRemaining": { "description": "How many of them are left", "schema": digits },
        "RateLimitReset": {
            "description": "Seconds until all of them are there again", "schema": digits
        },
    })
}

/// A header's name, and the component that says what it is.
type Header = (&'static str, &'static str);

/// What every answer has.
const EVERY: [Header; 2] = [("x-request-id", "RequestId"), ("cache-control", "CacheControl")];

/// What an answer has that was charged to a client's budget.
const BUDGET: [Header; 3] = [
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
