//! `/v1/custody/operations`: keys and their signatures.

use super::*;
use crate::wire::abort::CustodyAbortRequest;
use crate::wire::custody::CustodyPublishRequest;
use crate::wire::custody_view::{CustodyOperationView, CustodyOperationsResponse};
use crate::wire::external_export::CustodyExternalExportRequest;
use gateway_engine::Export;
use gateway_service::layers::current_request_id;

operation_routes! {
    Custody, path "/v1/custody/operations", id "custody_operation", tag "custody",
    list
    /// Lists custody operations, newest first. A page may have fewer than `limit`, even none, while a `next_cursor` says that there are more.
    "custody operations",
    shapes {
        view CustodyOperationView, page CustodyOperationsResponse, recovered CustodyOperationView,
        publish CustodyPublishRequest
    },
    scopes {
        read CustodyRead, approve CustodyApprove, submit CustodySubmit, execute CustodyExecute, publish CustodyPublish,
        recover CustodyRecover
    },
    idempotency_key "Only the operation with this idempotency key of the key `key_ref`, which must be given too",
    errors {
        execute [
            OperationNotExecuted, OperationFailed, EpochFenceMismatch, EpochConflict, CustodyKeyNotActive, CustodyKeyBusy,
            ConcurrentUpdate, PolicyUnavailable, RuntimeUnavailable
        ],
        recover [RecoveryConflict, CustodyKeyNotActive, ConcurrentUpdate, RuntimeUnavailable]
    },
}

/// The operation, with the members that depend on its key.
pub(in crate::routes) async fn view(
    app: &App,
    record: &Record,
    warnings: Vec<Warning>,
) -> Result<CustodyOperationView, ApiError> {
    let key = app.engine().key_of(&record.operation).await?;
    Ok(CustodyOperationView::new(operation_view(app, record, warnings), record, key.as_ref()))
}

fn recovered(_: Recovery, operation: CustodyOperationView) -> CustodyOperationView {
    operation
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
    let export = Export { requester: requester_of(&caller, &body)?, ..body.checked };
    let record = app.engine().export(target(Family::Custody, &caller, id), export).await?;
    answer(&app, &record, &body.unknown).await
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
    let requester = approver(&caller, &body, &body.value.subject_id, &body.value.roles)?;
    let abort = Reject { requester, request_id: current_request_id(), ..body.checked };
    let record = app.engine().abort(target(Family::Custody, &caller, id), abort).await?;
    answer(&app, &record, &body.unknown).await
}
