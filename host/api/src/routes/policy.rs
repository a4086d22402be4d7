//! `/v1/policy`.

use crate::error::ApiError;
use crate::error::Code::*;
use crate::extract::{Body, Caller, query};
use crate::state::App;
use crate::strict::Fault;
use crate::warning::{self, Warning};
use crate::wire::bundles::PolicyBundlesResponse;
use crate::wire::policy::{PolicyPreview, PolicyPreviewRequest};
use crate::wire::{bind_caller, not_empty};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use gateway_auth::Scope::*;
use gateway_domain::approval::Approval;
use gateway_domain::time::EpochMs;
use gateway_engine::{EngineError, Preview};

/// Number of activations in one answer: default and maximum.
const HISTORY_DEFAULT: u32 = 20;
const HISTORY_MAX: u32 = 200;

/// Shows the active bundle, the candidate, refused offers, and past activations.
#[utoipa::path(
    get, path = "/v1/policy/bundles", operation_id = "policy_bundles", tag = "policy",
    security(("bearer" = [PolicyRead])), responses((status = 200, body = PolicyBundlesResponse)),
    params(
        ("limit" = Option<u32>, Query, description = "Maximum number of activations in `history`; 20 by default", minimum = 1, maximum = 200),
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
    let submitter = bind_caller(&caller.principal, request.client.parse_at("/intent/client")?)?;
    let approvals = approvals.into_iter().enumerate().map(|(index, mut approval)| {
        let pointer = format!("/approvals/{index}");
        // Checked and then dropped: the policy does not see the sender of an approval.
        approval.client.take().map(|client| client.parse_at(&format!("{pointer}/client"))).transpose()?;
        Ok(preview_approval(approval.vote().map_err(|fault| fault.within(&pointer))?))
    });
    let approvals = approvals.collect::<Result<Vec<_>, ApiError>>()?;
    let preview = Preview { tenant: submitter.tenant(), submitter, intent, approvals };
    let outcome = app.engine().preview(preview).await.map_err(within_intent)?;
    let warnings = Warning::unknown_members(&body.unknown);
    Ok((warning::headers(&warnings), Json(PolicyPreview::from(&outcome))))
}

/// Prefixes the engine's pointers, which are relative to the intent, with the intent's own.
fn within_intent(error: EngineError) -> ApiError {
    match error {
        EngineError::Invalid { pointer, message } => Fault::at(pointer, message).within("/intent").into(),
        other => other.into(),
    }
}

/// The approval as it would be recorded, except that its time is the claimed one. A signature is not verified: it would be
/// over the id of an operation, which does not exist.
fn preview_approval(vote: gateway_engine::Approve) -> Approval {
    Approval {
        approved_at_ms: EpochMs(u64::try_from(vote.claimed_at_ms).unwrap_or_default()),
        subject_id: vote.subject_id,
        roles: vote.roles,
        claimed_at_ms: vote.claimed_at_ms,
        signature: None,
    }
}
