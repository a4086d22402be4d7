//! `/v1/custody/keys`.

use super::operations::{Answer, requester_of, submission_warnings};
use crate::error::ApiError;
use crate::error::Code::{self, *};
use crate::extract::list::{ListQuery, PAGE_DEFAULT, PAGE_MAX};
use crate::extract::{Body, Caller, PathKeyRef, RejectsMismatch, query};
use crate::state::App;
use crate::warning::{self, Warning};
use crate::wire::custody::{
    CustodyKeyCreateRequest, CustodyKeyRecoverRequest, CustodyKeyRefreshRequest, CustodyKeyReshareRequest,
    CustodyKeyRotateRequest, CustodySignRequest, KeyRequest, RecoveryContributionsRequest,
};
use crate::wire::custody_view::{
    CustodyKeyView, CustodyKeysResponse, CustodyOperationResponse, CustodyOperationsResponse, KeyDerivation,
    RecoveryContributions,
};
use crate::wire::{bind_caller, body_digest};
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::Uri;
use gateway_auth::Principal;
use gateway_auth::Scope::*;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{KeyRef, Tenant};
use gateway_domain::intent::{Bip32, Intent};
use gateway_domain::key::KeyState;
use gateway_engine::ports::KeyFilter;
use gateway_engine::{KeyTarget, Submit, Submitted, Visibility};
use gateway_service::layers::current_request_id;

/// Submits the creation of a key: distributed key generation among its participants.
#[utoipa::path(
    post, path = "/v1/custody/keys", operation_id = "custody_key_create", tag = "custody",
    security(("bearer" = [CustodyManage])), request_body = CustodyKeyCreateRequest,
    responses((status = 200, body = CustodyOperationResponse)),
    extensions(("x-errors" = json!([
        PolicyRejected, CustodyKeyExists, ConcurrentUpdate, PolicyAdmissionRateLimited, PolicyUnavailable,
        RuntimeUnavailable,
    ]))),
)]
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    rejects: RejectsMismatch,
    body: Body<CustodyKeyCreateRequest>,
) -> Answer<CustodyOperationResponse> {
    let (request, (key_ref, intent)) = (body.value, body.checked);
    let submitter = bind_caller(&caller.principal, request.client.parse()?)?;
    let tenant = Tenant(request.tenant_id);
    check_tenant(&caller.principal, &submitter, &tenant)?;
    let submit = submission(&caller, (tenant, submitter), None, intent, &body.unknown)?;
    let submitted = app.engine().submit_on_key(submit, key_ref).await?;
    submission_answer(&app, &body.unknown, &submitted, rejects).await
}

/// Checks that the key's tenant is the caller's own. An unrestricted caller has the tenant in its `client`, or any tenant if
/// `client` names none.
fn check_tenant(principal: &Principal, submitter: &ClientBinding, tenant: &Tenant) -> Result<(), ApiError> {
    let own = match principal {
        Principal::Unrestricted if submitter.tenant.is_none() => return Ok(()),
        Principal::Unrestricted | Principal::Identified(_) => submitter.tenant(),
    };
    if own == *tenant {
        return Ok(());
    }
    let message = format!("`/tenant_id` must be the caller's tenant, `{own}`");
    Err(ApiError::new(Code::ClientBindingMismatch, message))
}

/// Lists keys, newest first. A page may have fewer than `limit`, even none, while a `next_cursor` says that there are more.
#[utoipa::path(
    get, path = "/v1/custody/keys", operation_id = "custody_key_list", tag = "custody",
    security(("bearer" = [CustodyRead])), responses((status = 200, body = CustodyKeysResponse)),
    params(
        ("state" = Option<KeyState>, Query, description = "Only keys in this state"),
        ("key_ref" = Option<String>, Query, description = "Only the key of this name"),
        ("created_after_ms" = Option<u64>, Query, description = "Only keys created later, milliseconds since 1970"),
        ("created_before_ms" = Option<u64>, Query, description = "Only keys created earlier, milliseconds since 1970"),
        ("limit" = Option<u32>, Query, description = "Maximum number of keys on a page; 50 by default", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page, which had the same filters; without it the first page", pattern = "^[0-9]{1,18}-[0-9a-f]{64}-[0-9a-f]{16}$"),
    ),
)]
pub async fn list(
    caller: Caller,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<CustodyKeysResponse>, ApiError> {
    let known = ["state", "key_ref", "created_after_ms", "created_before_ms"];
    let query = ListQuery::parse("custody keys", query.as_deref().unwrap_or_default(), &known)?;
    let filter = KeyFilter {
        state: query.filters.word("state", &KeyState::ALL, KeyState::as_str)?,
        key_ref: query.filters.key_ref(),
        created: query.filters.created()?,
    };
    let page = app.engine().keys(&caller.visibility(), &filter, query.after, query.n_max).await?;
    let keys = page.items.iter().map(|(key, latest)| CustodyKeyView::new(key, *latest)).collect();
    Ok(Json(CustodyKeysResponse { keys, next_cursor: query.cursor(page.next) }))
}

/// Shows the key.
#[utoipa::path(
    get, path = "/v1/custody/keys/{keyRef}", operation_id = "custody_key_show", tag = "custody",
    security(("bearer" = [CustodyRead])), responses((status = 200, body = CustodyKeyView)),
)]
pub async fn show(
    PathKeyRef(key_ref): PathKeyRef,
    caller: Caller,
    State(app): State<App>,
) -> Result<Json<CustodyKeyView>, ApiError> {
    let target = KeyTarget { visibility: caller.visibility(), key_ref };
    let (key, latest) = app.engine().key(&target).await?;
    Ok(Json(CustodyKeyView::new(&key, latest)))
}

