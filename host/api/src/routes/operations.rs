//! The code that the handlers of both families share.

pub mod custody;
pub mod payments;

use crate::error::{ApiError, Code, rate_limit_headers};
use crate::extract::list::ListQuery;
use crate::extract::query::{self, invalid_query};
use crate::extract::{Body, Caller, RejectsMismatch};
use crate::state::App;
use crate::warning::{self, Warning};
use crate::wire::abort::CustodyAbortRequest;
use crate::wire::operations::{ApproveOperationRequest, ExecuteOperationRequest, NodeRecoveryRequest};
use crate::wire::reject::{CancelOperationRequest, RejectOperationRequest};
use crate::wire::view::OperationView;
use crate::wire::{ClientBinding, RequestShape, bind_caller, fresh_salt};
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use gateway_auth::Principal;
use gateway_domain::ids::OperationId;
use gateway_domain::intent::{Family, OperationType};
use gateway_domain::names::is_same_person;
use gateway_domain::operation::{Recovery, Requester, State};
use gateway_engine::ports::{OperationFilter, Record};
use gateway_engine::{
    Approve, Cancel, Execute, ListOperations, Page, Publish, Recover, Reject, Submitted, Target,
};
use std::time::Duration;

/// A response body and its additional headers.
pub type Answer<T> = Result<(HeaderMap, Json<T>), ApiError>;

/// The operation with this id, if it is of this family and the caller can see it.
pub fn target(family: Family, caller: &Caller, id: OperationId) -> Target {
    Target { family, visibility: caller.visibility(), id }
}

/// The view of an operation in the answer to a request with these warnings.
pub fn view(app: &App, record: &Record, warnings: Vec<Warning>) -> OperationView {
    let (engine, operation) = (app.engine(), &record.operation);
    OperationView::new(
        record,
        engine.approvals_expire_at(operation),
        engine.lapsed_approvals(operation),
        warnings,
    )
}

/// The longest time that a caller may wait for another state, milliseconds.
const WAIT_MS_MAX: u64 = 30_000;

/// Reads the operation, at once or when its state is another than the caller knows.
///
/// # Errors
/// [`ApiError`] of the query or the engine.
pub async fn read(app: &App, target: &Target, query: &str) -> Result<Record, ApiError> {
    let within = query::optional_number(query, "wait_ms")?;
    let unless = query::once(query, "unless_state")?
        .map(|text| query::word("unless_state", text, &State::ALL, State::as_str));
    match (within, unless.transpose()?) {
        (None, None) => Ok(app.engine().operation(target).await?),
        (Some(within), Some(unless)) if within <= WAIT_MS_MAX => {
            let within = Duration::from_millis(within).min(app.options().request_within / 2);
            Ok(app.engine().operation_unless(target, unless, within).await?)
        }
        (Some(_), Some(_)) => Err(invalid_query(format!("`wait_ms` must be at most {WAIT_MS_MAX}"))),
        (Some(_), None) | (None, Some(_)) => {
            Err(invalid_query("`wait_ms` and `unless_state` must be given together".to_owned()))
        }
    }
}

/// The filters of a list of operations.
pub const FILTERS: [&str; 7] = [
    "state",
    "operation_type",
    "key_ref",
    "idempotency_key",
    "created_after_ms",
    "created_before_ms",
    "awaiting",
];

/// Reads a part of the list of operations.
///
/// # Errors
/// [`ApiError`] of the query or the engine.
pub async fn list(
    app: &App,
    family: Family,
    caller: &Caller,
    query: &ListQuery,
) -> Result<Page<Record>, ApiError> {
    let awaiting = awaited(caller, query)?;
    let filter = OperationFilter {
        family,
        state: query.filters.word("state", &State::ALL, State::as_str)?,
        operation_type: query.filters.word("operation_type", &OperationType::ALL, OperationType::as_str)?,
        key_ref: query.filters.key_ref(),
        idempotency_key: query.filters.text("idempotency_key").map(str::to_owned),
        awaits_approvals: awaiting.is_some(),
        created: query.filters.created()?,
    };
    if family == Family::Custody && filter.idempotency_key.is_some() && filter.key_ref.is_none() {
        let message = "`idempotency_key` needs `key_ref`: each key has idempotency keys of its own";
        return Err(invalid_query(message.to_owned()));
    }
    let (after, n_max) = (query.after, query.n_max);
    let list = ListOperations { visibility: caller.visibility(), filter, awaiting, after, n_max };
    Ok(app.engine().operations(&list).await?)
}

