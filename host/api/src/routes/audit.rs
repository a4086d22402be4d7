//! The redacted audit log, never larger than the cap: the newest events stay.

use super::lifecycle;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{AuditRead, Caller, PathOperationId};
use crate::state::App;
use crate::wire::evidence::{ENVELOPE_BYTES, newest};
use axum::Json;
use axum::extract::State;
use gateway_domain::intent::Family;
use gateway_engine::Target;
use serde_json::{Value, json};

/// The operation's audit log, redacted.
///
/// # Errors
/// [`ApiError`] with the codes listed.
#[utoipa::path(get, path = "/v1/operations/{operationId}/audit-replay", tag = "operations", params(
    ("operationId" = String, Path, description = "Hex32", pattern = "^[0-9a-f]{64}$"),
), responses(
    (status = 200, body = Object),
    (status = 400, description = "`invalid_operation_id`", body = ErrorBody),
    (status = 401, description = "`authentication_required`, `invalid_token`", body = ErrorBody),
    (status = 403, description = "`audit_replay_forbidden`", body = ErrorBody),
    (status = 404, description = "`operation_not_found`", body = ErrorBody),
    (status = 500, description = "`internal_error`", body = ErrorBody),
    (status = 503, description = "`store_unavailable`", body = ErrorBody),
))]
pub async fn operation_audit_replay(
    PathOperationId(id): PathOperationId,
    caller: Caller<AuditRead>,
    State(app): State<App>,
) -> Result<Json<Value>, ApiError> {
    audit(&app, &lifecycle::target(Family::Product, &caller, id)).await
}

/// The custody operation's audit log, redacted.
///
/// # Errors
/// [`ApiError`] with the codes listed.
#[utoipa::path(get, path = "/v1/custody/operations/{operationId}/audit-replay", tag = "custody", params(
    ("operationId" = String, Path, description = "Hex32", pattern = "^[0-9a-f]{64}$"),
), responses(
    (status = 200, body = Object),
    (status = 400, description = "`invalid_operation_id`", body = ErrorBody),
    (status = 401, description = "`authentication_required`, `invalid_token`", body = ErrorBody),
    (status = 403, description = "`audit_replay_forbidden`", body = ErrorBody),
    (status = 404, description = "`operation_not_found`", body = ErrorBody),
    (status = 500, description = "`internal_error`", body = ErrorBody),
    (status = 503, description = "`store_unavailable`", body = ErrorBody),
))]
pub async fn custody_audit_replay(
    PathOperationId(id): PathOperationId,
    caller: Caller<AuditRead>,
    State(app): State<App>,
) -> Result<Json<Value>, ApiError> {
    audit(&app, &lifecycle::target(Family::Custody, &caller, id)).await
}

async fn audit(app: &App, target: &Target) -> Result<Json<Value>, ApiError> {
    let (record, events) = app.engine().history(target).await?;
    let budget = app.options().audit_bytes_max.saturating_sub(ENVELOPE_BYTES);
    let (shown, truncated) = newest(&record.operation, &events, budget);
    Ok(Json(json!({
        "operation_id": target.id,
        "state": record.operation.state(),
        "record_root": record.record_root,
        "ledger_root": record.ledger_root,
        "total_events": events.len(),
        "truncated": truncated,
        "events": shown,
    })))
}