/// Shows the forms of the key's public key from which addresses are made, or of a child's.
#[utoipa::path(
    get, path = "/v1/custody/keys/{keyRef}/derive", operation_id = "custody_key_derive", tag = "custody",
    security(("bearer" = [CustodyRead])), responses((status = 200, body = KeyDerivation)),
    params((
        "path" = Option<String>, Query, pattern = "^(0|[1-9][0-9]{0,9})/(0|[1-9][0-9]{0,9})$",
        description = "The child: two decimal indices below 2^31, separated by `/`, as in `bip32.path` of a signature. Without it the key itself",
    )),
    extensions(("x-errors" = json!([CustodyKeyNotActive]))),
)]
pub async fn derive(
    PathKeyRef(key_ref): PathKeyRef,
    caller: Caller,
    State(app): State<App>,
    uri: Uri,
) -> Result<Json<KeyDerivation>, ApiError> {
    let path = query::once_with_slashes(uri.query().unwrap_or_default(), "path")?;
    let indices = path.as_deref().map(Bip32::parse_path).transpose();
    let indices = indices.map_err(|invalid| query::invalid_query(format!("`path` {invalid}")))?;
    let target = KeyTarget { visibility: caller.visibility(), key_ref };
    let derived = app.engine().derived_keys(&target, indices.as_ref().map_or(&[], |path| path)).await?;
    let (key, derived) = derived;
    Ok(Json(KeyDerivation::new(&key, path, derived)))
}

/// Lists the key's custody operations, newest first.
#[utoipa::path(
    get, path = "/v1/custody/keys/{keyRef}/operations",
    operation_id = "custody_key_operations", tag = "custody",
    security(("bearer" = [CustodyRead])), responses((status = 200, body = CustodyOperationsResponse)),
    params(
        ("limit" = Option<u32>, Query, description = "Maximum number of operations on a page; 50 by default", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page; without it the first page", pattern = "^[0-9]{1,18}$"),
    ),
)]
pub async fn operations(
    PathKeyRef(key_ref): PathKeyRef,
    caller: Caller,
    State(app): State<App>,
    uri: Uri,
) -> Result<Json<CustodyOperationsResponse>, ApiError> {
    let query = uri.query().unwrap_or_default();
    let n_max = query::limit(query, PAGE_DEFAULT, PAGE_MAX)?;
    let before = query::optional_number(query, "cursor")?;
    let target = KeyTarget { visibility: caller.visibility(), key_ref };
    let found = app.engine().key_operations(&target, before, n_max).await?;
    let next_cursor = found.next.map(|next| next.to_string());
    Ok(Json(super::operations::custody::page(&app, &found.records, next_cursor).await?))
}

macro_rules! on_key {
    ($(#[$doc:meta])* $name:ident, $path:literal, $needs:ident, $request:ident, [$($conflict:ident),+]) => {
        $(#[$doc])*
        #[utoipa::path(
            post, path = $path, operation_id = concat!("custody_key_", stringify!($name)), tag = "custody",
            security(("bearer" = [$needs])), request_body = $request,
            responses((status = 200, body = CustodyOperationResponse)),
            extensions(("x-errors" = json!([
                PolicyRejected, $($conflict,)+ IdempotencyMismatch, PolicyAdmissionRateLimited, PolicyUnavailable, RuntimeUnavailable,
            ]))),
        )]
        pub async fn $name(
            PathKeyRef(key_ref): PathKeyRef,
            caller: Caller,
            rejects: RejectsMismatch,
            State(app): State<App>,
            body: Body<$request>,
        ) -> Answer<CustodyOperationResponse> {
            submit(&app, &caller, key_ref, rejects, body).await
        }
    };
}

