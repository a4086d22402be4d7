//! The evidence of an operation, and its audit log: the same format with accounts, free texts and operands as hashes. Both
//! are split into pages by size.

use super::operations as lifecycle;
use crate::error::ApiError;
use crate::extract::{Caller, PathOperationId, query};
use crate::state::App;
use crate::wire::evidence_view::{AuditDocument, EvidenceDocument};
use axum::Json;
use axum::extract::{RawQuery, State};
use gateway_auth::Scope::*;
use gateway_domain::canonical::CanonicalError;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::Family;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::Record;
use gateway_engine::{EngineError, InclusionEvidence, Target};
use gateway_evidence::{Kind, LAST_EVENT, Page, Source, Statement};
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
    let selected = Page { after_seq, bytes_max: app.options().audit_bytes_max };
    let engine = app.engine();
    let (record, events) = engine.history(&target).await?;
    let log = engine.inclusion_evidence(target.id, record.operation.revision).await?;
    let source = PageSource { record: &record, events: &events, log };
    let stated = match kind {
        Kind::Evidence => {
            let statement = source.statement(engine.now());
            let signed = engine.sign_statement(LAST_EVENT, &json!(statement)).await?.to_string();
            Some((signed, statement.stated_at_ms))
        }
        Kind::Audit => None,
    };
    let stated = stated.as_ref().map(|(signed, at_ms)| (signed.as_str(), *at_ms));
    Ok(Json(source.page(kind, selected, stated).map_err(EngineError::from)?))
}

/// What a document is made of.
#[derive(Debug)]
pub struct PageSource<'a> {
    /// The operation.
    pub record: &'a Record,
    /// All its events.
    pub events: &'a [ChainedEvent],
    /// The proof that the last event is in the log.
    pub log: Option<InclusionEvidence>,
}

impl PageSource<'_> {
    /// The statement for the log's key to sign.
    #[must_use]
    pub fn statement(&self, now: EpochMs) -> Statement {
        Statement {
            operation_id: self.record.operation.id,
            record_root: self.events.last().map_or(Hex32::ZERO, |last| last.hash),
            log_size: self.log.as_ref().map_or(0, |log| log.tlog_proof.checkpoint.unverified().size()),
            // The clock may have been set back since the operation's last event.
            stated_at_ms: now.max(self.record.operation.updated_at_ms),
        }
    }

    /// Writes a page of the document. Evidence needs the signed statement and its time, an audit log has none.
    ///
    /// # Errors
    /// [`CanonicalError`], which does not occur for stored events.
    pub fn page(
        &self,
        kind: Kind,
        selected: Page,
        stated: Option<(&str, EpochMs)>,
    ) -> Result<Value, CanonicalError> {
        let source = Source {
            operation: &self.record.operation,
            events: self.events,
            ledger_root: self.record.ledger_root,
            log: &json!(self.log.as_ref().map(log_section)),
            stated,
        };
        gateway_evidence::write(kind, &source, selected)
    }
}

/// The proof that the last event is in the log.
fn log_section(evidence: &InclusionEvidence) -> Value {
    json!({
        "index": evidence.index,
        "proof": evidence.tlog_proof.to_string(),
        "consistency": evidence.consistency,
    })
}
