//! `/v1/operations` and `/v1/custody/operations`: one set of handlers for both families. Each family has its scopes, its view, and the
//! handlers of its own.

use super::evidence::export;
use crate::error::Code::*;
use crate::error::{ApiError, rate_limit_headers};
use crate::extract::list::ListQuery;
use crate::extract::query::{self, invalid_query};
use crate::extract::{Body, Caller, PathOperationId, RejectsMismatch};
use crate::state::App;
use crate::warning::{self, Warning};
use crate::wire::evidence_view::{AuditDocument, EvidenceDocument};
use crate::wire::operations::{ApproveOperationRequest, ExecuteOperationRequest, NodeRecoveryRequest};
use crate::wire::reject::{CancelOperationRequest, RejectOperationRequest};
use crate::wire::view::{Awaiting, OperationView};
use crate::wire::{ClientBinding, RequestShape, bind_caller, fresh_salt};
use axum::Json;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use gateway_auth::Principal;
use gateway_auth::Scope::*;
use gateway_domain::ids::OperationId;
use gateway_domain::intent::{Family, OperationType};
use gateway_domain::names::is_same_person;
use gateway_domain::operation::{self, Recovery, Requester};
use gateway_engine::ports::{OperationFilter, Place, Record};
use gateway_engine::{
    Approve, Cancel, Execute, ListOperations, Page, Publish, Recover, Reject, Submitted, Target,
};
use gateway_evidence::Kind;
use serde_json::Value;
use std::time::Duration;
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

