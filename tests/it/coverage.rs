//! The OpenAPI document, the router's table and the interface page agree with each other.

use crate::harness::custody;
use crate::harness::process::SIGN;
use crate::harness::samples::with;
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

/// Sends the document's example requests in an order in which each succeeds; only ids and one receipt are filled in.
#[tokio::test]
async fn openapi_examples_run_in_order() {
    let world = World::start().await;
    let document = openapi::document();
    let example = |path: &str, name: &str| {
        let post = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"];
        let value = post["examples"][name]["value"].clone();
        assert!(value.is_object(), "{path} has no example `{name}`");
        value
    };
    // Takes an operation from its submission to publication.
    let publish = async |family: &'static str, submitted: Value| {
        let mut view = submitted["operation"].clone();
        for (act, name) in
            [("approve", "first"), ("approve", "second"), ("execute", "plain"), ("publish", "signature")]
        {
            let body = example(&format!("{family}/{{operationId}}/{act}"), name);
            let path = format!("{family}/{}/{act}", view["operation_id"].as_str().unwrap());
            view = world.post(&path, &body).await.ok();
        }
        assert_eq!(view["state"], "published");
        view
    };
    for name in ["before_quorum", "at_quorum"] {
        let preview = world.post("/v1/policy/preview", &example("/v1/policy/preview", name)).await.ok();
        assert_eq!(preview["decision"], "ALLOW", "{name}");
    }
    let payment = example(SIGN, "payment");
    publish("/v1/operations", world.post(SIGN, &payment).await.ok()).await;
    let of_key = |act: &str| format!("/v1/custody/keys/{{keyRef}}/{act}");
    let mut view = Value::Null;
    for (path, name) in [
        ("/v1/custody/keys".to_owned(), "two_of_three"),
        (of_key("sign"), "transfer"),
        (of_key("refresh"), "drill"),
        (of_key("recover"), "lost_share"),
        (of_key("reshare"), "three_of_four"),
        (of_key("rotate"), "new_key"),
    ] {
        let submitted = world.post(&path.replace("{keyRef}", "vault-1"), &example(&path, name)).await.ok();
        view = publish("/v1/custody/operations", submitted).await;
    }
    let exported = example("/v1/custody/operations/{operationId}/external-export", "settled");
    let exported = with(exported, "/publication_receipt", view["runtime"]["publication_receipt"].clone());
    let path = custody::path(&view, "/external-export");
    assert_eq!(world.post(&path, &exported).await.ok()["external_export"]["state"], "Settled");
}

#[test]
fn interface_page_lists_every_error_code() {
    let page = include_str!("../../host/docs/interface.md");
    for code in Code::ALL {
        let row = format!("| {} | `{}` |", code.status().as_u16(), code.as_str());
        assert!(page.contains(&row), "host/docs/interface.md lacks `{row}`");
    }
}
