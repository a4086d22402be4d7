//! `/v1/policy`.

use crate::error::ApiError;
use crate::error::Code::*;
use crate::extract::{Body, Caller, query};
use crate::state::App;
use crate::warning::{self, Warning};
use crate::wire::bind_caller;
use crate::wire::policy::{PolicyPreview, PolicyPreviewRequest, Previewed};
use crate::wire::shadow::ShadowResponse;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use gateway_auth::Scope::*;
use gateway_engine::ports::PolicyStatus;
use gateway_engine::{EngineError, Preview};
use gateway_service::layers::current_request_id;
use gateway_service::strict::Fault;

/// Number of activations in one answer: default and maximum.
const HISTORY_DEFAULT: u32 = 20;
const HISTORY_MAX: u32 = 200;

/// Shows the active bundle, the candidate, refused offers, and past activations.
#[utoipa::path(
    get, path = "/v1/policy/bundles", operation_id = "policy_bundles", tag = "policy",
    security(("bearer" = [PolicyRead])), responses((status = 200, body = PolicyStatus)),
    params(
        ("limit" = Option<u32>, Query, description = "Maximum number of activations in `history`; 20 by default", minimum = 1, maximum = 200),
    ),
)]
pub async fn bundles(
    _caller: Caller,
    uri: Uri,
    State(app): State<App>,
) -> Result<Json<PolicyStatus>, ApiError> {
    let limit = query::limit(uri.query().unwrap_or_default(), HISTORY_DEFAULT, HISTORY_MAX)?;
    Ok(Json(app.engine().policies(limit).await?))
}

/// Shows the latest decisions that the candidate would have made otherwise. `candidate` of `GET /v1/policy/bundles` counts all of them.
#[utoipa::path(
    get, path = "/v1/policy/shadow", operation_id = "policy_shadow", tag = "policy",
    security(("bearer" = [AuditRead])), responses((status = 200, body = ShadowResponse)),
)]
pub async fn shadow(caller: Caller, State(app): State<App>) -> Json<ShadowResponse> {
    let shadow = app.engine().shadow_differences(&caller.visibility());
    Json(ShadowResponse::new(app.engine(), shadow))
}

/// Evaluates the policy without creating an operation. The evaluation is recorded before the answer is sent, unless it assumes facts.
#[utoipa::path(
    post, path = "/v1/policy/preview", operation_id = "policy_preview", tag = "policy",
    security(("bearer" = [OperationsAny])), request_body = PolicyPreviewRequest,
    responses((status = 200, body = PolicyPreview)),
    extensions(("x-errors" = json!([PolicyAdmissionRateLimited, CustodyKeyNotFound]))),
)]
pub async fn preview(
    State(app): State<App>,
    caller: Caller,
    body: Body<PolicyPreviewRequest>,
) -> Result<(HeaderMap, Json<PolicyPreview>), ApiError> {
    let Previewed { pointer: within, key_ref, intent, client, approvals } = body.checked;
    let submitter = bind_caller(&caller.principal, client.parse()?)?;
    let (request_id, assumed) = (current_request_id(), body.value.what_if);
    let tenant = submitter.tenant();
    let claims = caller.principal.facts();
    let preview = Preview { tenant, submitter, claims, key_ref, intent, approvals, assumed, request_id };
    let outcome = app.engine().preview(preview).await.map_err(|error| match error {
        EngineError::Invalid { pointer, message } => vec![Fault::at(pointer, message).within(within)].into(),
        other => ApiError::from(other),
    })?;
    let warnings = Warning::unknown_members(&body.unknown);
    Ok((warning::headers(&warnings), Json(PolicyPreview::from(&outcome))))
}
