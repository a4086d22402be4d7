//! `/v1/operations`: payments.

use super::*;
use crate::wire::body_digest;
use crate::wire::operations::{PublishOperationRequest, SignOperationRequest};
use crate::wire::view::{OperationNodeRecoveryResponse, OperationsResponse, SignOperationResponse};
use gateway_engine::Submit;
use gateway_service::layers::current_request_id;

operation_routes! {
    Product, path "/v1/operations", id "operation", tag "operations",
    list
    /// Lists operations, newest first. A page may have fewer than `limit`, even none, while a `next_cursor` says that there are more.
    "operations",
    shapes {
        view OperationView, page OperationsResponse, recovered OperationNodeRecoveryResponse, publish PublishOperationRequest
    },
    scopes {
        read OperationsRead, approve OperationsApprove, submit OperationsSign, execute OperationsExecute,
        publish OperationsPublish, recover OperationsRecover
    },
    idempotency_key "Only the operation with this idempotency key",
    errors {
        execute [
            OperationNotExecuted, OperationFailed, EpochFenceMismatch, EpochConflict, CustodyKeyNotActive, ConcurrentUpdate,
            RuntimeUnavailable
        ],
        recover [RecoveryConflict, ConcurrentUpdate, RuntimeUnavailable]
    },
}

async fn view(app: &App, record: &Record, warnings: Vec<Warning>) -> Result<OperationView, ApiError> {
    Ok(operation_view(app, record, warnings))
}

const fn recovered(recovery: Recovery, operation: OperationView) -> OperationNodeRecoveryResponse {
    OperationNodeRecoveryResponse { recovery, operation }
}

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
    Ok((
        headers,
        Json(SignOperationResponse { operation: operation_view(&app, &submitted.record, warnings) }),
    ))
}

fn parse_submission(caller: &Caller, body: Body<SignOperationRequest>) -> Result<Submit, ApiError> {
    let (request, intent) = (body.value, body.checked);
    let claimed = request.client.parse()?;
    let body_digest = body_digest(&intent, &claimed)?;
    let submitter = bind_caller(&caller.principal, claimed)?;
    Ok(Submit {
        tenant: submitter.tenant(),
        submitter,
        claims: caller.principal.facts(),
        idempotency_key: Some(request.idempotency_key),
        intent,
        body_digest,
        unknown_fields: body.unknown,
        request_id: current_request_id(),
    })
}
