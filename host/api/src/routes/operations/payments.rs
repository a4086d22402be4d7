//! `/v1/operations`.

use super::{self as lifecycle, Answer, submission_warnings, view};
use crate::error::ApiError;
use crate::error::Code::*;
use crate::extract::list::ListQuery;
use crate::extract::{Body, Caller, PathOperationId, RejectsMismatch};
use crate::state::App;
use crate::warning::{self, Warning};
use crate::wire::custody_view::CustodyOperationType;
use crate::wire::operations::{
    ApproveOperationRequest, ExecuteOperationRequest, NodeRecoveryRequest, OperationNodeRecoveryResponse,
    PublishOperationRequest, RecoveryView, SignOperationRequest, SignOperationResponse,
};
use crate::wire::reject::{CancelOperationRequest, RejectOperationRequest};
use crate::wire::view::{Awaiting, OperationState, OperationView, OperationsResponse};
use crate::wire::{bind_caller, body_digest};
use axum::Json;
use axum::extract::{RawQuery, Request, State};
use axum::http::HeaderMap;
use gateway_auth::Scope::*;
use gateway_domain::intent::Family;
use gateway_domain::operation::{Recovery, RecoveryOutcome};
use gateway_engine::Submit;
use gateway_engine::ports::Record;

/// Creates an operation, or returns the existing one with the same `idempotency_key`.
#[utoipa::path(
    post, path = "/v1/operations/sign", operation_id = "operation_submit", tag = "operations",
    security(("bearer" = [OperationsSign])), request_body = SignOperationRequest,
    responses((status = 200, body = SignOperationResponse)),
    extensions(("x-errors" = json!([
        PolicyRejected, CustodyKeyNotFound, CustodyKeyNotActive, IdempotencyMismatch, ConcurrentUpdate,
        PolicyAdmissionRateLimited, PolicyUnavailable, RuntimeUnavailable,
    ]))),
)]
pub async fn sign(
    State(app): State<App>,
    caller: Caller,
    rejects: RejectsMismatch,
    body: Body<SignOperationRequest>,
) -> Answer<SignOperationResponse> {
    let unknown = body.unknown.clone();
    let submitted = app.engine().submit(parse_submission(&caller, body)?).await?;
    let (warnings, headers) = submission_warnings(&unknown, &submitted, rejects)?;
    Ok((headers, Json(SignOperationResponse { operation: view(&app, &submitted.record, warnings) })))
}

/// The answer to a command, with its warnings also as headers.
fn answer(app: &App, record: &Record, warnings: Vec<Warning>) -> (HeaderMap, Json<OperationView>) {
    (warning::headers(&warnings), Json(view(app, record, warnings)))
}

fn parse_submission(caller: &Caller, body: Body<SignOperationRequest>) -> Result<Submit, ApiError> {
    let (request, intent) = (body.value, body.checked);
    let claimed = request.client.parse()?;
    let body_digest = body_digest(&intent, &claimed)?;
    let submitter = bind_caller(&caller.principal, claimed)?;
    Ok(Submit {
        tenant: submitter.tenant(),
        submitter,
        idempotency_key: Some(request.idempotency_key),
        intent,
        body_digest,
        unknown_fields: body.unknown,
    })
}

