//! The evidence of an operation, and its audit log: the same format with accounts, free texts and operands as hashes. Both
//! are split into pages by size.

use super::lifecycle;
use crate::error::ApiError;
use crate::extract::{Caller, PathOperationId, query};
use crate::state::App;
use crate::wire::evidence_view::{AuditDocument, EvidenceDocument};
use axum::Json;
use axum::extract::{RawQuery, State};
use gateway_auth::Scope::*;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::Family;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::Operation;
use gateway_domain::time::EpochMs;
use gateway_engine::{EngineError, InclusionEvidence, Target};
use gateway_evidence::{KEY_STATE, KeyStatement, Kind, Page, Source, StatedKey};
use serde_json::{Value, json};

macro_rules! export_route {
    ($(#[$doc:meta])* $name:ident, $path:literal, $id:literal, $tag:literal, $scope:ident, $kind:ident, $document:ident, $family:ident) => {
        $(#[$doc])*
        #[utoipa::path(
            get, path = $path, operation_id = $id, tag = $tag,
            security(("bearer" = [$scope])), responses((status = 200, body = $document)),
            params((
                "after_seq" = Option<u64>, Query,
                description = "Number of an event: the page begins with the next one. Without it, the page has the newest events",
            )),
        )]
        pub async fn $name(
            PathOperationId(id): PathOperationId,
            caller: Caller,
            RawQuery(query): RawQuery,
            State(app): State<App>,
        ) -> Result<Json<Value>, ApiError> {
            export(&app, Kind::$kind, lifecycle::target(Family::$family, &caller, id), query).await
        }
    };
}

export_route! {
    /// Exports the operation's events with proofs and signatures, for offline verification.
    operation_evidence, "/v1/operations/{operationId}/evidence",
    "operation_evidence", "operations", OperationsRead, Evidence, EvidenceDocument, Product
}

export_route! {
    /// Exports the audit log: the same events, with accounts, free texts and operands as hashes.
    operation_audit_replay, "/v1/operations/{operationId}/audit-replay",
    "operation_audit_replay", "operations", AuditRead, Audit, AuditDocument, Product
}

export_route! {
    /// Exports the operation's events with proofs and signatures, for offline verification.
    custody_evidence, "/v1/custody/operations/{operationId}/evidence",
    "custody_operation_evidence", "custody", CustodyRead, Evidence, EvidenceDocument, Custody
}

export_route! {
    /// Exports the audit log: the same events, with accounts, free texts and operands as hashes.
    custody_audit_replay, "/v1/custody/operations/{operationId}/audit-replay",
    "custody_operation_audit_replay", "custody", AuditRead, Audit, AuditDocument, Custody
}

async fn export(
    app: &App,
    kind: Kind,
    target: Target,
    query: Option<String>,
) -> Result<Json<Value>, ApiError> {
    let after_seq = query::optional_number(query.as_deref().unwrap_or_default(), "after_seq")?;
    let page = Page { after_seq, bytes_max: app.options().audit_bytes_max };
    let (record, events) = app.engine().history(&target).await?;
    let log = app.engine().inclusion_evidence(target.id, record.operation.revision).await?;
    let log_size = log.as_ref().map_or(0, |log| log.tlog_proof.checkpoint.unverified().size());
    let record_root = events.last().map_or(Hex32::ZERO, |last| last.hash);
    let key = match kind {
        Kind::Evidence => Some(stated_key(app, &record.operation, record_root, log_size).await?),
        Kind::Audit => None,
    };
    let source = Source {
        operation: &record.operation,
        events: &events,
        ledger_root: record.ledger_root,
        log: &json!(log.map(log_section)),
        key: key.as_ref().map(|(key, note, at_ms)| StatedKey { key, note, at_ms: *at_ms }),
    };
    Ok(Json(gateway_evidence::write(kind, &source, page).map_err(EngineError::from)?))
}

/// The current key, the signed statement about it for this document, and the time of the statement.
async fn stated_key(
    app: &App,
    operation: &Operation,
    record_root: Hex32,
    log_size: u64,
) -> Result<(Value, String, EpochMs), ApiError> {
    let key = app.engine().key_of(operation).await?;
    let key = json!(key.as_ref().map(key_evidence));
    // The clock may have been set back since the operation's last event.
    let stated_at_ms = app.engine().now().max(operation.updated_at_ms);
    let statement =
        KeyStatement { operation_id: operation.id, record_root, log_size, stated_at_ms, key: &key };
    let note = app.engine().sign_statement(KEY_STATE, &json!(statement)).await?.to_string();
    Ok((key, note, stated_at_ms))
}

/// The proof that the last event is in the log.
fn log_section(evidence: InclusionEvidence) -> Value {
    json!({
        "index": evidence.index,
        "proof": evidence.tlog_proof.to_string(),
        "consistency": evidence.consistency,
    })
}

/// The current key; its epoch root is the fence token of signatures.
fn key_evidence(key: &CustodyKey) -> Value {
    json!({
        "key_ref": key.key_ref,
        "key_id": key.key_id,
        "state": key.state,
        "public_key_artifact_ref": key.public_key_artifact_ref(),
        "active_epoch": key.epoch.name,
        "active_epoch_root": key.epoch.root,
        "past_epochs": key.past_epochs,
        "replaces": key.replaces,
        "replaced_by": key.replaced_by,
    })
}
