//! Checks the statement that the log's key signed for each page: that this was the operation's last event, at a time that can be.

use super::EvidenceReader;
use super::operation::Replayed;
use super::pages::{Document, hash};
use crate::document::{LAST_EVENT, LastEventStatement};
use crate::report::{Findings, Report};
use crate::roots::Roots;
use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use gateway_domain::log::{SignedStatement, StatementError};
use gateway_domain::time::EpochMs;
use serde_json::{Map, Value};

const NAME: &str = "statement";

/// How far the gateway's clock may be ahead of the reader's, milliseconds.
pub(crate) const CLOCK_AHEAD_MS_MAX: u64 = 5 * 60 * 1000;

/// Checks the statement of each page. `log_sizes` are the sizes in the verified checkpoints of the pages.
pub(crate) fn check(
    document: &Document,
    replayed: &Replayed,
    log_sizes: &[Option<u64>],
    reader: &EvidenceReader<'_>,
    report: &mut Report,
) {
    let (mut findings, mut seen) = (Findings::default(), String::new());
    let last_at_ms = replayed.operation.updated_at_ms;
    for (page, log_size) in document.pages.iter().zip(log_sizes) {
        let stated_at_ms = EpochMs(page.get("stated_at_ms").and_then(Value::as_u64).unwrap_or(0));
        let statement = LastEventStatement {
            operation_id: replayed.operation.id,
            record_root: hash(&document.members, "record_root").unwrap_or(Hex32::ZERO),
            log_size: log_size.unwrap_or(0),
            stated_at_ms,
        };
        check_statement(page, &statement, reader.roots, &mut findings);
        if stated_at_ms < last_at_ms {
            findings
                .add("/stated_at_ms", format!("is before the operation's last event at {}", last_at_ms.0));
        }
        if stated_at_ms > reader.now.plus_ms(CLOCK_AHEAD_MS_MAX) {
            findings.add("/stated_at_ms", format!("is in the future: it is {}", reader.now.0));
        }
        let size = statement.log_size;
        seen = format!(
            "this was the last event at {}, with a checkpoint of {size} events, signed by the log's key",
            stated_at_ms.0
        );
    }
    report.add(NAME, findings, seen);
}

/// Checks that the log's key signed exactly this statement. One from other evidence differs in operation, last event, log size or
/// time.
fn check_statement(
    page: &Map<String, Value>,
    expected: &LastEventStatement,
    roots: &Roots,
    findings: &mut Findings,
) {
    let note = page.get("statement").and_then(Value::as_str).unwrap_or_default();
    let statement: SignedStatement = match note.parse() {
        Ok(statement) => statement,
        Err(error) => {
            findings.add("/statement", format!("{error}"));
            return;
        }
    };
    if statement.to_string() != note {
        findings.add("/statement", "is not in the canonical form of a note");
    }
    match statement.verify(&roots.logs, LAST_EVENT, expected) {
        Ok(()) => {}
        Err(StatementError::OtherStatement) => {
            let differing = differing_members(expected, &statement.unverified().unwrap_or_default());
            for name in &differing {
                let at = if name == "stated_at_ms" { "/stated_at_ms" } else { "/statement" };
                findings.add(at, format!("the log's key signed another `{name}`"));
            }
            if differing.is_empty() {
                findings.add("/statement", "is not a statement about a last event by a log in the roots");
            }
        }
        Err(error @ (StatementError::Note(_) | StatementError::NotCanonical(_))) => {
            findings.add("/statement", error.to_string());
        }
    }
}

/// The names of the members in which the statement differs from the expected one.
fn differing_members(expected: &LastEventStatement, stated: &Value) -> Vec<String> {
    let canonical = canonical::to_bytes(expected).unwrap_or_default();
    let expected: Map<String, Value> = serde_json::from_slice(&canonical).unwrap_or_default();
    let differs = |(name, value): &(String, Value)| stated.get(name) != Some(value);
    expected.into_iter().filter(differs).map(|(name, _)| name).collect()
}
