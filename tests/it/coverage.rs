//! Tables that fail when something is missing from them.

use crate::harness::world::World;
use gateway_api::error::Code;
use gateway_api::{ROUTES, openapi};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn every_route_is_in_the_openapi_document_and_nothing_else_is() {
    let document = openapi::document();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let documented: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let routes = ROUTES.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(documented, routes);
}

#[tokio::test]
async fn every_route_is_routed() {
    let world = World::start().await;
    for (method, path, _) in ROUTES {
        let path = path.replace("{operationId}", &"0".repeat(64)).replace("{keyRef}", "k");
        let answer = world.call_as(&[], method, &path, &Value::Null).await;
        assert!(
            !["not_found", "method_not_allowed"].contains(&answer.json["error"].as_str().unwrap_or_default()),
            "{path}"
        );
    }
}

#[test]
fn every_error_code_is_in_the_openapi_document_with_its_status() {
    let document = openapi::document();
    let listed = &document["components"]["schemas"]["Code"]["enum"];
    let codes: Vec<_> = Code::ALL.iter().map(|code| json!(code.as_str())).collect();
    assert_eq!(*listed, json!(codes));
    for code in Code::ALL {
        assert_eq!(json!(code), json!(code.as_str()), "the wire word of {code:?}");
    }
    // Whatever a handler lists beside a status has that status.
    for (_, methods) in document["paths"].as_object().unwrap() {
        for (_, operation) in methods.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let words = response["description"].as_str().unwrap_or_default().split('`');
                for word in words.skip(1).step_by(2) {
                    let code = Code::ALL.iter().find(|code| code.as_str() == word).unwrap();
                    assert_eq!(code.status().as_str(), status, "{word}");
                }
            }
        }
    }
}

/// decisions.md 2 and the README list the same codes.
#[test]
fn the_readme_lists_every_error_code() {
    let readme = include_str!("../../README.md");
    for code in Code::ALL {
        let row = format!("| {} | `{}` |", code.status().as_u16(), code.as_str());
        assert!(readme.contains(&row), "README.md lacks `{row}`");
    }
}
