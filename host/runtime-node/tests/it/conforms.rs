//! Compares values with the schemas of the node's OpenAPI document. Knows the keywords that the document uses, and no others.

use runtime_node::routes::OPENAPI;
use serde_json::Value;
use std::sync::LazyLock;

pub(crate) static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(OPENAPI).unwrap());

/// The schema of a reference, such as `#/components/schemas/Hex32`.
fn resolve(schema: &Value) -> &Value {
    match schema["$ref"].as_str() {
        Some(reference) => DOCUMENT.pointer(&reference[1..]).unwrap(),
        None => schema,
    }
}

/// Checks that the value is of this schema; the error has the pointer of the first one that is not.
pub(crate) fn conforms(value: &Value, schema: &Value) -> Result<(), String> {
    let schema = resolve(schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        conforms(value, part)?;
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let n_fitting = choices.iter().filter(|choice| conforms(value, choice).is_ok()).count();
        return if n_fitting == 1 {
            Ok(())
        } else {
            Err(format!(": {n_fitting} of the choices fit {value}"))
        };
    }
    check_type(value, &schema["type"])?;
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        return Err(format!(": {value} is not in {allowed:?}"));
    }
    if schema["pattern"] == "^[0-9a-f]{64}$" {
        let text = value.as_str().unwrap();
        assert!(text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        if !schema["items"].is_null() {
            conforms(item, &schema["items"]).map_err(|what| format!("/{index}{what}"))?;
        }
    }
    let Some(members) = value.as_object() else { return Ok(()) };
    for name in schema["required"].as_array().into_iter().flatten() {
        if !members.contains_key(name.as_str().unwrap()) {
            return Err(format!(": {name} is missing"));
        }
    }
    for (name, member) in members {
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => return Err(format!(": `{name}` is not in the schema")),
            (Value::Null, Value::Null) => {}
            (Value::Null, other) => conforms(member, other).map_err(|what| format!("/{name}{what}"))?,
            (property, _) => conforms(member, property).map_err(|what| format!("/{name}{what}"))?,
        }
    }
    Ok(())
}

fn check_type(value: &Value, types: &Value) -> Result<(), String> {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    let fits = match types {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().any(|name| is(name.as_str().unwrap())),
        _ => true,
    };
    if fits { Ok(()) } else { Err(format!(": {value} is not of type {types}")) }
}
