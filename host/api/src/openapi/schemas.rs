//! Schemas: what utoipa derives, in the forms that generators of clients understand, and the members that depend on a kind.

use super::walk::referenced_shape;
use gateway_domain::openapi::INLINE;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

type Schemas = Map<String, Value>;

/// Canonical base64url without padding: the unused bits are zero.
const BASE64URL: &str = "^([A-Za-z0-9_-]{4})*([A-Za-z0-9_-][AQgw]|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048])?$";
const HEX_32: &str = "^[0-9a-f]{64}$";
const HEX_64: &str = "^[0-9a-f]{128}$";

/// The kinds of intents, with the schema of each.
const INTENTS: [(&str, &str); 7] = [
    ("payment", "PaymentTerms"),
    ("asset_action", "AssetActionIntent"),
    ("key_create", "KeyCreateIntent"),
    ("refresh", "RefreshIntent"),
    ("reshare", "ReshareIntent"),
    ("rotate", "RotateIntent"),
    ("recover", "RecoverIntent"),
];

/// Completes the schemas of components.
pub(super) fn complete(document: &mut Value) {
    let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") else { return };
    let values: Schemas = INLINE.iter().filter_map(|name| schemas.remove_entry(*name)).collect();
    for schema in schemas.values_mut() {
        inline(schema, &values);
        // What no caller writes with other members may get new ones.
        schema.as_object_mut().map(|schema| schema.remove("additionalProperties"));
    }
    flatten(schemas);
    complete_intents(schemas);
    complete_result(schemas);
    complete_approval_signature(schemas);
    if let Some(Value::Object(body)) = schemas.get_mut("ErrorBody") {
        body.insert("additionalProperties".to_owned(), json!(false));
    }
}

/// Replaces each reference to the schema of a value by that schema. A description of the value's own stands before the member's.
fn inline(schema: &mut Value, values: &Schemas) {
    let value = |schema: &Value| values.get(referenced_shape(schema)?).cloned();
    let described = |mut value: Value, by: &Value| {
        if let (Some(members), Some(description)) = (value.as_object_mut(), by.get("description")) {
            members.entry("description").or_insert_with(|| description.clone());
        }
        value
    };
    let nullable = match schema.get("oneOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([one, other]) => [one, other].into_iter().find_map(|it| Some(described(value(it)?, it))),
        _ => None,
    };
    if let Some(mut found) = nullable {
        if let Some(members) = found.as_object_mut() {
            let one = members.remove("type");
            members.insert("type".to_owned(), json!([one, "null"]));
        }
        *schema = found;
    } else if let Some(found) = value(schema) {
        *schema = described(found, schema);
    } else {
        let below: &mut dyn Iterator<Item = &mut Value> = match schema {
            Value::Object(members) => &mut members.values_mut(),
            Value::Array(entries) => &mut entries.iter_mut(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
        };
        below.for_each(|it| inline(it, values));
    }
}

/// Replaces each `allOf`, which utoipa derives from flattened members, by one object. Removes parts that are used nowhere else.
fn flatten(schemas: &mut Schemas) {
    let parts = schemas.clone();
    let mut flattened = BTreeSet::new();
    for schema in schemas.values_mut() {
        if let Some(Value::Array(parts)) = schema.get("allOf") {
            flattened.extend(parts.iter().filter_map(referenced_shape).map(str::to_owned));
        }
        *schema = merged(schema, &parts);
    }
    let all = json!(schemas).to_string();
    let is_used = |name: &String| all.contains(&json!(format!("#/components/schemas/{name}")).to_string());
    for name in flattened.iter().filter(|name| !is_used(name)) {
        schemas.remove(name);
    }
}

/// The object with the members of all parts of the schema's `allOf`, first to last; the schema itself if it has none.
fn merged(schema: &Value, schemas: &Schemas) -> Value {
    let resolved = referenced_shape(schema).and_then(|name| schemas.get(name)).unwrap_or(schema);
    let Some(Value::Array(parts)) = resolved.get("allOf") else { return resolved.clone() };
    let mut object = parts.iter().map(|part| merged(part, schemas)).fold(json!({}), with_members);
    if let Some(description) = resolved.get("description") {
        insert(&mut object, "description", description.clone());
    }
    object
}

/// `object` with the properties of `other`.
fn with_members(mut object: Value, other: Value) -> Value {
    let Value::Object(other) = other else { return object };
    insert(&mut object, "type", json!("object"));
    let Some(members) = object.as_object_mut() else { return object };
    if let Some(Value::Object(properties)) = other.get("properties") {
        let all = members.entry("properties").or_insert_with(|| json!({}));
        if let Some(all) = all.as_object_mut() {
            all.extend(properties.clone());
        }
    }
    if let Some(Value::Array(required)) = other.get("required") {
        let all = members.entry("required").or_insert_with(|| json!([]));
        if let Some(all) = all.as_array_mut() {
            all.extend(required.iter().cloned());
        }
    }
    object
}

fn insert(schema: &mut Value, name: &str, value: Value) {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert(name.to_owned(), value);
    }
}