/// Lists operations, newest first. A page may have fewer than `limit`, even none, while a `next_cursor` says that there are more.
#[utoipa::path(
    get, path = "/v1/operations", operation_id = "operation_list", tag = "operations",
    security(("bearer" = [OperationsRead])), responses((status = 200, body = OperationsResponse)),
    params(
        ("state" = Option<OperationState>, Query, description = "Only operations in this state"),
        ("operation_type" = Option<CustodyOperationType>, Query, description = "Only operations of this type"),
        ("key_ref" = Option<String>, Query, description = "Only operations whose request names this key"),
        ("idempotency_key" = Option<String>, Query, description = "Only the operation with this idempotency key"),
        ("created_after_ms" = Option<u64>, Query, description = "Only operations submitted later, milliseconds since 1970"),
        ("created_before_ms" = Option<u64>, Query, description = "Only operations submitted earlier, milliseconds since 1970"),
        ("awaiting" = Option<Awaiting>, Query, description = "`me`: only operations that wait for approvals, and that the caller neither submitted nor approved"),
        ("limit" = Option<u32>, Query, description = "Maximum number of operations on a page; 50 by default", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page, which had the same filters; without it the first page", pattern = "^[0-9]{1,18}-[0-9a-f]{64}-[0-9a-f]{16}$"),
    ),
)]
pub async fn list(
    caller: Caller,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<OperationsResponse>, ApiError> {
    let query = ListQuery::parse("operations", query.as_deref().unwrap_or_default(), &lifecycle::FILTERS)?;
    let page = lifecycle::list(&app, Family::Product, &caller, &query).await?;
    let operations = page.items.iter().map(|record| view(&app, record, Vec::new())).collect();
    Ok(Json(OperationsResponse { operations, next_cursor: query.cursor(page.next) }))
}

/// Shows the operation. With `wait_ms` and `unless_state` it waits for another state.
#[utoipa::path(
    get, path = "/v1/operations/{operationId}", operation_id = "operation_show", tag = "operations",
    security(("bearer" = [OperationsRead])), responses((status = 200, body = OperationView)),
    params(
        ("wait_ms" = Option<u32>, Query, description = "Maximum number of milliseconds to wait while the operation is in `unless_state`", maximum = 30000),
        ("unless_state" = Option<OperationState>, Query, description = "The state that the caller knows; required with `wait_ms`"),
    ),
    extensions(("x-errors" = json!([RuntimeUnavailable]))),
)]
pub async fn show(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<OperationView>, ApiError> {
    let target = lifecycle::target(Family::Product, &caller, id);
    let record = lifecycle::read(&app, &target, query.as_deref().unwrap_or_default()).await?;
    Ok(Json(view(&app, &record, Vec::new())))
}

/// Records an approval; reaching the quorum triggers admission.
///
/// An approval that does not count uses up a token of the client's rate limit.
#[utoipa::path(
    post, path = "/v1/operations/{operationId}/approve",
    operation_id = "operation_approve", tag = "operations",
    security(("bearer" = [OperationsApprove])), request_body = ApproveOperationRequest,
    responses((status = 200, body = OperationView)),
    extensions(("x-errors" = json!([
        PolicyRejected, ApproverNotPermitted, OperationFailed, ConcurrentUpdate, PolicyAdmissionRateLimited,
        PolicyUnavailable, RuntimeUnavailable,
    ]))),
)]
pub async fn approve(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    body: Body<ApproveOperationRequest>,
) -> Answer<OperationView> {
    let target = lifecycle::target(Family::Product, &caller, id);
    let (warnings, record) = lifecycle::approve(&app, &caller.principal, target, body).await?;
    Ok(answer(&app, &record, warnings))
}

/// Records a rejection by an approver, with its reason. The policy says how many end the operation: by default one. Idempotent.
#[utoipa::path(
    post, path = "/v1/operations/{operationId}/reject",
    operation_id = "operation_reject", tag = "operations",
    security(("bearer" = [OperationsApprove])), request_body = RejectOperationRequest,
    responses((status = 200, body = OperationView)),
    extensions(("x-errors" = json!([
        ApproverNotPermitted, OperationAdmitted, OperationFailed, ConcurrentUpdate, PolicyAdmissionRateLimited,
        PolicyUnavailable,
    ]))),
)]
pub async fn reject(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    body: Body<RejectOperationRequest>,
) -> Answer<OperationView> {
    let target = lifecycle::target(Family::Product, &caller, id);
    let (warnings, record) = lifecycle::reject(&app, &caller.principal, target, body).await?;
    Ok(answer(&app, &record, warnings))
}

