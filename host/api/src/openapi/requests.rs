//! Requests: path parameters, examples, and the limits of the strict reader, which utoipa does not derive.

use super::examples;
use super::walk::{each_operation, referenced_shape};
use crate::error::Code;
use crate::extract::IDEMPOTENCY_MISMATCH;
use gateway_service::strict::{ARRAY_ENTRIES_MAX, TEXT_BYTES_MAX};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Completes the parameters and bodies of every operation. Returns the names of all schemas that requests have.
pub(super) fn complete(document: &mut Value) -> BTreeSet<String> {
    let mut shapes = BTreeSet::new();
    each_operation(document, |path, operation| {
        complete_parameters(path, operation);
        shapes.extend(complete_body(operation));
    });
    limit_shapes(document, shapes)
}

/// Adds the path's and the header's parameters, and the limits of the query's. An optional query parameter is absent, never null.
fn complete_parameters(path: &str, operation: &mut Map<String, Value>) {
    let errors = operation.get("x-errors").and_then(Value::as_array);
    let can_mismatch = errors.is_some_and(|errors| errors.contains(&json!(Code::IdempotencyMismatch)));
    let parameters = operation.entry("parameters").or_insert_with(|| json!([]));
    let Some(parameters) = parameters.as_array_mut() else { return };
    for parameter in parameters.iter_mut() {
        if let Some(kinds) = parameter.pointer_mut("/schema/type").and_then(Value::as_array_mut) {
            kinds.retain(|kind| kind != "null");
        }
        if let Some(schema) = parameter.get_mut("schema") {
            limit_schema(schema, &mut BTreeSet::new());
            if schema.get("maxLength").is_some() {
                schema["minLength"] = json!(1);
            }
        }
    }
    let mut add = |name: &str, description: &str, schema: Value| {
        if path.contains(&format!("{{{name}}}")) {
            parameters.push(json!({
                "name": name, "in": "path", "required": true, "description": description, "schema": schema,
            }));
        }
    };
    let hex_32 = json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" });
    add("operationId", "The operation's id: 64 lowercase hexadecimal characters", hex_32);
    // Without a maximum: a name above the limit is answered like an unknown one.
    add("keyRef", "The key's name", json!({ "type": "string", "minLength": 1 }));
    if can_mismatch {
        parameters.push(json!({
            "name": IDEMPOTENCY_MISMATCH, "in": "header", "schema": { "type": "string", "enum": ["reject"] },
            "description": "Answers 409 `idempotency_mismatch`, and not the existing operation, when the idempotency key was first used with another body",
        }));
    }
}

/// Adds examples, and returns the name of the body's shape. An optional body is absent, never null.
fn complete_body(operation: &mut Map<String, Value>) -> Option<String> {
    let content = operation.get_mut("requestBody")?.pointer_mut("/content/application~1json")?;
    let schema = content.get_mut("schema")?;
    if let Some(Value::Array(either)) = schema.get("oneOf") {
        *schema = either.iter().find(|it| referenced_shape(it).is_some())?.clone();
    }
    let name = referenced_shape(schema)?.to_owned();
    content.as_object_mut()?.insert("examples".to_owned(), examples::for_shape(&name));
    Some(name)
}

/// Adds limits to these shapes and to all shapes within them, and returns the names of all.
fn limit_shapes(document: &mut Value, mut waiting: BTreeSet<String>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    while let Some(name) = waiting.pop_first() {
        let Some(shape) = document.pointer_mut(&format!("/components/schemas/{name}")) else { continue };
        limit_schema(shape, &mut waiting);
        seen.insert(name);
        waiting.retain(|name| !seen.contains(name));
    }
    seen
}

/// Adds the limits of `crate::strict`, and collects the shapes that the schema refers to. A string's limit is in bytes there
/// and in characters in the schema: the two are equal for ASCII.
fn limit_schema(schema: &mut Value, found: &mut BTreeSet<String>) {
    found.extend(referenced_shape(schema).map(str::to_owned));
    let Some(members) = schema.as_object_mut() else { return };
    let is = |members: &Map<String, Value>, kind: &str| match members.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        Some(one) => one == kind,
        None => false,
    };
    let limit = |members: &mut Map<String, Value>, name: &str, value: usize| {
        members.entry(name).or_insert_with(|| json!(value));
    };
    let is_narrower = members.contains_key("enum") || members.contains_key("pattern");
    if is(members, "string") && !is_narrower {
        limit(members, "maxLength", TEXT_BYTES_MAX);
        members.insert("pattern".to_owned(), json!(r"^[^\x00]*$"));
    }
    if is(members, "array") {
        limit(members, "maxItems", ARRAY_ENTRIES_MAX);
    }
    // The secrets that are discarded unread are objects without properties, and have no limit.
    if members.contains_key("properties") || members.contains_key("additionalProperties") {
        limit(members, "maxProperties", ARRAY_ENTRIES_MAX);
    }
    for below in ["items", "additionalProperties", "propertyNames"] {
        members.get_mut(below).into_iter().for_each(|it| limit_schema(it, found));
    }
    for below in ["oneOf", "anyOf", "allOf"] {
        let either = members.get_mut(below).and_then(Value::as_array_mut);
        either.into_iter().flatten().for_each(|it| limit_schema(it, found));
    }
    let properties = members.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flatten().for_each(|(_, it)| limit_schema(it, found));
}