/// Adds `kind` to every intent, and for each a view with the members of `IntentView`.
fn complete_intents(schemas: &mut Schemas) {
    let Some(identity) = schemas.get("IntentView").cloned() else { return };
    let (mut intents, mut views) = (Vec::new(), Vec::new());
    for (kind, name) in INTENTS {
        let Some(mut intent) = schemas.get(name).cloned() else { continue };
        // Requests of payments have none.
        if let Some(Value::Object(members)) = intent.get_mut("properties").filter(|_| kind == "payment") {
            members.remove("taproot");
        }
        let description = intent.get("description").cloned();
        let tag = json!({
            "required": ["kind"],
            "properties": { "kind": { "type": "string", "enum": [kind], "description": "The kind of intent" } },
        });
        let mut intent = with_members(tag, intent);
        let mut view = with_members(intent.clone(), identity.clone());
        for schema in [&mut intent, &mut view] {
            insert(schema, "description", description.clone().unwrap_or_default());
        }
        let view_name = format!("{name}View");
        intents.push((kind, name.to_owned()));
        views.push((kind, view_name.clone()));
        schemas.insert(name.to_owned(), intent);
        schemas.insert(view_name, view);
    }
    schemas.insert("Intent".to_owned(), union("An intent, by `kind`.", &intents));
    schemas.insert("IntentView".to_owned(), union("An intent with its hash and key, by `kind`.", &views));
}

/// An operation without a published signature has a result without members.
fn complete_result(schemas: &mut Schemas) {
    if let Some(Value::Object(result)) = schemas.get_mut("OperationResult") {
        result.remove("required");
    }
}

/// A union of objects, with `kind` as its discriminator.
fn union(description: &str, members: &[(&str, String)]) -> Value {
    let path = |name: &String| format!("#/components/schemas/{name}");
    let schemas: Vec<_> = members.iter().map(|(_, name)| json!({ "$ref": path(name) })).collect();
    let mapping: Map<_, _> =
        members.iter().map(|(kind, name)| ((*kind).to_owned(), json!(path(name)))).collect();
    json!({
        "description": description,
        "oneOf": schemas,
        "discriminator": { "propertyName": "kind", "mapping": mapping },
    })
}

/// Replaces the schema of an approver's signature by one for each kind. Members of the other kind are absent or null.
fn complete_approval_signature(schemas: &mut Schemas) {
    let Some(signature) = schemas.get("ApprovalSignature") else { return };
    let description = signature.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let properties = signature.get("properties").cloned().unwrap_or_default();
    let kinds = [
        ("ed25519", "Ed25519Signature", vec![("public_key", HEX_32), ("signature", HEX_64)]),
        (
            "webauthn",
            "WebAuthnSignature",
            ["credential_id", "authenticator_data", "client_data_json", "signature"]
                .map(|name| (name, BASE64URL))
                .to_vec(),
        ),
    ];
    let mut members = Vec::new();
    for (kind, name, own) in kinds {
        let text = |(name, pattern): &(&str, &str)| {
            let about = properties.pointer(&format!("/{name}/description")).cloned().unwrap_or_default();
            let schema =
                json!({ "type": "string", "pattern": pattern, "maxLength": 1024, "description": about });
            ((*name).to_owned(), schema)
        };
        let mut properties: Map<_, _> = own.iter().map(text).collect();
        properties.insert(
            "kind".to_owned(),
            json!({ "type": "string", "enum": [kind], "description": "The kind of signature" }),
        );
        let required: Vec<_> = own.iter().map(|(name, _)| *name).chain(["kind"]).collect();
        schemas.insert(
            name.to_owned(),
            json!({
                "type": "object", "required": required, "properties": properties,
                "description": format!("An approver's signature of kind `{kind}`."),
            }),
        );
        members.push((kind, name.to_owned()));
    }
    schemas.insert("ApprovalSignature".to_owned(), union(&description, &members));
}

/// Says which members may be null. A member of a response that is not required is absent, never null; one of a request may be
/// either. `requests` are the schemas that requests have.
pub(super) fn complete_nullable(document: &mut Value, requests: &BTreeSet<String>) {
    let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") else { return };
    for (name, schema) in schemas.iter_mut() {
        let required = schema.get("required").cloned().unwrap_or_default();
        let is_required =
            |member: &str| required.as_array().is_some_and(|all| all.iter().any(|one| one == member));
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (member, schema) in properties.into_iter().flatten() {
            let may_be_null = requests.contains(name) || is_required(member);
            complete_member(schema, may_be_null);
        }
    }
}

/// utoipa writes `oneOf` of a reference and null; generators of clients understand `anyOf`, with the description beside it.
fn complete_member(schema: &mut Value, may_be_null: bool) {
    let absent = json!({ "type": "null" });
    let Some(members) = schema.as_object_mut() else { return };
    if !may_be_null && let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(either)) = members.get("oneOf").filter(|_| members.len() == 1) else { return };
    let Some(Value::Object(other)) =
        either.iter().find(|one| **one != absent).filter(|_| either.contains(&absent))
    else {
        return;
    };
    let mut other = other.clone();
    if may_be_null {
        let description = other.remove("description").unwrap_or_default();
        *schema = json!({ "anyOf": [other, absent], "description": description });
    } else {
        *schema = Value::Object(other);
    }
}
