//! Approvers' signatures: the members that each kind requires, which a derived schema cannot express.

use serde_json::{Value, json};

/// Canonical base64url without padding: the unused bits are zero.
const BASE64URL: &str = "^([A-Za-z0-9_-]{4})*([A-Za-z0-9_-][AQgw]|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048])?$";
const HEX_32: &str = "^[0-9a-f]{64}$";
const HEX_64: &str = "^[0-9a-f]{128}$";

/// Replaces the schema by one for each kind. Members of the other kind are absent or null.
pub(super) fn complete(document: &mut Value) {
    let Some(shape) = document.pointer_mut("/components/schemas/ApprovalSignature") else { return };
    let text = |pattern: &str| json!({ "type": "string", "pattern": pattern, "maxLength": 1024 });
    let kinds = [
        ("ed25519", vec![("public_key", HEX_32), ("signature", HEX_64)]),
        (
            "webauthn",
            ["credential_id", "authenticator_data", "client_data_json", "signature"]
                .map(|name| (name, BASE64URL))
                .to_vec(),
        ),
    ];
    let shapes = kinds.map(|(kind, own)| {
        let others = ["public_key", "credential_id", "authenticator_data", "client_data_json"];
        let mut properties: serde_json::Map<_, _> =
            others.into_iter().map(|name| (name.to_owned(), json!({ "type": "null" }))).collect();
        properties.insert("kind".to_owned(), json!({ "type": "string", "enum": [kind] }));
        properties.extend(own.iter().map(|(name, pattern)| ((*name).to_owned(), text(pattern))));
        let required: Vec<_> = own.iter().map(|(name, _)| *name).chain(["kind"]).collect();
        json!({ "type": "object", "required": required, "properties": properties })
    });
    *shape = json!({ "description": shape.get("description"), "oneOf": shapes });
}
