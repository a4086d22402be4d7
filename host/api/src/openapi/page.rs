//! `/docs`: Swagger UI for the OpenAPI document, from the binary.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use std::sync::{Arc, LazyLock};
use utoipa_swagger_ui::{Config, SwaggerFile, serve};

/// What the page may do: run the scripts of the binary, and ask this gateway. The page sets styles by itself, and has its images as data.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::CACHE_CONTROL, "no-cache"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The page reads the document from this gateway, forgets credentials when it is closed, and sends nothing to a validator elsewhere.
static CONFIG: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
    let config = Config::from("../v1/openapi.json").persist_authorization(false).validator_url("none");
    Arc::new(config.use_base_layout())
});

/// The routes of the page.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/docs", get(|| async { Redirect::permanent("docs/") }))
        .route("/docs/", get(|| async { answer("index.html") }))
        .route("/docs/{file}", get(|Path(name): Path<String>| async move { answer(&name) }))
}

fn answer(name: &str) -> Response {
    let Ok(Some(SwaggerFile { bytes, content_type, gzpipped, .. })) = serve(name, CONFIG.clone()) else {
        return (StatusCode::NOT_FOUND, "the documentation has no such file\n").into_response();
    };
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    if let Ok(content_type) = HeaderValue::try_from(content_type) {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    if gzpipped {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
