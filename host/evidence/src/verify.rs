//! Everything a document says, checked again from its events and the reader's roots.
//!
//! Reading order: `pages` (the form of each, and how they fit together), `events` (each hash, each time, each opened field), `story`
//! (what the events make of the operation, and whether the document says the same), then what others signed: `decisions`,
//! `approvals`, `admission`, `receipts`, `result`, `key`, `log`.
//!
//! Each check that applies holds, fails, or is reported as not checked. Which checks apply follows from the events and the
//! roots. A check goes on after a fault, so that a report names all faults.

mod admission;
mod approvals;
mod decisions;
mod events;
mod key;
mod log;
mod pages;
mod receipts;
mod report;
mod result;
mod shares;
mod story;

use crate::roots::Roots;
use gateway_domain::ids::OperationId;
use gateway_domain::operation::Evaluation;
use serde_json::Value;

pub use report::{Check, Finding, Report, Status, Verdict};

/// Runs a bundle again, for a reader that has it.
pub trait Rerun {
    /// What the bundle says otherwise than was recorded, one line each. `Err` says why nothing could be run.
    fn differences(&self, evaluation: &Evaluation) -> Result<Vec<String>, String>;
}

/// What a document is verified against.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The keys and values that the reader trusts.
    pub roots: &'a Roots,
    /// Runs the policy again; none when that was not asked for.
    pub rerun: Option<&'a dyn Rerun>,
    /// The operation that the document must be of; none for any.
    pub operation_id: Option<OperationId>,
}

impl<'a> Reader<'a> {
    /// A reader without a bundle that accepts any operation.
    #[must_use]
    pub const fn new(roots: &'a Roots) -> Self {
        Self { roots, rerun: None, operation_id: None }
    }
}

/// Checks a document, or the pages of one in any order.
#[must_use]
pub fn verify(pages: Vec<Value>, reader: &Reader<'_>) -> Report {
    let (mut report, roots) = (Report::default(), reader.roots);
    let Some(read) = pages::read(pages, &mut report) else { return report };
    let history = events::check(&read, &mut report);
    let at_ms = history.last_at_ms;
    let story = story::check(&read, history, reader, &mut report);
    if let Some(story) = &story {
        decisions::check(story, reader, &mut report);
        approvals::check(story, roots, &mut report);
        admission::check(story, roots, &mut report);
        receipts::check(story, roots, &mut report);
        result::check(story, roots, &mut report);
    }
    // The statement about the key names the size of the log.
    let mut of_log = Report::default();
    let log_sizes = log::check(&read, roots, &mut of_log);
    if let Some(story) = &story {
        key::check(&read, story, &log_sizes, at_ms, roots, &mut report);
    }
    report.checks.extend(of_log.checks);
    report
}
