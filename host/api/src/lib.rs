//! HTTP: routes, wire shapes, errors and views.
//!
//! Deliberately absent: rules about operations, and adapters. A handler parses the request, calls `gateway_engine`, and
//! returns the result as a view. Start at [`router`], then [`routes`], then [`wire`].

pub mod counters;
pub mod error;
pub mod extract;
pub mod layers;
pub mod openapi;
pub mod origin;
pub mod routes;
pub mod state;
pub mod warning;
pub mod wire;

pub use openapi::ROUTES;
pub use routes::Access;

use axum::middleware::{from_fn, from_fn_with_state};
use axum::{Extension, Router};
use gateway_service::layers::observe;
use origin::OriginRules;
use routes::health::DocumentText;
use state::App;
use std::sync::Arc;
use tower_http::catch_panic::CatchPanicLayer;

/// The API, its pages, and the probes unless they are served on a separate address.
pub fn router(app: App) -> Router {
    let document: DocumentText = openapi::text;
    let api = routes::api().layer(Extension(document));
    let api = if app.options().separate_probes { api } else { api.merge(routes::probes()) };
    let api = Router::from(api);
    let api = if app.options().console { api.merge(gateway_console::router()) } else { api };
    with_layers(if app.options().api_docs { api.merge(openapi::page::router()) } else { api }, app)
}

/// The probes, for their separate address.
pub fn admin_router(app: App) -> Router {
    with_layers(Router::from(routes::admin()), app)
}

fn with_layers(router: Router<App>, app: App) -> Router {
    let allowed = app.options().allowed_origins.clone();
    let rules = Arc::new(OriginRules { allowed, is_bypass: app.authenticator().is_bypass() });
    router
        .fallback(layers::not_found)
        .method_not_allowed_fallback(layers::method_not_allowed)
        .layer(from_fn_with_state(rules, origin::check))
        .layer(from_fn_with_state(app.clone(), layers::limit))
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn(observe))
        .with_state(app)
}