/// The subject of `awaiting=me`.
fn awaited(caller: &Caller, query: &ListQuery) -> Result<Option<String>, ApiError> {
    let Some(()) = query.filters.word("awaiting", &[()], |()| "me")? else { return Ok(None) };
    match &caller.principal {
        Principal::Identified(identity) => Ok(Some(identity.subject_id.clone())),
        Principal::Unrestricted => {
            let message = "`awaiting=me` needs a caller: send the identity headers";
            Err(invalid_query(message.to_owned()))
        }
    }
}

/// Records an approval.
///
/// # Errors
/// [`ApiError`] of the body, the binding or the engine.
pub async fn approve(
    app: &App,
    principal: &Principal,
    target: Target,
    body: Body<ApproveOperationRequest>,
) -> Result<(Vec<Warning>, Record), ApiError> {
    let requester = requester(principal, body.value.client.clone(), &body.unknown)?;
    check_approver(principal, &body.value.subject_id, &body.value.roles)?;
    let record = app.engine().approve(target, Approve { requester, ..body.checked }).await?;
    Ok((Warning::unknown_members(&body.unknown), record))
}

/// Records a rejection.
///
/// # Errors
/// [`ApiError`] of the body, the binding or the engine.
pub async fn reject(
    app: &App,
    principal: &Principal,
    target: Target,
    body: Body<RejectOperationRequest>,
) -> Result<(Vec<Warning>, Record), ApiError> {
    let requester = requester(principal, body.value.client.clone(), &body.unknown)?;
    check_approver(principal, &body.value.subject_id, &body.value.roles)?;
    let record = app.engine().reject(target, Reject { requester, ..body.checked }).await?;
    Ok((Warning::unknown_members(&body.unknown), record))
}

/// Records an abort of a change of a key.
///
/// # Errors
/// [`ApiError`] of the body, the binding or the engine.
pub async fn abort(
    app: &App,
    principal: &Principal,
    target: Target,
    body: Body<CustodyAbortRequest>,
) -> Result<(Vec<Warning>, Record), ApiError> {
    let requester = requester(principal, body.value.client.clone(), &body.unknown)?;
    check_approver(principal, &body.value.subject_id, &body.value.roles)?;
    let record = app.engine().abort(target, Reject { requester, ..body.checked }).await?;
    Ok((Warning::unknown_members(&body.unknown), record))
}

/// Cancels an operation.
///
/// # Errors
/// [`ApiError`] of the body, the binding or the engine.
pub async fn cancel(
    app: &App,
    principal: &Principal,
    target: Target,
    body: Body<CancelOperationRequest>,
) -> Result<(Vec<Warning>, Record), ApiError> {
    let requester = requester(principal, body.value.client.clone(), &body.unknown)?;
    let record = app.engine().cancel(target, Cancel { requester, ..body.checked }).await?;
    Ok((Warning::unknown_members(&body.unknown), record))
}

/// Executes an operation.
///
/// # Errors
/// [`ApiError`] of the body, the binding or the engine.
pub async fn execute(
    app: &App,
    principal: &Principal,
    target: Target,
    request: Request,
) -> Result<(Vec<Warning>, Record), ApiError> {
    let bytes_max = app.options().body_bytes_max;
    let body = Body::<ExecuteOperationRequest>::read_optional(request, app, bytes_max).await?;
    let requester = requester(principal, body.value.client, &body.unknown)?;
    let execute = Execute { requested_at_ms: body.value.requested_at_ms, requester };
    let record = app.engine().execute(target, execute).await?;
    Ok((Warning::unknown_members(&body.unknown), record))
}

