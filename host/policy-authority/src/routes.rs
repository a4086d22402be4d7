//! The authority's endpoints.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use gateway_authority::{Authority, DecisionAnswer, DecisionRequest, Unverified, Verifier};
use gateway_domain::approval::ApprovalError;
use gateway_service::answer::{self, ErrorAnswer};
use gateway_service::telemetry;
use serde::Serialize;
use std::sync::Arc;

/// Largest body of a request, bytes: an operation with 128 signed approvals takes a third of it.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Clone)]
struct App {
    authority: Arc<Authority>,
    verifier: Arc<Verifier>,
}

/// The routes that the gateway calls.
pub fn router(authority: Arc<Authority>, verifier: Arc<Verifier>) -> Router {
    let routes = Router::new()
        .route("/v1/authority/decisions", post(decide))
        .route("/healthz", get(healthz))
        .with_state(App { authority, verifier });
    answer::with_layers(routes)
}

/// The routes for the operator's own tools.
pub fn admin() -> Router {
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(healthz))
        .route("/metrics", get(metrics));
    answer::with_layers(routes)
}

async fn decide(State(app): State<App>, request: Request) -> Result<Json<DecisionAnswer>, ErrorAnswer> {
    let request: DecisionRequest = answer::read_json(request, BODY_BYTES_MAX).await?;
    let signed = app.verifier.decide(&app.authority, &request, gateway_service::now());
    let admission = signed.map_err(|unverified| {
        tracing::warn!(reason = %unverified, "a decision was refused");
        error(&unverified)
    })?;
    let decision = &admission.decision;
    tracing::info!(operation_id = %decision.operation_id, admission_hash = %admission.admission_hash, "signed a decision");
    Ok(Json(DecisionAnswer { decision: admission.envelope }))
}

fn error(unverified: &Unverified) -> ErrorAnswer {
    let message = unverified.to_string();
    match unverified {
        Unverified::Approval { fault: ApprovalError::NoRegistry, .. } => ErrorAnswer::unavailable(message),
        Unverified::Events(_)
        | Unverified::Times { .. }
        | Unverified::Approval { .. }
        | Unverified::TooFew { .. }
        | Unverified::Refused(_)
        | Unverified::Canonical(_) => ErrorAnswer::new(StatusCode::FORBIDDEN, "decision_refused", message),
    }
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
    version: &'static str,
}

async fn healthz() -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

async fn metrics() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], telemetry::metrics())
}
