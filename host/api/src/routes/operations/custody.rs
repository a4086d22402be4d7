//! `/v1/custody/operations`.

use super::{self as lifecycle, Answer, requester};
use crate::error::ApiError;
use crate::error::Code::*;
use crate::extract::list::ListQuery;
use crate::extract::{Body, Caller, PathOperationId};
use crate::state::App;
use crate::warning::{self, Warning};
use crate::wire::abort::CustodyAbortRequest;
use crate::wire::custody::CustodyPublishRequest;
use crate::wire::custody_view::{CustodyOperationType, CustodyOperationView, CustodyOperationsResponse};
use crate::wire::external_export::CustodyExternalExportRequest;
use crate::wire::operations::{ApproveOperationRequest, ExecuteOperationRequest, NodeRecoveryRequest};
use crate::wire::reject::{CancelOperationRequest, RejectOperationRequest};
use crate::wire::view::{Awaiting, OperationState};
use axum::Json;
use axum::extract::{RawQuery, Request, State};
use gateway_auth::Scope::*;
use gateway_domain::intent::Family;
use gateway_engine::Export;
use gateway_engine::ports::Record;

/// The operation, with the members that depend on its key.
pub(in crate::routes) async fn view(
    app: &App,
    record: &Record,
    warnings: Vec<Warning>,
) -> Result<CustodyOperationView, ApiError> {
    let key = app.engine().key_of(&record.operation).await?;
    Ok(CustodyOperationView::new(lifecycle::view(app, record, warnings), record, key.as_ref()))
}

/// The answer to a command, with its warnings also as headers.
async fn answer(app: &App, record: &Record, warnings: Vec<Warning>) -> Answer<CustodyOperationView> {
    Ok((warning::headers(&warnings), Json(view(app, record, warnings).await?)))
}

/// Lists custody operations, newest first. A page may have fewer than `limit`, even none, while a `next_cursor` says that there are more.
#[utoipa::path(
    get, path = "/v1/custody/operations", operation_id = "custody_operation_list", tag = "custody",
    security(("bearer" = [CustodyRead])), responses((status = 200, body = CustodyOperationsResponse)),
    params(
        ("state" = Option<OperationState>, Query, description = "Only operations in this state"),
        ("operation_type" = Option<CustodyOperationType>, Query, description = "Only operations of this type"),
        ("key_ref" = Option<String>, Query, description = "Only operations whose request names this key"),
        ("idempotency_key" = Option<String>, Query, description = "Only the operation with this idempotency key of the key `key_ref`, which must be given too"),
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
) -> Result<Json<CustodyOperationsResponse>, ApiError> {
    let query =
        ListQuery::parse("custody operations", query.as_deref().unwrap_or_default(), &lifecycle::FILTERS)?;
    let page = lifecycle::list(&app, Family::Custody, &caller, &query).await?;
    Ok(Json(views(&app, &page.items, query.cursor(page.next)).await?))
}

/// A page of operations.
pub(in crate::routes) async fn views(
    app: &App,
    records: &[Record],
    next_cursor: Option<String>,
) -> Result<CustodyOperationsResponse, ApiError> {
    let mut operations = Vec::with_capacity(records.len());
    for record in records {
        operations.push(view(app, record, Vec::new()).await?);
    }
    Ok(CustodyOperationsResponse { operations, next_cursor })
}

/// Shows the operation. With `wait_ms` and `unless_state` it waits for another state.
#[utoipa::path(
    get, path = "/v1/custody/operations/{operationId}",
    operation_id = "custody_operation_show", tag = "custody",
    security(("bearer" = [CustodyRead])), responses((status = 200, body = CustodyOperationView)),
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
) -> Result<Json<CustodyOperationView>, ApiError> {
    let target = lifecycle::target(Family::Custody, &caller, id);
    let record = lifecycle::read(&app, &target, query.as_deref().unwrap_or_default()).await?;
    Ok(Json(view(&app, &record, Vec::new()).await?))
}

/// Records an approval; reaching the quorum triggers admission.
///
/// An approval that does not count uses up a token of the client's rate limit.
#[utoipa::path(
    post, path = "/v1/custody/operations/{operationId}/approve",
    operation_id = "custody_operation_approve", tag = "custody",
    security(("bearer" = [CustodyApprove])), request_body = ApproveOperationRequest,
    responses((status = 200, body = CustodyOperationView)),
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
) -> Answer<CustodyOperationView> {
    let target = lifecycle::target(Family::Custody, &caller, id);
    let (warnings, record) = lifecycle::approve(&app, &caller.principal, target, body).await?;
    answer(&app, &record, warnings).await
}

/// Records a rejection by an approver, with its reason. The policy says how many end the operation: by default one. Idempotent.
#[utoipa::path(
    post, path = "/v1/custody/operations/{operationId}/reject",
    operation_id = "custody_operation_reject", tag = "custody",
    security(("bearer" = [CustodyApprove])), request_body = RejectOperationRequest,
    responses((status = 200, body = CustodyOperationView)),
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
) -> Answer<CustodyOperationView> {
    let target = lifecycle::target(Family::Custody, &caller, id);
    let (warnings, record) = lifecycle::reject(&app, &caller.principal, target, body).await?;
    answer(&app, &record, warnings).await
}

