//! The authority's endpoints.

use crate::{
    Authority, DECISION_REFUSED, DECISIONS_MAX, DecisionAnswer, DecisionRequest, Unverified, Verifier,
};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use gateway_domain::error_chain;
use gateway_policy::{
    BUNDLE_SUPERSEDED, BUNDLE_UNKNOWN, BundleError, Disagreement, OFFER_BODY_BYTES_MAX, OfferBundleRequest,
    OfferFault, RepeatError,
};
use gateway_service::answer::{self, ErrorAnswer};
use gateway_service::layers;
use gateway_service::quota::{self, Quotas};
use gateway_service::strict::Fault;
use gateway_service::telemetry;
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Largest body of a request, bytes: an operation with 128 signed approvals takes a third of it.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bundles that are verified at one time; others wait. One takes a core for some tens of milliseconds.
const OFFERS_MAX: usize = 2;

#[derive(Clone)]
struct App {
    authority: Arc<Authority>,
    verifier: Arc<Verifier>,
    decisions: Arc<Semaphore>,
    offers: Arc<Semaphore>,
}

/// The routes that callers use, each within its quota.
pub fn router(authority: Arc<Authority>, verifier: Arc<Verifier>, quotas: Arc<Quotas>) -> Router {
    let routes = Router::new()
        .route("/v1/authority/decisions", post(decide))
        .route("/v1/authority/bundles", post(offer_bundle))
        .route_layer(from_fn_with_state(quotas, quota::limit))
        .route("/healthz", get(healthz))
        .with_state(App {
            authority,
            verifier,
            decisions: Arc::new(Semaphore::new(DECISIONS_MAX)),
            offers: Arc::new(Semaphore::new(OFFERS_MAX)),
        });
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
    let App { authority, verifier, decisions, .. } = app;
    let _permit = decisions.acquire().await.map_err(|_| failed())?;
    let checking = Arc::clone(&verifier);
    let verified = blocking(move || checking.verify(&request, gateway_service::now())).await?;
    let admission = match verified {
        Ok(verified) => verifier.admit(&authority, verified).await,
        Err(unverified) => Err(unverified),
    };
    let admission = admission.map_err(|unverified| {
        tracing::warn!(reason = %unverified, "a decision was refused");
        error(&unverified)
    })?;
    let decision = &admission.decision;
    layers::note_operation(decision.operation_id);
    tracing::info!(operation_id = %decision.operation_id, admission_hash = %admission.admission_hash, "signed a decision");
    Ok(Json(DecisionAnswer { decision: admission.envelope }))
}

/// The answer to an offered bundle that is kept.
#[derive(Serialize)]
struct Nothing {}

async fn offer_bundle(State(app): State<App>, request: Request) -> Result<Json<Nothing>, ErrorAnswer> {
    // Received before the permit, which a slow caller would keep from the others.
    let offer: OfferBundleRequest = answer::read_json(request, OFFER_BODY_BYTES_MAX).await?;
    let offer = offer.parse().map_err(|OfferFault { pointer, message }| vec![Fault::at(pointer, message)])?;
    let _permit = app.offers.acquire().await.map_err(|_| failed())?;
    let verifier = app.verifier;
    let kept = blocking(move || verifier.policies.offer(offer, gateway_service::now())).await?;
    kept.map_err(|untrusted| {
        tracing::warn!(reason = error_chain(&untrusted), "a policy bundle was refused");
        bundle_error(&untrusted)
    })?;
    Ok(Json(Nothing {}))
}

/// Runs work that takes a core for some time, away from the threads that serve connections.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ErrorAnswer> {
    tokio::task::spawn_blocking(work).await.map_err(|_| failed())
}

/// Does not occur: the semaphores are never closed, and the work does not panic.
fn failed() -> ErrorAnswer {
    ErrorAnswer::unavailable("the authority cannot decide now")
}

fn error(unverified: &Unverified) -> ErrorAnswer {
    let message = unverified.to_string();
    match unverified {
        Unverified::Approval { fault, .. } | Unverified::Submitter { fault, .. } if fault.passes() => {
            ErrorAnswer::unavailable(message)
        }
        Unverified::NotRepeated(RepeatError::Host(_)) => ErrorAnswer::unavailable(message),
        Unverified::NotRecorded(failure) => {
            tracing::error!(reason = error_chain(failure), "a decision could not be recorded");
            ErrorAnswer::unavailable(message)
        }
        Unverified::Spent { totals, .. } => {
            ErrorAnswer::new(StatusCode::FORBIDDEN, "policy_refused", message).with_totals(totals.clone())
        }
        Unverified::BundleUnknown { bundle_hash } => {
            ErrorAnswer::new(StatusCode::CONFLICT, BUNDLE_UNKNOWN, bundle_hash.to_string())
        }
        Unverified::Superseded(_) => ErrorAnswer::new(StatusCode::CONFLICT, BUNDLE_SUPERSEDED, message),
        Unverified::Bundle(error) => bundle_error(error),
        Unverified::Approval { .. }
        | Unverified::Submitter { .. }
        | Unverified::Policy(Disagreement::Outlived { .. })
        | Unverified::Events(_)
        | Unverified::TooFew { .. }
        | Unverified::Refused(_)
        | Unverified::OtherPayment => {
            let answer = ErrorAnswer::new(StatusCode::FORBIDDEN, DECISION_REFUSED, message);
            match unverified.lapsed() {
                Some(lapsed) => answer.with_lapsed(lapsed),
                None => answer,
            }
        }
        Unverified::Times { .. }
        | Unverified::NotRepeated(
            RepeatError::TooManyFacts
            | RepeatError::Document(_)
            | RepeatError::OtherFacts
            | RepeatError::OtherFuel { .. },
        )
        | Unverified::Policy(_)
        | Unverified::Paid(_)
        | Unverified::Document(_)
        | Unverified::Canonical(_) => ErrorAnswer::new(StatusCode::FORBIDDEN, "decision_disputed", message),
    }
}

/// If the trust roots cannot be read now, the request can be repeated.
fn bundle_error(error: &BundleError) -> ErrorAnswer {
    match error {
        BundleError::NoTrustRoots => {
            ErrorAnswer::unavailable("the authority's policy trust roots cannot be read")
        }
        BundleError::Engine(_) => ErrorAnswer::unavailable("the authority's policy engine cannot start"),
        untrusted => {
            let message = format!("the policy bundle is not trusted: {}", error_chain(untrusted));
            ErrorAnswer::new(StatusCode::FORBIDDEN, "policy_refused", message)
        }
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
