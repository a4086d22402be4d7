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
mod receipts;
mod result;
mod statement;

use crate::node_logs::NodeLogs;
use crate::roots::Roots;
use gateway_domain::ids::OperationId;
use gateway_domain::log::WitnessPolicy;
use gateway_domain::operation::Evaluation;
use gateway_domain::time::EpochMs;
use serde_json::Value;

pub use crate::report::{Check, Finding, Report, Status, Verdict};
pub use nodes::audit;

/// Runs policy evaluations again, with bundles that the reader has.
pub trait RerunPolicy {
    /// Runs the evaluation again. Returns each difference from the recorded one as a line, or `Err` with the reason why it
    /// could not be run.
    fn differences(&self, evaluation: &Evaluation) -> Result<Vec<String>, String>;
}

/// The inputs of a verification besides the document.
#[derive(Clone, Copy)]
pub struct EvidenceReader<'a> {
    /// The keys and values that the reader trusts.
    pub roots: &'a Roots,
    /// The time by the reader's clock: nothing in a document is later.
    pub now: EpochMs,
    /// Runs the policy again; `None` to skip that.
    pub rerun: Option<&'a dyn RerunPolicy>,
    /// The operation that the document must be of; `None` for any.
    pub operation_id: Option<OperationId>,
    /// The nodes' own logs; `None` to skip the comparison with them.
    pub nodes: Option<&'a NodeLogs>,
    /// The witnesses that must have cosigned the log; `None` to skip that.
    pub witnesses: Option<&'a WitnessPolicy>,
}

impl<'a> EvidenceReader<'a> {
    /// A reader without bundles, nodes' logs and witnesses, for any operation.
    #[must_use]
    pub const fn new(roots: &'a Roots, now: EpochMs) -> Self {
        Self { roots, now, rerun: None, operation_id: None, nodes: None, witnesses: None }
    }
}

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