/// Cancels the operation for its submitter, before it is admitted. Idempotent.
#[utoipa::path(
    post, path = "/v1/custody/operations/{operationId}/cancel",
    operation_id = "custody_operation_cancel", tag = "custody",
    security(("bearer" = [CustodySubmit])), request_body = CancelOperationRequest,
    responses((status = 200, body = CustodyOperationView)),
    extensions(("x-errors" = json!([OperationAdmitted, OperationFailed, ConcurrentUpdate]))),
)]
pub async fn cancel(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    body: Body<CancelOperationRequest>,
) -> Answer<CustodyOperationView> {
    let target = lifecycle::target(Family::Custody, &caller, id);
    let (warnings, record) = lifecycle::cancel(&app, &caller.principal, target, body).await?;
    answer(&app, &record, warnings).await
}

/// Obtains the nodes' policy receipts and executes the operation; safe to repeat.
#[utoipa::path(
    post, path = "/v1/custody/operations/{operationId}/execute",
    operation_id = "custody_operation_execute", tag = "custody",
    security(("bearer" = [CustodyExecute])), request_body = Option<ExecuteOperationRequest>,
    responses((status = 200, body = CustodyOperationView)),
    extensions(("x-errors" = json!([
        OperationNotExecuted, OperationFailed, EpochFenceMismatch, EpochConflict, CustodyKeyNotActive,
        CustodyKeyBusy, ConcurrentUpdate, PolicyUnavailable, RuntimeUnavailable,
    ]))),
)]
pub async fn execute(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    request: Request,
) -> Answer<CustodyOperationView> {
    let target = lifecycle::target(Family::Custody, &caller, id);
    let executed = lifecycle::execute(&app, &caller.principal, target, request).await;
    let (warnings, record) = executed.map_err(ApiError::for_execute)?;
    answer(&app, &record, warnings).await
}

/// Publishes the result; safe to repeat.
#[utoipa::path(
    post, path = "/v1/custody/operations/{operationId}/publish",
    operation_id = "custody_operation_publish", tag = "custody",
    security(("bearer" = [CustodyPublish])), request_body = CustodyPublishRequest,
    responses((status = 200, body = CustodyOperationView)),
    extensions(("x-errors" = json!([
        OperationNotExecuted, ResultRefMismatch, OperationFailed, ConcurrentUpdate, RuntimeUnavailable,
    ]))),
)]
pub async fn publish(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    body: Body<CustodyPublishRequest>,
) -> Answer<CustodyOperationView> {
    let target = lifecycle::target(Family::Custody, &caller, id);
    let (warnings, record) = lifecycle::publish(&app, &caller.principal, target, body).await?;
    answer(&app, &record, warnings).await
}

/// Recovers one runtime effect; idempotent by `effect_id`.
#[utoipa::path(
    post, path = "/v1/custody/operations/{operationId}/node-recovery",
    operation_id = "custody_operation_node_recovery", tag = "custody",
    security(("bearer" = [CustodyRecover])), request_body = NodeRecoveryRequest,
    responses((status = 200, body = CustodyOperationView)),
    extensions(("x-errors" = json!([
        RecoveryConflict, CustodyKeyNotActive, ConcurrentUpdate, RuntimeUnavailable,
    ]))),
)]
pub async fn node_recovery(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    request: Request,
) -> Answer<CustodyOperationView> {
    let target = lifecycle::target(Family::Custody, &caller, id);
    let (warnings, _, record) = lifecycle::node_recovery(&app, &caller.principal, target, request).await?;
    answer(&app, &record, warnings).await
}

/// Records the progress of the published result on an external rail.
#[utoipa::path(
    post, path = "/v1/custody/operations/{operationId}/external-export",
    operation_id = "custody_operation_external_export", tag = "custody",
    security(("bearer" = [CustodyExport])), request_body = CustodyExternalExportRequest,
    responses((status = 200, body = CustodyOperationView)),
    extensions(("x-errors" = json!([
        OperationNotExecuted, PublicationReceiptMismatch, ExternalExportConflict, OperationFailed,
        ConcurrentUpdate,
    ]))),
)]
pub async fn external_export(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    body: Body<CustodyExternalExportRequest>,
) -> Answer<CustodyOperationView> {
    let requester = requester(&caller.principal, body.value.client.clone(), &body.unknown)?;
    let export = Export { requester, ..body.checked };
    let target = lifecycle::target(Family::Custody, &caller, id);
    let record = app.engine().export(target, export).await?;
    answer(&app, &record, Warning::unknown_members(&body.unknown)).await
}

/// Ends a change of a key, before all its new shares are stored; the key stays as it was. After that, has the change do without
/// receivers that are lost, whose shares a recovery makes again. Takes the people that a rejection takes. Idempotent.
#[utoipa::path(
    post, path = "/v1/custody/operations/{operationId}/abort",
    operation_id = "custody_operation_abort", tag = "custody",
    security(("bearer" = [CustodyApprove])), request_body = CustodyAbortRequest,
    responses((status = 200, body = CustodyOperationView)),
    extensions(("x-errors" = json!([
        ApproverNotPermitted, EpochConflict, OperationFailed, ConcurrentUpdate, PolicyAdmissionRateLimited,
        PolicyUnavailable, RuntimeUnavailable,
    ]))),
)]
pub async fn abort(
    PathOperationId(id): PathOperationId,
    caller: Caller,
    State(app): State<App>,
    body: Body<CustodyAbortRequest>,
) -> Answer<CustodyOperationView> {
    let target = lifecycle::target(Family::Custody, &caller, id);
    let (warnings, record) = lifecycle::abort(&app, &caller.principal, target, body).await?;
    answer(&app, &record, warnings).await
}