/// Cancels the operation for its submitter, before it is admitted. Idempotent.
#[utoipa::path(
    post, path = "/v1/operations/{operationId}/cancel",
    operation_id = "operation_cancel", tag = "operations",
    security(("bearer" = [OperationsSign])), request_body = CancelOperationRequest,
    responses((status = 200, body = OperationView)),
    extensions(("x-errors" = json!([OperationAdmitted, OperationFailed, ConcurrentUpdate]))),
)]
pub async fn cancel(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    body: Body<CancelOperationRequest>,
) -> Answer<OperationView> {
    let target = lifecycle::target(Family::Product, &caller, id);
    let (warnings, record) = lifecycle::cancel(&app, &caller.principal, target, body).await?;
    Ok(answer(&app, &record, warnings))
}

/// Obtains the nodes' policy receipts and executes the operation; safe to repeat.
#[utoipa::path(
    post, path = "/v1/operations/{operationId}/execute",
    operation_id = "operation_execute", tag = "operations",
    security(("bearer" = [OperationsExecute])), request_body = Option<ExecuteOperationRequest>,
    responses((status = 200, body = OperationView)),
    extensions(("x-errors" = json!([
        OperationNotExecuted, OperationFailed, EpochFenceMismatch, EpochConflict, CustodyKeyNotActive, ConcurrentUpdate,
        RuntimeUnavailable,
    ]))),
)]
pub async fn execute(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    request: Request,
) -> Answer<OperationView> {
    let target = lifecycle::target(Family::Product, &caller, id);
    let executed = lifecycle::execute(&app, &caller.principal, target, request).await;
    let (warnings, record) = executed.map_err(ApiError::for_execute)?;
    Ok(answer(&app, &record, warnings))
}

/// Publishes the result; safe to repeat.
#[utoipa::path(
    post, path = "/v1/operations/{operationId}/publish",
    operation_id = "operation_publish", tag = "operations",
    security(("bearer" = [OperationsPublish])), request_body = PublishOperationRequest,
    responses((status = 200, body = OperationView)),
    extensions(("x-errors" = json!([
        OperationNotExecuted, ResultRefMismatch, OperationFailed, ConcurrentUpdate, RuntimeUnavailable,
    ]))),
)]
pub async fn publish(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    body: Body<PublishOperationRequest>,
) -> Answer<OperationView> {
    let target = lifecycle::target(Family::Product, &caller, id);
    let (warnings, record) = lifecycle::publish(&app, &caller.principal, target, body).await?;
    Ok(answer(&app, &record, warnings))
}

/// Recovers one runtime effect; idempotent by `effect_id`.
#[utoipa::path(
    post, path = "/v1/operations/{operationId}/node-recovery",
    operation_id = "operation_node_recovery", tag = "operations",
    security(("bearer" = [OperationsRecover])), request_body = NodeRecoveryRequest,
    responses((status = 200, body = OperationNodeRecoveryResponse)),
    extensions(("x-errors" = json!([RecoveryConflict, ConcurrentUpdate, RuntimeUnavailable]))),
)]
pub async fn node_recovery(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    request: Request,
) -> Answer<OperationNodeRecoveryResponse> {
    let target = lifecycle::target(Family::Product, &caller, id);
    let (warnings, recovery, record) =
        lifecycle::node_recovery(&app, &caller.principal, target, request).await?;
    let headers = warning::headers(&warnings);
    let operation = view(&app, &record, warnings);
    Ok((headers, Json(OperationNodeRecoveryResponse { recovery: recovery_view(recovery), operation })))
}

fn recovery_view(recovery: Recovery) -> RecoveryView {
    let outcome = match recovery.outcome {
        RecoveryOutcome::Complete => "complete",
        RecoveryOutcome::UnknownEffect => "unknown_effect",
    };
    RecoveryView {
        effect_id: recovery.effect_id,
        outcome: outcome.to_owned(),
        result_root: recovery.result_root,
        recovered_at_ms: recovery.recovered_at_ms.0,
        participants: recovery.participants.into_iter().map(|participant| participant.0).collect(),
    }
}
