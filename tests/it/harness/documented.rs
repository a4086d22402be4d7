//! Checks answers of a [`World`](super::world::World) against the OpenAPI document.

use gateway_api::{ROUTES, openapi};
use serde_json::{Value, json};
use std::sync::LazyLock;

static DOCUMENT: LazyLock<Value> = LazyLock::new(openapi::document);

/// Asserts that the document lists this status for the route, and this error code if it lists codes. Ignores other routes and
/// methods.
#[track_caller]
pub(crate) fn assert_documented(method: &str, path: &str, status: u16, body: &Value) {
    let methods = route(path).map(|route| &DOCUMENT["paths"][route]);
    let Some(operation) = methods.and_then(|methods| methods.get(method.to_lowercase())) else { return };
    let answers = &operation["responses"];
    let answer = &answers[status.to_string()];
    assert!(answer.is_object(), "{method} {path} does not list {status}: {body}");
    let codes = answer.pointer("/x-error-codes");
    if let Some(Value::Array(codes)) = codes {
        assert!(
            codes.contains(&body["error"]),
            "{method} {path} lists {status} with {}: {body}",
            json!(codes)
        );
    }
}

/// The route that matches a path; of several, the one with the fewest parameters, as the router chooses.
fn route(path: &str) -> Option<&'static str> {
    let path = path.split('?').next().unwrap_or_default();
    let matches = |route: &str| {
        let mut parts = path.split('/');
        let fits =
            |segment: &str, part: &str| part == segment || segment.starts_with('{') && !part.is_empty();
        route.split('/').all(|segment| parts.next().is_some_and(|part| fits(segment, part)))
            && parts.next().is_none()
    };
    let routes = ROUTES.iter().map(|(_, route, _)| *route);
    routes.filter(|route| matches(route)).min_by_key(|route| route.matches('{').count())
}