/// The handlers that both families have. The module that they are in has `view`, and `recovered` for the answer to a recovery.
macro_rules! operation_routes {
    (
        $family:ident, path $path:tt, id $id:tt, tag $tag:tt, list $(#[$list_doc:meta])* $list:literal,
        shapes { view $View:ident, page $Page:ident, recovered $Recovered:ident, publish $Publish:ident },
        scopes {
            read $Read:ident, approve $Approve:ident, submit $Submit:ident, execute $Execute:ident, publish $MayPublish:ident,
            recover $Recover:ident
        },
        idempotency_key $idempotency_key:tt,
        errors { execute [$($execute_error:ident),+], recover [$($recover_error:ident),+] },
    ) => {
        $(#[$list_doc])*
        #[utoipa::path(
            get, path = $path, operation_id = concat!($id, "_list"), tag = $tag,
            security(("bearer" = [$Read])), responses((status = 200, body = $Page)),
            params(
                ("state" = Option<operation::State>, Query, description = "Only operations in this state"),
                ("operation_type" = Option<OperationType>, Query, description = "Only operations of this type"),
                ("key_ref" = Option<String>, Query, description = "Only operations whose request names this key"),
                ("idempotency_key" = Option<String>, Query, description = $idempotency_key),
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
        ) -> Result<Json<$Page>, ApiError> {
            let query = ListQuery::parse($list, query.as_deref().unwrap_or_default(), &FILTERS)?;
            let found = find(&app, Family::$family, &caller, &query).await?;
            Ok(Json(page(&app, &found.items, query.cursor(found.next)).await?))
        }

        /// A page of operations.
        pub(in crate::routes) async fn page(
            app: &App,
            records: &[Record],
            next_cursor: Option<String>,
        ) -> Result<$Page, ApiError> {
            let mut operations = Vec::with_capacity(records.len());
            for record in records {
                operations.push(view(app, record, Vec::new()).await?);
            }
            Ok($Page { operations, next_cursor })
        }

        /// Shows the operation. With `wait_ms` and `unless_state` it waits for another state.
        #[utoipa::path(
            get, path = concat!($path, "/{operationId}"), operation_id = concat!($id, "_show"), tag = $tag,
            security(("bearer" = [$Read])), responses((status = 200, body = $View)),
            params(
                ("wait_ms" = Option<u32>, Query, description = "Maximum number of milliseconds to wait while the operation is in `unless_state`", maximum = 30000),
                ("unless_state" = Option<operation::State>, Query, description = "The state that the caller knows; required with `wait_ms`"),
            ),
            extensions(("x-errors" = json!([RuntimeUnavailable]))),
        )]
        pub async fn show(
            PathOperationId(id): PathOperationId,
            caller: Caller,
            State(app): State<App>,
            RawQuery(query): RawQuery,
        ) -> Result<Json<$View>, ApiError> {
            let target = target(Family::$family, &caller, id);
            let record = read(&app, &target, query.as_deref().unwrap_or_default()).await?;
            Ok(Json(view(&app, &record, Vec::new()).await?))
        }

        /// The answer to a command. What was ignored of its body stands in headers too.
        async fn answer(app: &App, record: &Record, unknown: &[String]) -> Answer<$View> {
            let warnings = Warning::unknown_members(unknown);
            Ok((warning::headers(&warnings), Json(view(app, record, warnings).await?)))
        }

        /// Records an approval; reaching the quorum triggers admission.
        ///
        /// An approval that does not count uses up a token of the client's rate limit.
        #[utoipa::path(
            post, path = concat!($path, "/{operationId}/approve"), operation_id = concat!($id, "_approve"), tag = $tag,
            security(("bearer" = [$Approve])), request_body = ApproveOperationRequest,
            responses((status = 200, body = $View)),
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
        ) -> Answer<$View> {
            let requester = approver(&caller, &body, &body.value.subject_id, &body.value.roles)?;
            let approve = Approve { requester, request_id: current_request_id(), ..body.checked };
            let record = app.engine().approve(target(Family::$family, &caller, id), approve).await?;
            answer(&app, &record, &body.unknown).await
        }

        /// Records a rejection by an approver, with its reason. The policy says how many end the operation: by default one. Idempotent.
        #[utoipa::path(
            post, path = concat!($path, "/{operationId}/reject"), operation_id = concat!($id, "_reject"), tag = $tag,
            security(("bearer" = [$Approve])), request_body = RejectOperationRequest,
            responses((status = 200, body = $View)),
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
        ) -> Answer<$View> {
            let requester = approver(&caller, &body, &body.value.subject_id, &body.value.roles)?;
            let reject = Reject { requester, request_id: current_request_id(), ..body.checked };
            let record = app.engine().reject(target(Family::$family, &caller, id), reject).await?;
            answer(&app, &record, &body.unknown).await
        }

        /// Cancels the operation for its submitter, before it is admitted. Idempotent.
        #[utoipa::path(
            post, path = concat!($path, "/{operationId}/cancel"), operation_id = concat!($id, "_cancel"), tag = $tag,
            security(("bearer" = [$Submit])), request_body = CancelOperationRequest,
            responses((status = 200, body = $View)),
            extensions(("x-errors" = json!([OperationAdmitted, OperationFailed, ConcurrentUpdate]))),
        )]
        pub async fn cancel(
            PathOperationId(id): PathOperationId,
            caller: Caller,
            State(app): State<App>,
            body: Body<CancelOperationRequest>,
        ) -> Answer<$View> {
            let cancel = Cancel { requester: requester_of(&caller, &body)?, ..body.checked };
            let record = app.engine().cancel(target(Family::$family, &caller, id), cancel).await?;
            answer(&app, &record, &body.unknown).await
        }

        /// Obtains the nodes' policy receipts and executes the operation; safe to repeat.
        #[utoipa::path(
            post, path = concat!($path, "/{operationId}/execute"), operation_id = concat!($id, "_execute"), tag = $tag,
            security(("bearer" = [$Execute])), request_body = Option<ExecuteOperationRequest>,
            responses((status = 200, body = $View)),
            extensions(("x-errors" = json!([$($execute_error),+]))),
        )]
        pub async fn execute(
            PathOperationId(id): PathOperationId,
            caller: Caller,
            State(app): State<App>,
            request: Request,
        ) -> Answer<$View> {
            let target = target(Family::$family, &caller, id);
            let executed = execute_at(&app, &caller, target, request).await;
            let (record, unknown) = executed.map_err(ApiError::for_execute)?;
            answer(&app, &record, &unknown).await
        }

        /// Publishes the result; safe to repeat.
        #[utoipa::path(
            post, path = concat!($path, "/{operationId}/publish"), operation_id = concat!($id, "_publish"), tag = $tag,
            security(("bearer" = [$MayPublish])), request_body = $Publish,
            responses((status = 200, body = $View)),
            extensions(("x-errors" = json!([
                OperationNotExecuted, ResultRefMismatch, OperationFailed, ConcurrentUpdate, RuntimeUnavailable,
            ]))),
        )]
        pub async fn publish(
            PathOperationId(id): PathOperationId,
            caller: Caller,
            State(app): State<App>,
            body: Body<$Publish>,
        ) -> Answer<$View> {
            let publish = Publish { requester: requester_of(&caller, &body)?, ..body.checked };
            let record = app.engine().publish(target(Family::$family, &caller, id), publish).await?;
            answer(&app, &record, &body.unknown).await
        }

        /// Recovers one runtime effect; idempotent by `effect_id`.
        #[utoipa::path(
            post, path = concat!($path, "/{operationId}/node-recovery"), operation_id = concat!($id, "_node_recovery"),
            tag = $tag, security(("bearer" = [$Recover])), request_body = NodeRecoveryRequest,
            responses((status = 200, body = $Recovered)),
            extensions(("x-errors" = json!([$($recover_error),+]))),
        )]
        pub async fn node_recovery(
            PathOperationId(id): PathOperationId,
            caller: Caller,
            State(app): State<App>,
            request: Request,
        ) -> Answer<$Recovered> {
            let bytes_max = app.options().recovery_body_bytes_max;
            let body = Body::<NodeRecoveryRequest>::read_optional(request, &app, bytes_max).await?;
            let recover = Recover { requester: requester_of(&caller, &body)?, ..body.checked };
            let target = target(Family::$family, &caller, id);
            let (recovery, record) = app.engine().recover(target, recover).await?;
            let (headers, Json(operation)) = answer(&app, &record, &body.unknown).await?;
            Ok((headers, Json(recovered(recovery, operation))))
        }

        /// Exports the operation's events with proofs and signatures, for offline verification.
        #[utoipa::path(
            get, path = concat!($path, "/{operationId}/evidence"), operation_id = concat!($id, "_evidence"), tag = $tag,
            security(("bearer" = [$Read])), responses((status = 200, body = EvidenceDocument)),
            params((
                "after_seq" = Option<u64>, Query,
                description = "Number of an event: the page begins with the next one. Without it, the page has the newest events",
            )),
        )]
        pub async fn evidence(
            PathOperationId(id): PathOperationId,
            caller: Caller,
            RawQuery(query): RawQuery,
            State(app): State<App>,
        ) -> Result<Json<Value>, ApiError> {
            export(&app, Kind::Evidence, target(Family::$family, &caller, id), query).await
        }

        /// Exports the audit log: the same events, with accounts, free texts and operands as hashes.
        #[utoipa::path(
            get, path = concat!($path, "/{operationId}/audit-replay"), operation_id = concat!($id, "_audit_replay"), tag = $tag,
            security(("bearer" = [AuditRead])), responses((status = 200, body = AuditDocument)),
            params((
                "after_seq" = Option<u64>, Query,
                description = "Number of an event: the page begins with the next one. Without it, the page has the newest events",
            )),
        )]
        pub async fn audit_replay(
            PathOperationId(id): PathOperationId,
            caller: Caller,
            RawQuery(query): RawQuery,
            State(app): State<App>,
        ) -> Result<Json<Value>, ApiError> {
            export(&app, Kind::Audit, target(Family::$family, &caller, id), query).await
        }

        /// These routes.
        pub(in crate::routes) fn routes() -> [UtoipaMethodRouter<App>; 10] {
            [
                routes!(list),
                routes!(show),
                routes!(approve),
                routes!(reject),
                routes!(cancel),
                routes!(execute),
                routes!(publish),
                routes!(node_recovery),
                routes!(evidence),
                routes!(audit_replay),
            ]
        }
    };
}

