//! `/v1/log`: the log of all events, for auditors and monitors. All tenants share the log, which discloses only the hash of
//! each event.

use crate::error::ApiError;
use crate::error::Code::{self, *};
use crate::extract::{Caller, query};
use crate::state::App;
use axum::Json;
use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::IntoResponse;
use gateway_auth::Scope::*;
use gateway_domain::ids::OperationId;
use gateway_engine::ports::{LogConsistency, LogInclusion};

/// The head of the log, signed now, as a C2SP `checkpoint`. With `?witnessed=true` instead the newest checkpoint that a quorum of
/// witnesses cosigned, with their lines. Before the first of these, 404.
#[utoipa::path(
    get, path = "/v1/log/checkpoint", operation_id = "log_checkpoint", tag = "log",
    security(("bearer" = [AuditRead])),
    responses((status = 200, description = "the signed checkpoint", body = String, content_type = "text/plain")),
    params(("witnessed" = Option<bool>, Query, description = "Whether the newest cosigned checkpoint is returned instead")),
    extensions(("x-errors" = json!([NotFound, PolicyUnavailable]))),
)]
pub async fn checkpoint(
    _caller: Caller,
    uri: Uri,
    State(app): State<App>,
) -> Result<impl IntoResponse, ApiError> {
    let checkpoint = match query::once(uri.query().unwrap_or_default(), "witnessed")? {
        None | Some("false") => app.engine().checkpoint().await?,
        Some("true") => {
            let none =
                || ApiError::new(Code::NotFound, "no checkpoint was cosigned by a quorum of witnesses");
            app.engine().witnessed_checkpoint().ok_or_else(none)?
        }
        Some(_) => return Err(query::invalid_query("`witnessed` must be `true` or `false`".to_owned())),
    };
    Ok(text(checkpoint.to_string()))
}

/// The public key for checkpoints, as a C2SP verifier key. Get it from the operator over another channel to rely on it: a
/// forged log would show a forged key.
#[utoipa::path(
    get, path = "/v1/log/key", operation_id = "log_key", tag = "log",
    security(("bearer" = [AuditRead])),
    responses((status = 200, description = "the verifier key", body = String, content_type = "text/plain")),
)]
pub async fn key(_caller: Caller, State(app): State<App>) -> impl IntoResponse {
    text(format!("{}\n", app.engine().log_key()))
}

/// Proves that the log of `second` events begins with the log of `first` events.
#[utoipa::path(
    get, path = "/v1/log/consistency", operation_id = "log_consistency", tag = "log",
    security(("bearer" = [AuditRead])), responses((status = 200, body = LogConsistency)),
    params(
        ("first" = u64, Query, description = "Size of the earlier log, in events", minimum = 1),
        ("second" = u64, Query, description = "Size of the later log; at most the current size", minimum = 1),
    ),
)]
pub async fn consistency(
    _caller: Caller,
    uri: Uri,
    State(app): State<App>,
) -> Result<Json<LogConsistency>, ApiError> {
    let query = uri.query().unwrap_or_default();
    let (first, second) = (query::required_number(query, "first")?, query::required_number(query, "second")?);
    let proof = app.engine().log_consistency(first, second).await?;
    let out_of_range = || {
        let rule = "`first` must be at least 1 and at most `second`, which must be at most the log's size";
        query::invalid_query(rule.to_owned())
    };
    Ok(Json(proof.ok_or_else(out_of_range)?))
}

/// Proves that the log of `size` events has the event at `index`.
#[utoipa::path(
    get, path = "/v1/log/inclusion", operation_id = "log_inclusion", tag = "log",
    security(("bearer" = [AuditRead])), responses((status = 200, body = LogInclusion)),
    params(
        ("index" = u64, Query, description = "The event's index in the log, from 0"),
        ("size" = u64, Query, description = "Size of the log; at most the current size", minimum = 1),
    ),
)]
pub async fn inclusion(
    _caller: Caller,
    uri: Uri,
    State(app): State<App>,
) -> Result<Json<LogInclusion>, ApiError> {
    let query = uri.query().unwrap_or_default();
    let (index, size) = (query::required_number(query, "index")?, query::required_number(query, "size")?);
    let proof = app.engine().log_inclusion(index, size).await?;
    let out_of_range = || {
        query::invalid_query("`index` must be below `size`, which must be at most the log's size".to_owned())
    };
    Ok(Json(proof.ok_or_else(out_of_range)?))
}

/// Proves that an event of an operation is in the log, as a C2SP `tlog-proof` file with the witnessed checkpoint if that has
/// the event, or else with one signed now. It can be verified offline with the log's key.
#[utoipa::path(
    get, path = "/v1/log/tlog-proof", operation_id = "log_tlog_proof", tag = "log",
    security(("bearer" = [AuditRead])),
    responses((status = 200, description = "the proof", body = String, content_type = "text/plain")),
    params(
        ("operation_id" = String, Query, description = "The operation's id", pattern = "^[0-9a-f]{64}$"),
        ("seq" = u64, Query, description = "The event's number within the operation, from 1", minimum = 1),
    ),
    extensions(("x-errors" = json!([InvalidOperationId, OperationNotFound, PolicyUnavailable]))),
)]
pub async fn tlog_proof(
    caller: Caller,
    uri: Uri,
    State(app): State<App>,
) -> Result<impl IntoResponse, ApiError> {
    let query = uri.query().unwrap_or_default();
    let id = query::once(query, "operation_id")?.and_then(|id| id.parse::<OperationId>().ok());
    let id = id.ok_or_else(|| {
        ApiError::new(Code::InvalidOperationId, "`operation_id` must be 64 lowercase hexadecimal characters")
    })?;
    let seq = query::required_number(query, "seq")?;
    let proof = app.engine().tlog_proof(&caller.visibility(), id, seq).await?;
    let out_of_range =
        || query::invalid_query("`seq` must be from 1 to the number of the operation's events".to_owned());
    Ok(text(proof.ok_or_else(out_of_range)?.to_string()))
}

fn text(body: String) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body)
}
