//! The evidence of an operation, and its audit log: the same format with accounts, free texts and operands as hashes. Both
//! are split into pages by size.

use crate::error::ApiError;
use crate::extract::query;
use crate::state::App;
use axum::Json;
use gateway_engine::{EngineError, Target};
use gateway_evidence::{Kind, LAST_EVENT, LogProof, Page, Source, write};
use serde_json::{Value, json};

pub(super) async fn export(
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
    let source = Source {
        operation: &record.operation,
        events: &events,
        ledger_root: record.ledger_root,
        log: log.as_ref().map(|log| LogProof { tlog: &log.tlog_proof, consistency: &log.consistency }),
    };
    let stated = match kind {
        Kind::Evidence => {
            let statement = source.statement(engine.now());
            let signed = engine.sign_statement(LAST_EVENT, &json!(statement)).await?.to_string();
            Some((signed, statement.stated_at_ms))
        }
        Kind::Audit => None,
    };
    let stated = stated.as_ref().map(|(signed, at_ms)| (signed.as_str(), *at_ms));
    Ok(Json(write(kind, &source, stated, selected).map_err(EngineError::from)?))
}
