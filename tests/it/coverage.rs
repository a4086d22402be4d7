//! The OpenAPI document, the router's table and the interface page agree with each other.

use crate::harness::world::World;
use gateway_api::error::Code;
use gateway_api::{ROUTES, openapi};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn openapi_document_has_exactly_the_routes() {
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

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|below| references(below, found));
        }
        Value::Array(entries) => entries.iter().for_each(|below| references(below, found)),
        _ => {}
    }
}

#[test]
fn openapi_document_has_everything_that_it_refers_to() {
    let document = openapi::document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 50, "{}", found.len());
    let is_missing = |reference: &String| document.pointer(reference.trim_start_matches('#')).is_none();
    assert_eq!(found.into_iter().filter(is_missing).collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test]
async fn every_listed_route_has_a_handler() {
    let world = World::start().await;
    for (method, path, _) in ROUTES.iter() {
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
        assert_eq!(json!(code), json!(code.as_str()), "the JSON of {code:?}");
    }
    // Error codes in the description of a response have its status.
    for (_, methods) in document["paths"].as_object().unwrap() {
        for (_, operation) in methods.as_object().unwrap() {
            let errors = operation["responses"].as_object().unwrap().iter();
            for (status, response) in errors.filter(|(status, _)| status.as_str() >= "400") {
                let words = response["description"].as_str().unwrap_or_default().split('`');
                for word in words.skip(1).step_by(2) {
                    let code = Code::ALL.iter().find(|code| code.as_str() == word).unwrap();
                    assert_eq!(code.status().as_str(), status, "{word}");
                }
            }
        }
    }
}

#[test]
fn operation_ids_are_unique_and_every_link_names_one() {
    let document = openapi::document();
    let operations: Vec<&Value> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|methods| methods.as_object().unwrap().values())
        .collect();
    let names: BTreeSet<&str> = operations.iter().map(|it| it["operationId"].as_str().unwrap()).collect();
    assert_eq!(names.len(), operations.len(), "{names:?}");
    let parameters = |name: &str| -> BTreeSet<&str> {
        let operation = operations.iter().find(|it| it["operationId"] == name).unwrap();
        let parameters = operation["parameters"].as_array().unwrap();
        parameters.iter().map(|it| it["name"].as_str().unwrap()).collect()
    };
    let mut n_links = 0;
    let links = operations.iter().filter_map(|it| it["responses"]["200"]["links"].as_object());
    for (_, link) in links.flatten() {
        let known = parameters(link["operationId"].as_str().unwrap());
        for (name, _) in link["parameters"].as_object().unwrap() {
            assert!(known.contains(name.as_str()), "{link}");
            n_links += 1;
        }
    }
    assert!(n_links > 100, "{n_links}");
}

#[test]
fn openapi_document_names_every_type_of_event() {
    let events: Value = serde_json::from_str(include_str!("../../host/domain/golden/events.json")).unwrap();
    let events = events.as_array().unwrap().iter();
    let golden: BTreeSet<_> = events.map(|event| event["change"]["type"].as_str().unwrap()).collect();
    let document = openapi::document();
    let documented = document["components"]["schemas"]["EventType"]["enum"].as_array().unwrap();
    assert_eq!(documented.iter().map(|name| name.as_str().unwrap()).collect::<BTreeSet<_>>(), golden);
}

#[test]
fn interface_page_lists_every_error_code() {
    let page = include_str!("../../host/docs/interface.md");
    for code in Code::ALL {
        let row = format!("| {} | `{}` |", code.status().as_u16(), code.as_str());
        assert!(page.contains(&row), "host/docs/interface.md lacks `{row}`");
    }
}