on_key! {
    /// Submits a signature over a digest.
    sign, "/v1/custody/keys/{keyRef}/sign", CustodySign, CustodySignRequest,
    [CustodyKeyNotActive, ConcurrentUpdate]
}

on_key! {
    /// Submits a refresh: same roster, same public key, new share epoch.
    refresh, "/v1/custody/keys/{keyRef}/refresh", CustodyManage, CustodyKeyRefreshRequest,
    [EpochConflict, CustodyKeyNotActive, ConcurrentUpdate]
}

on_key! {
    /// Submits a reshare: new roster, same public key.
    reshare, "/v1/custody/keys/{keyRef}/reshare", CustodyManage, CustodyKeyReshareRequest,
    [EpochConflict, CustodyKeyNotActive, ConcurrentUpdate]
}

on_key! {
    /// Submits a rotation: a new key, with a new name and key pair, that replaces this one.
    rotate, "/v1/custody/keys/{keyRef}/rotate", CustodyManage, CustodyKeyRotateRequest,
    [CustodyKeyExists, CustodyKeyNotActive, ConcurrentUpdate]
}

on_key! {
    /// Submits the recovery of one participant's share by helpers.
    recover, "/v1/custody/keys/{keyRef}/recover", CustodyManage, CustodyKeyRecoverRequest,
    [EpochConflict, CustodyKeyNotActive, ConcurrentUpdate]
}

/// Shows what helpers would contribute to the recovery of a participant's share: their nodes are asked. The same recovery in the same
/// epoch always has the same contributions. A recovery that states them is executed with no others.
#[utoipa::path(
    post, path = "/v1/custody/keys/{keyRef}/recover/contributions", operation_id = "custody_key_recovery_contributions",
    tag = "custody", security(("bearer" = [CustodyManage])), request_body = RecoveryContributionsRequest,
    responses((status = 200, body = RecoveryContributions)),
    extensions(("x-errors" = json!([CustodyKeyNotActive, RuntimeUnavailable]))),
)]
pub async fn recovery_contributions(
    PathKeyRef(key_ref): PathKeyRef,
    caller: Caller,
    State(app): State<App>,
    body: Body<RecoveryContributionsRequest>,
) -> Answer<RecoveryContributions> {
    requester_of(&caller, &body)?;
    let target = KeyTarget { visibility: caller.visibility(), key_ref };
    let contributions = app.engine().contributions(&target, body.checked).await?;
    Ok((warning::headers(&Warning::unknown_members(&body.unknown)), Json(contributions.into())))
}

async fn submit<R: KeyRequest>(
    app: &App,
    caller: &Caller,
    key_ref: KeyRef,
    rejects: RejectsMismatch,
    body: Body<R>,
) -> Answer<CustodyOperationResponse> {
    let (request, intent) = (body.value, body.checked);
    let idempotency_key = request.idempotency_key().map(str::to_owned);
    let submitter = bind_caller(&caller.principal, request.into_client().parse()?)?;
    let visibility = match (&caller.principal, &submitter.tenant) {
        (Principal::Unrestricted, Some(tenant)) => Visibility::Tenant(tenant.clone()),
        (Principal::Unrestricted | Principal::Identified(_), _) => caller.visibility(),
    };
    let tenant = app.engine().key_owner(&KeyTarget { visibility, key_ref: key_ref.clone() }).await?;
    let submit = submission(caller, (tenant, submitter), idempotency_key, intent, &body.unknown)?;
    let submitted = app.engine().submit_on_key(submit, key_ref).await?;
    submission_answer(app, &body.unknown, &submitted, rejects).await
}

fn submission(
    caller: &Caller,
    (tenant, submitter): (Tenant, ClientBinding),
    idempotency_key: Option<String>,
    intent: Intent,
    unknown: &[String],
) -> Result<Submit, ApiError> {
    let body_digest = body_digest(&intent, &submitter)?;
    Ok(Submit {
        tenant,
        submitter,
        claims: caller.principal.facts(),
        idempotency_key,
        intent,
        body_digest,
        unknown_fields: unknown.to_vec(),
        request_id: current_request_id(),
    })
}

async fn submission_answer(
    app: &App,
    unknown: &[String],
    submitted: &Submitted,
    rejects: RejectsMismatch,
) -> Answer<CustodyOperationResponse> {
    let (warnings, headers) = submission_warnings(unknown, submitted, rejects)?;
    let operation = super::operations::custody::view(app, &submitted.record, warnings).await?;
    Ok((headers, Json(CustodyOperationResponse { operation })))
}
