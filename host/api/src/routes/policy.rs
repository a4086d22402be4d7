//! `/v1/policy`.

use super::lifecycle::warn_unknown;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{Body, Caller, OperationsAny, PolicyRead, query};
use crate::state::App;
use crate::wire::bundles::PolicyBundlesResponse;
use crate::wire::common::bound;
use crate::wire::policy::{PolicyPreview, PolicyPreviewRequest};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use gateway_domain::approval::Approval;
use gateway_domain::time::EpochMs;
use gateway_engine::Preview;

/// Activations in one answer when the caller does not say, and at most.
const HISTORY_DEFAULT: u32 = 20;
const HISTORY_MAX: u32 = 200;

/// Which bundles there are: the one that judges, the one that looks on, what was refused, and what was active before.
///
/// # Errors
/// [`ApiError`] with the codes listed.
#[utoipa::path(get, path = "/v1/policy/bundles", tag = "policy", params(
    ("limit" = Option<u32>, Query, description = "Most activations in `history`", minimum = 1, maximum = 200),
), responses(
    (status = 200, body = PolicyBundlesResponse),
    (status = 400, description = "`invalid_request`", body = ErrorBody),
    (status = 401, description = "`authentication_required`, `invalid_token`", body = ErrorBody),
    (status = 403, description = "`insufficient_scope`", body = ErrorBody),
    (status = 500, description = "`internal_error`", body = ErrorBody),
    (status = 503, description = "`store_unavailable`", body = ErrorBody),
))]
pub async fn bundles(
    _caller: Caller<PolicyRead>,
    uri: Uri,
    State(app): State<App>,
) -> Result<Json<PolicyBundlesResponse>, ApiError> {
    let limit = query::limit(uri.query().unwrap_or_default(), HISTORY_DEFAULT, HISTORY_MAX)?;
    Ok(Json(app.engine().policies(limit).await?.into()))
}

/// Evaluates the policy without creating an operation. The answer is on record before it is given.
///
/// # Errors
/// [`ApiError`] with the codes listed.
#[utoipa::path(post, path = "/v1/policy/preview", tag = "policy", request_body = PolicyPreviewRequest, responses(
    (status = 200, body = PolicyPreview),
    (status = 400, description = "`invalid_json`", body = ErrorBody),
    (status = 401, description = "`authentication_required`, `invalid_token`", body = ErrorBody),
    (status = 403, description = "`insufficient_scope`, `client_binding_mismatch`", body = ErrorBody),
    (status = 413, description = "`payload_too_large`", body = ErrorBody),
    (status = 415, description = "`unsupported_media_type`", body = ErrorBody),
    (status = 500, description = "`internal_error`", body = ErrorBody),
    (status = 503, description = "`store_unavailable`", body = ErrorBody),
))]
pub async fn preview(
    State(app): State<App>,
    caller: Caller<OperationsAny>,
    body: Body<PolicyPreviewRequest>,
) -> Result<(HeaderMap, Json<PolicyPreview>), ApiError> {
    let PolicyPreviewRequest { intent: request, approvals } = body.value;
    let intent = request.intent()?;
    let submitter = bound(&caller.principal, request.client.parse()?)?;
    let approvals = approvals.into_iter().map(|approval| Ok(claimed(approval.vote()?)));
    let approvals = approvals.collect::<Result<Vec<_>, ApiError>>()?;
    let preview = Preview { tenant: submitter.tenant(), submitter, intent, approvals };
    let outcome = app.engine().preview(preview).await?;
    Ok((warn_unknown(&body.unknown), Json(PolicyPreview::from(&outcome))))
}

/// Nothing happened yet, so the claimed instant stands for the gateway's.
fn claimed(vote: gateway_engine::Vote) -> Approval {
    Approval {
        approved_at_ms: EpochMs(u64::try_from(vote.claimed_at_ms).unwrap_or_default()),
        subject_id: vote.subject_id,
        roles: vote.roles,
        claimed_at_ms: vote.claimed_at_ms,
    }
}
