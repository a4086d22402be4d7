//! Requests: what every path and body is held to, wherever the shape itself does not say.

use super::{each_operation, examples, shape_named};
use crate::strict::{ARRAY_ENTRIES_MAX, TEXT_BYTES_MAX};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Completes the parameters and bodies of every operation.
pub(super) fn complete(document: &mut Value) {
    let mut shapes = BTreeSet::new();
    each_operation(document, |path, operation| {
        parameters(path, operation);
        shapes.extend(body(operation));
    });
    bound_shapes(document, shapes);
}

/// Adds what the path itself names. A query parameter that is not there is absent and never null.
fn parameters(path: &str, operation: &mut Map<String, Value>) {
    let parameters = operation.entry("parameters").or_insert_with(|| json!([]));
    let Some(parameters) = parameters.as_array_mut() else { return };
    for parameter in parameters.iter_mut() {
        if let Some(kinds) = parameter.pointer_mut("/schema/type").and_then(Value::as_array_mut) {
            kinds.retain(|kind| kind != "null");
        }
    }
    let mut add = |name: &str, schema: Value| {
        if path.contains(&format!("{{{name}}}")) {
            parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
        }
    };
    add("operationId", json!({ "type": "string", "pattern": "^[0-9a-f]{64}$", "description": "Hex32" }));
    // Longer names are answered like any other name that no key has.
    add("keyRef", json!({ "type": "string", "minLength": 1, "description": "The key's name" }));
}

/// Adds examples; an optional body is absent and never null. The name of its shape.
fn body(operation: &mut Map<String, Value>) -> Option<String> {
    let content = operation.get_mut("requestBody")?.pointer_mut("/content/application~1json")?;
    let schema = content.get_mut("schema")?;
    if let Some(Value::Array(either)) = schema.get("oneOf") {
        *schema = either.iter().find(|it| shape_named(it).is_some())?.clone();
    }
    let name = shape_named(schema)?.to_owned();
    content.as_object_mut()?.insert("examples".to_owned(), examples::of(&name));
    Some(name)
}

/// Bounds these shapes and all that they have within.
fn bound_shapes(document: &mut Value, mut waiting: BTreeSet<String>) {
    let mut seen = BTreeSet::new();
    while let Some(name) = waiting.pop_first() {
        let Some(shape) = document.pointer_mut(&format!("/components/schemas/{name}")) else { continue };
        bound(shape, &mut waiting);
        seen.insert(name);
        waiting.retain(|name| !seen.contains(name));
    }
}

/// The limits of `crate::strict`. A string's is in bytes, which a schema cannot say: for plain ASCII it is the same.
fn bound(schema: &mut Value, found: &mut BTreeSet<String>) {
    found.extend(shape_named(schema).map(str::to_owned));
    let Some(members) = schema.as_object_mut() else { return };
    let is = |members: &Map<String, Value>, kind: &str| match members.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        Some(one) => one == kind,
        None => false,
    };
    let limit = |members: &mut Map<String, Value>, name: &str, value: usize| {
        members.entry(name).or_insert_with(|| json!(value));
    };
    let says_more = members.contains_key("enum") || members.contains_key("pattern");
    if is(members, "string") && !says_more {
        limit(members, "maxLength", TEXT_BYTES_MAX);
    }
    if is(members, "array") {
        limit(members, "maxItems", ARRAY_ENTRIES_MAX);
    }
    // An object of no known shape is a secret for the nodes: nobody here looks into it.
    if members.contains_key("properties") || members.contains_key("additionalProperties") {
        limit(members, "maxProperties", ARRAY_ENTRIES_MAX);
    }
    for below in ["items", "additionalProperties", "propertyNames"] {
        members.get_mut(below).into_iter().for_each(|it| bound(it, found));
    }
    for below in ["oneOf", "anyOf", "allOf"] {
        let either = members.get_mut(below).and_then(Value::as_array_mut);
        either.into_iter().flatten().for_each(|it| bound(it, found));
    }
    let properties = members.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flatten().for_each(|(_, it)| bound(it, found));
}
