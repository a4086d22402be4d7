//! Links from an answer's operation or key to the endpoints that can follow.

use super::walk::{each_operation, referenced_shape};
use serde_json::{Map, Value, json};

/// The endpoints for an operation of either family.
const ON_OPERATION: [&str; 9] = [
    "show",
    "approve",
    "reject",
    "cancel",
    "execute",
    "publish",
    "node_recovery",
    "evidence",
    "audit_replay",
];

/// The endpoints for a custody operation alone.
const ON_CUSTODY_OPERATION: [&str; 2] = ["external_export", "abort"];

/// The endpoints for a key.
const ON_KEY: [&str; 7] = ["show", "operations", "sign", "refresh", "reshare", "rotate", "recover"];

/// Adds links to the answers that show one operation.
pub(super) fn complete(document: &mut Value) {
    each_operation(document, |_, operation| {
        let Some(Value::Object(answer)) = operation.get_mut("responses").and_then(|it| it.get_mut("200"))
        else {
            return;
        };
        let schema = answer.get("content").and_then(|it| it.pointer("/application~1json/schema"));
        let links = match schema.and_then(referenced_shape) {
            Some("OperationView") => links("operation", ""),
            Some("SignOperationResponse" | "OperationNodeRecoveryResponse") => {
                links("operation", "/operation")
            }
            Some("CustodyOperationView") => links("custody_operation", ""),
            Some("CustodyOperationResponse") => links("custody_operation", "/operation"),
            Some(_) | None => return,
        };
        answer.insert("links".to_owned(), Value::Object(links));
    });
}

/// `at`: JSON pointer to the operation in the answer.
fn links(family: &str, at: &str) -> Map<String, Value> {
    let id = format!("$response.body#{at}/operation_id");
    let link = |name: String, parameters: Value| {
        let link = json!({ "operationId": name, "parameters": parameters });
        (name, link)
    };
    let on_operation = |action| link(format!("{family}_{action}"), json!({ "operationId": id }));
    let mut links: Map<_, _> = ON_OPERATION.map(on_operation).into_iter().collect();
    if family == "custody_operation" {
        links.extend(ON_CUSTODY_OPERATION.map(on_operation));
        let key = format!("$response.body#{at}/key_ref");
        links.extend(ON_KEY.map(|action| link(format!("custody_key_{action}"), json!({ "keyRef": key }))));
    }
    // The operation's first event is in the log, which therefore has at least one event.
    links.extend([
        link("log_tlog_proof".to_owned(), json!({ "operation_id": id, "seq": "1" })),
        link("log_inclusion".to_owned(), json!({ "index": "0", "size": "1" })),
        link("log_consistency".to_owned(), json!({ "first": "1", "second": "1" })),
    ]);
    links
}
