//! HTTP: routes, wire shapes, errors and views.
//!
//! Deliberately absent: rules about operations, and adapters. A handler parses the request, calls one use case of
//! `gateway_engine` and shows the result. Start at [`router`], then [`routes`], then [`wire`].

pub mod counters;
pub mod error;
pub mod extract;
pub mod layers;
pub mod openapi;
pub mod origin;
pub mod routes;
pub mod state;
pub mod strict;
pub mod wire;

pub use routes::{Access, ROUTES};

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use state::App;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;

/// The whole API, with the probes unless they have an address of their own.
pub fn router(app: App) -> Router {
    let has_own_probes = !app.options().probes_apart;
    let api = routes::api();
    layered(if has_own_probes { api.merge(routes::probes()) } else { api }, app)
}

/// The probes on an address of their own.
pub fn admin_router(app: App) -> Router {
    layered(routes::admin(), app)
}

fn layered(router: OpenApiRouter<App>, app: App) -> Router {
    Router::from(router)
        .fallback(layers::not_found)
        .method_not_allowed_fallback(layers::method_not_allowed)
        .layer(from_fn_with_state(app.clone(), origin::check))
        .layer(from_fn_with_state(app.clone(), layers::limit))
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn(layers::observe))
        .with_state(app)
}
