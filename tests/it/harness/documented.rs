//! Checks every answer that a test gets against the OpenAPI document.

use gateway_api::{ROUTES, openapi};
use serde_json::{Value, json};
use std::sync::LazyLock;

static DOCUMENT: LazyLock<Value> = LazyLock::new(openapi::document);

/// Checks an answer against the document; answers to unknown paths are checked elsewhere.
#[track_caller]
pub(crate) fn check(method: &str, path: &str, status: u16, body: &Value) {
    let methods = route(path).map(|route| &DOCUMENT["paths"][route]);
    let Some(operation) = methods.and_then(|methods| methods.get(method.to_lowercase())) else { return };
    let answers = &operation["responses"];
    let answer = &answers[status.to_string()];
    assert!(answer.is_object(), "{method} {path} does not list {status}: {body}");
    let codes = answer.pointer("/content/application~1json/schema/allOf/1/properties/error/enum");
    if let Some(Value::Array(codes)) = codes {
        assert!(
            codes.contains(&body["error"]),
            "{method} {path} lists {status} with {}: {body}",
            json!(codes)
        );
    }
}

/// The route of a path, as the router matches it: literal segments first.
fn route(path: &str) -> Option<&'static str> {
    let path = path.split('?').next().unwrap_or_default();
    let matches = |route: &str| {
        let (mut asked, mut segments) = (path.split('/'), route.split('/'));
        let alike = segments.by_ref().all(|segment| {
            asked
                .next()
                .is_some_and(|given| given == segment || segment.starts_with('{') && !given.is_empty())
        });
        alike && asked.next().is_none()
    };
    let found = ROUTES.iter().filter(|(_, route, _)| matches(route));
    found.map(|(_, route, _)| *route).min_by_key(|route| route.matches('{').count())
}