/// Publishes an operation.
///
/// # Errors
/// [`ApiError`] of the body, the binding or the engine.
pub async fn publish<R: RequestShape<Checked = Publish>>(
    app: &App,
    principal: &Principal,
    target: Target,
    body: Body<R>,
) -> Result<(Vec<Warning>, Record), ApiError> {
    let requester = requester(principal, body.value.client().cloned(), &body.unknown)?;
    let record = app.engine().publish(target, Publish { requester, ..body.checked }).await?;
    Ok((Warning::unknown_members(&body.unknown), record))
}

/// Recovers one effect of an operation.
///
/// # Errors
/// [`ApiError`] of the body, the binding or the engine.
pub async fn node_recovery(
    app: &App,
    principal: &Principal,
    target: Target,
    request: Request,
) -> Result<(Vec<Warning>, Recovery, Record), ApiError> {
    let bytes_max = app.options().recovery_body_bytes_max;
    let body = Body::<NodeRecoveryRequest>::read_optional(request, app, bytes_max).await?;
    let requester = requester(principal, body.value.client.clone(), &body.unknown)?;
    let recover = Recover { requester, ..body.checked };
    let (recovery, record) = app.engine().recover(target, recover).await?;
    Ok((Warning::unknown_members(&body.unknown), recovery, record))
}

/// The warnings about a submission, and the headers of its answer.
///
/// # Errors
/// `idempotency_mismatch` if the operation was created by another body and the caller rejects that.
pub fn submission_warnings(
    unknown: &[String],
    submitted: &Submitted,
    RejectsMismatch(rejects): RejectsMismatch,
) -> Result<(Vec<Warning>, HeaderMap), ApiError> {
    if submitted.body_differs && rejects {
        let id = submitted.record.operation.id;
        let message = format!(
            "this idempotency key was first used with another body, which created operation `{id}`; send that body, or another key"
        );
        return Err(ApiError::new(Code::IdempotencyMismatch, message));
    }
    gateway_service::layers::note_operation(submitted.record.operation.id);
    let mut warnings = Warning::unknown_members(unknown);
    warnings.extend(submitted.body_differs.then(Warning::idempotency_mismatch));
    warnings.extend(submitted.fence_is_stale.then(Warning::stale_fence));
    warnings.extend(Warning::uncompared_contributions(&submitted.record.operation.intent));
    warnings.extend(Warning::replaced_profile(&submitted.record.operation.intent));
    let mut headers = warning::headers(&warnings);
    if submitted.replayed {
        headers.insert(HeaderName::from_static("idempotency-replayed"), HeaderValue::from_static("true"));
    }
    for (name, value) in submitted.quota.into_iter().flat_map(rate_limit_headers) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    Ok((warnings, headers))
}

/// The requester, for evidence: the authenticated caller, which `client` must agree with if it is given, or for an
/// unrestricted caller `client` itself.
pub(super) fn requester(
    principal: &Principal,
    client: Option<ClientBinding>,
    unknown_fields: &[String],
) -> Result<Option<Requester>, ApiError> {
    let claimed = client.map(ClientBinding::parse).transpose()?;
    let client = match (claimed, principal) {
        (Some(claimed), _) => Some(bind_caller(principal, claimed)?),
        (None, Principal::Identified(identity)) => Some(identity.binding(fresh_salt()?)),
        (None, Principal::Unrestricted) => None,
    };
    let has_content = client.is_some() || !unknown_fields.is_empty();
    Ok(has_content.then(|| Requester { client, unknown_fields: unknown_fields.to_vec() }))
}

/// Checks that an authenticated caller approves, rejects or aborts under its own subject and in roles that it has.
fn check_approver(principal: &Principal, subject_id: &str, roles: &[String]) -> Result<(), ApiError> {
    let Principal::Identified(identity) = principal else { return Ok(()) };
    let refused = |message| Err(ApiError::new(Code::ApproverNotPermitted, message));
    if !is_same_person(&identity.subject_id, subject_id) {
        return refused(format!("`/subject_id` must be the caller's own, `{}`", identity.subject_id));
    }
    match roles.iter().find(|role| !identity.roles.contains(role)) {
        Some(role) => refused(format!("`/roles` must be roles of the caller, which does not have `{role}`")),
        None => Ok(()),
    }
}