pub mod custody;
pub mod payments;

/// A response body and its additional headers.
pub type Answer<T> = Result<(HeaderMap, Json<T>), ApiError>;

/// The operation with this id, if it is of this family and the caller can see it.
fn target(family: Family, caller: &Caller, id: OperationId) -> Target {
    Target { family, visibility: caller.visibility(), id }
}

/// The view of an operation in the answer to a request with these warnings.
fn operation_view(app: &App, record: &Record, warnings: Vec<Warning>) -> OperationView {
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
async fn read(app: &App, target: &Target, query: &str) -> Result<Record, ApiError> {
    let within = query::optional_number(query, "wait_ms")?;
    let unless = query::once(query, "unless_state")?
        .map(|text| query::word("unless_state", text, &operation::State::ALL, operation::State::as_str));
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
const FILTERS: [&str; 7] = [
    "state",
    "operation_type",
    "key_ref",
    "idempotency_key",
    "created_after_ms",
    "created_before_ms",
    "awaiting",
];

/// Reads a part of the list of operations.
async fn find(
    app: &App,
    family: Family,
    caller: &Caller,
    query: &ListQuery<Place>,
) -> Result<Page<Record>, ApiError> {
    let awaiting = awaited(caller, query)?;
    let filter = OperationFilter {
        family,
        state: query.filters.word("state", &operation::State::ALL, operation::State::as_str)?,
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
fn awaited(caller: &Caller, query: &ListQuery<Place>) -> Result<Option<String>, ApiError> {
    let Some(()) = query.filters.word("awaiting", &[()], |()| "me")? else { return Ok(None) };
    match &caller.principal {
        Principal::Identified(identity) => Ok(Some(identity.subject_id.clone())),
        Principal::Unrestricted => {
            let message = "`awaiting=me` needs a caller: send the identity headers";
            Err(invalid_query(message.to_owned()))
        }
    }
}

/// Executes an operation. Returns it with the members of the body that were ignored.
async fn execute_at(
    app: &App,
    caller: &Caller,
    target: Target,
    request: Request,
) -> Result<(Record, Vec<String>), ApiError> {
    let bytes_max = app.options().body_bytes_max;
    let body = Body::<ExecuteOperationRequest>::read_optional(request, app, bytes_max).await?;
    let requested_at_ms = body.value.requested_at_ms;
    let execute = Execute { requested_at_ms, requester: requester_of(caller, &body)? };
    Ok((app.engine().execute(target, execute).await?, body.unknown))
}

/// The warnings about a submission, and the headers of its answer.
///
/// # Errors
/// `idempotency_mismatch` if the operation was created by another body and the caller rejects that.
pub(super) fn submission_warnings(
    unknown: &[String],
    submitted: &Submitted,
    RejectsMismatch(rejects): RejectsMismatch,
) -> Result<(Vec<Warning>, HeaderMap), ApiError> {
    if submitted.body_differs && rejects {
        let id = submitted.record.operation.id;
        let message = format!(
            "this idempotency key was first used with another body, which created operation `{id}`; send that body, or another key"
        );
        return Err(ApiError::new(IdempotencyMismatch, message));
    }
    gateway_service::layers::note_operation(submitted.record.operation.id);
    let mut warnings = Warning::unknown_members(unknown);
    warnings.extend(submitted.body_differs.then(Warning::idempotency_mismatch));
    warnings.extend(submitted.fence_is_stale.then(Warning::stale_fence));
    warnings.extend(submitted.unfillable.iter().map(Warning::unfillable_group));
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
fn requester(
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

/// The requester of this body.
pub(super) fn requester_of<R: RequestShape>(
    caller: &Caller,
    body: &Body<R>,
) -> Result<Option<Requester>, ApiError> {
    requester(&caller.principal, body.value.client().cloned(), &body.unknown)
}

/// The requester of a body in which an approver approves, rejects or aborts: an authenticated caller does so under its own subject, in
/// roles that it has.
fn approver<R: RequestShape>(
    caller: &Caller,
    body: &Body<R>,
    subject_id: &str,
    roles: &[String],
) -> Result<Option<Requester>, ApiError> {
    let requester = requester_of(caller, body)?;
    let Principal::Identified(identity) = &caller.principal else { return Ok(requester) };
    let refused = |message| Err(ApiError::new(ApproverNotPermitted, message));
    if !is_same_person(&identity.subject_id, subject_id) {
        return refused(format!("`/subject_id` must be the caller's own, `{}`", identity.subject_id));
    }
    match roles.iter().find(|role| !identity.roles.contains(role)) {
        Some(role) => refused(format!("`/roles` must be roles of the caller, which does not have `{role}`")),
        None => Ok(requester),
    }
}
