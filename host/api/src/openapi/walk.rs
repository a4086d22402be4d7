//! Finds the operations of a document, their scopes, and the shapes that they refer to.

use gateway_auth::Scope;
use serde_json::{Map, Value};

/// The scope that the operation needs; `None` if it needs no credentials.
pub(super) fn scope(operation: &Map<String, Value>) -> Option<Scope> {
    serde_json::from_value(operation.get("security")?.pointer("/0/bearer/0")?.clone()).ok()
}

/// Calls `complete` with each path and its operation.
pub(super) fn each_operation(document: &mut Value, mut complete: impl FnMut(&str, &mut Map<String, Value>)) {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for (path, methods) in paths.into_iter().flatten() {
        let operations = methods.as_object_mut().into_iter().flatten();
        operations.filter_map(|(_, operation)| operation.as_object_mut()).for_each(|it| complete(path, it));
    }
}

/// The name of the shape that a `$ref` points to.
pub(super) fn referenced_shape(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/")
}
