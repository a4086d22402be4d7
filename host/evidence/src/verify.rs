//! Checks the members of a document against its events and the reader's roots.
//!
//! Reading order: `pages` (the form of each page, and whether pages agree), `events` (hashes, times, disclosed fields),
//! `operation` (replays the events and compares the result with the document), then the parts that others signed:
//! `decisions`, `approvals`, `admission`, `receipts`, `result`, `key`; `ending`, whether more could have happened; `statement`, `log`; last
//! `nodes`, the comparison with the nodes' own logs.
//!
//! Every check that applies holds, fails, or is reported as not checked. Which checks apply follows from the events and the
//! roots. A check continues after a fault, so that the report names all faults.

mod admission;
mod approvals;
mod decisions;
mod ending;
mod events;
mod key;
mod log;
mod nodes;
mod operation;
mod pages;
mod reader;
mod receipts;
mod result;
mod statement;

use serde_json::Value;

pub use crate::report::{Check, Finding, Report, Status, Verdict};
pub use nodes::audit;
pub use reader::{EvidenceReader, RerunPolicy};

/// Verifies a document, given as its pages in any order.
#[must_use]
pub fn verify(pages: Vec<Value>, reader: &EvidenceReader<'_>) -> Report {
    let (mut report, roots) = (Report::default(), reader.roots);
    let Some(document) = pages::read(pages, &mut report) else { return report };
    let history = events::check(&document, &mut report);
    let replayed = operation::check(&document, history, reader, &mut report);
    if let Some(replayed) = &replayed {
        decisions::check(replayed, reader, &mut report);
        approvals::check(replayed, roots, &mut report);
        admission::check(replayed, roots, &mut report);
        receipts::check(replayed, roots, &mut report);
        result::check(replayed, roots, &mut report);
        key::check(replayed, roots, &mut report);
        ending::check(replayed, reader, &mut report);
    }
    let log_sizes = log::check(&document, reader, &mut report);
    if let Some(replayed) = &replayed {
        statement::check(&document, replayed, &log_sizes, reader, &mut report);
    }
    if let Some(logs) = reader.nodes {
        nodes::check(replayed.as_ref(), logs, &mut report);
    }
    report
}
