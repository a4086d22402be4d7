//! What both families do with an operation, written once.

use crate::error::{ApiError, Code};
use crate::extract::{Caller, SecretBody};
use crate::state::App;
use crate::wire::common::ClientBinding;
use crate::wire::operations::{
    ApproveOperationRequest, ExecuteOperationRequest, NodeRecoveryRequest, PublishOperationRequest,
};
use axum::extract::Request;
use axum::http::HeaderMap;
use gateway_auth::Principal;
use gateway_domain::ids::OperationId;
use gateway_domain::intent::Family;
use gateway_domain::operation::Recovery;
use gateway_engine::Target;
use gateway_engine::ports::Record;
use gateway_engine::secret::Secrets;

use super::operations::warn_unknown;

/// The operation a caller means.
pub fn target<N>(family: Family, caller: &Caller<N>, id: OperationId) -> Target {
    Target { family, visibility: caller.visibility(), id }
}

/// Counts an approval.
///
/// # Errors
/// [`ApiError`] of the body, the binding or the engine.
pub async fn approve(
    app: &App,
    principal: &Principal,
    target: Target,
    body: crate::extract::Body<ApproveOperationRequest>,
) -> Result<(HeaderMap, Record), ApiError> {
    check_binding(principal, body.value.client.clone())?;
    check_approver(principal, &body.value)?;
    let record = app.engine().approve(target, body.value.vote()?).await?;
    Ok((warn_unknown(&body.unknown), record))
}

/// Brings an operation to execution.
///
/// # Errors
/// [`ApiError`] of the body, the binding or the engine.
pub async fn execute(
    app: &App,
    principal: &Principal,
    target: Target,
    request: Request,
) -> Result<(HeaderMap, Record), ApiError> {
    let mut secret = SecretBody::read(request, app.options().body_bytes_max).await?;
    let secrets = Secrets {
        signing_share_mul: secret.take("signing_share_mul")?,
        recovery_helper_shares: secret.take("recovery_helper_shares")?,
        secret_kernel_payload: None,
    };
    let body = secret.shape::<ExecuteOperationRequest>(app)?;
    drop(secret);
    check_binding(principal, body.value.client)?;
    let record = app.engine().execute(target, body.value.requested_at_ms, secrets).await?;
    Ok((warn_unknown(&body.unknown), record))
}

/// Brings an operation to publication.
///
/// # Errors
/// [`ApiError`] of the body, the binding or the engine.
pub async fn publish(
    app: &App,
    principal: &Principal,
    target: Target,
    body: crate::extract::Body<PublishOperationRequest>,
) -> Result<(HeaderMap, Record), ApiError> {
    check_binding(principal, body.value.client.clone())?;
    let record = app.engine().publish(target, body.value.publish()).await?;
    Ok((warn_unknown(&body.unknown), record))
}

/// Recovers one effect.
///
/// # Errors
/// [`ApiError`] of the body, the binding or the engine.
pub async fn node_recovery(
    app: &App,
    principal: &Principal,
    target: Target,
    request: Request,
) -> Result<(HeaderMap, Recovery, Record), ApiError> {
    let mut secret = SecretBody::read(request, app.options().recovery_body_bytes_max).await?;
    let secret_kernel_payload = secret.take("secret_kernel_payload")?;
    let secrets = Secrets { secret_kernel_payload, ..Secrets::default() };
    let body = secret.shape::<NodeRecoveryRequest>(app)?;
    drop(secret);
    check_binding(principal, body.value.client.clone())?;
    let (recovery, record) = app.engine().recover(target, body.value.recover()?, secrets).await?;
    Ok((warn_unknown(&body.unknown), recovery, record))
}

/// A `client` that is given must be the caller.
fn check_binding(principal: &Principal, client: Option<ClientBinding>) -> Result<(), ApiError> {
    if let Some(client) = client {
        principal.bind(client.parse()?)?;
    }
    Ok(())
}

/// An identified caller approves as itself, in roles it has.
fn check_approver(principal: &Principal, approval: &ApproveOperationRequest) -> Result<(), ApiError> {
    let Principal::Identified(identity) = principal else { return Ok(()) };
    let refused = |message| Err(ApiError::new(Code::ApproverNotPermitted, message));
    if identity.subject_id != approval.subject_id {
        return refused(format!("`/subject_id` must be the caller's own, `{}`", identity.subject_id));
    }
    match approval.roles.iter().find(|role| !identity.roles.contains(role)) {
        Some(role) => refused(format!("`/roles` must be the caller's; it does not have `{role}`")),
        None => Ok(()),
    }
}
