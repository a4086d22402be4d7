//! `/v1/policy`.

use super::lifecycle::warn_unknown;
use crate::error::ApiError;
use crate::error::Code::*;
use crate::extract::{Body, Caller, query};
use crate::state::App;
use crate::strict::Fault;
use crate::wire::bundles::PolicyBundlesResponse;
use crate::wire::policy::{PolicyPreview, PolicyPreviewRequest};
use crate::wire::{bound, not_empty};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use gateway_auth::Scope::*;
use gateway_domain::approval::Approval;
use gateway_domain::time::EpochMs;
use gateway_engine::{EngineError, Preview};

/// Activations in one answer: by default, and at most.
const HISTORY_DEFAULT: u32 = 20;
const HISTORY_MAX: u32 = 200;

/// Shows the bundles: the active one, the candidate, refused ones, and past activations.
#[utoipa::path(
    get, path = "/v1/policy/bundles", operation_id = "policy_bundles", tag = "policy",
    security(("bearer" = [PolicyRead])), responses((status = 200, body = PolicyBundlesResponse)),
    params(
        ("limit" = Option<u32>, Query, description = "Most activations in `history`", minimum = 1, maximum = 200),
    ),
)]
pub async fn bundles(
    _caller: Caller,
    uri: Uri,
    State(app): State<App>,
) -> Result<Json<PolicyBundlesResponse>, ApiError> {
    let limit = query::limit(uri.query().unwrap_or_default(), HISTORY_DEFAULT, HISTORY_MAX)?;
    Ok(Json(app.engine().policies(limit).await?.into()))
}

/// Evaluates the policy without creating an operation. The evaluation is recorded before the answer is sent.
#[utoipa::path(
    post, path = "/v1/policy/preview", operation_id = "policy_preview", tag = "policy",
    security(("bearer" = [OperationsAny])), request_body = PolicyPreviewRequest,
    responses((status = 200, body = PolicyPreview)),
    extensions(("x-errors" = json!([PolicyAdmissionRateLimited]))),
)]
pub async fn preview(
    State(app): State<App>,
    caller: Caller,
    body: Body<PolicyPreviewRequest>,
) -> Result<(HeaderMap, Json<PolicyPreview>), ApiError> {
    let PolicyPreviewRequest { intent: request, approvals } = body.value;
    let intent = request.intent().map_err(|fault| fault.within("/intent"))?;
    not_empty("/intent/idempotency_key", request.idempotency_key)?;
    let submitter = bound(&caller.principal, request.client.parse_at("/intent/client")?)?;
    let approvals = approvals.into_iter().enumerate().map(|(index, mut approval)| {
        let pointer = format!("/approvals/{index}");
        // The policy does not depend on who would send the approval.
        approval.client.take().map(|client| client.parse_at(&format!("{pointer}/client"))).transpose()?;
        Ok(claimed(approval.vote().map_err(|fault| fault.within(&pointer))?))
    });
    let approvals = approvals.collect::<Result<Vec<_>, ApiError>>()?;
    let preview = Preview { tenant: submitter.tenant(), submitter, intent, approvals };
    let outcome = app.engine().preview(preview).await.map_err(in_the_intent)?;
    Ok((warn_unknown(&body.unknown), Json(PolicyPreview::from(&outcome))))
}

/// The engine's pointers are relative to the intent, which is a member of this body.
fn in_the_intent(error: EngineError) -> ApiError {
    match error {
        EngineError::Invalid { pointer, message } => Fault::at(pointer, message).within("/intent").into(),
        other => other.into(),
    }
}

/// The approval as it would be recorded, with the claimed time in place of the gateway's. A signature is not verified: there
/// is no operation that it could be over.
fn claimed(vote: gateway_engine::Approve) -> Approval {
    Approval {
        approved_at_ms: EpochMs(u64::try_from(vote.claimed_at_ms).unwrap_or_default()),
        subject_id: vote.subject_id,
        roles: vote.roles,
        claimed_at_ms: vote.claimed_at_ms,
        signature: None,
    }
}
