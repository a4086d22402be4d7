//! Everything a document says, checked again from its events and the reader's roots.
//!
//! Reading order: `events` (each hash, each opened field), `story` (what the events make of the operation, and whether
//! the document says the same), then what others signed: `decisions`, `approvals`, `admission`, `receipts`, `result`, `log`.
//! A check goes on after a fault, so that a report names all that does not hold.

mod admission;
mod approvals;
mod decisions;
mod events;
mod key;
mod log;
mod receipts;
mod report;
mod result;
mod shares;
mod story;

use crate::document::{Entry, Kind};
use crate::roots::Roots;
use gateway_domain::operation::Evaluation;
use serde_json::{Map, Value};

pub use report::{Check, Finding, Report, Status};

/// Runs a bundle again, for a reader that has it.
pub trait Rerun {
    /// What the bundle says otherwise than was recorded, one line each. `Err` says why nothing could be run.
    fn differences(&self, evaluation: &Evaluation) -> Result<Vec<String>, String>;
}

/// A document as far as it can be read.
pub(crate) struct Read {
    pub(crate) kind: Kind,
    /// All members but the events.
    pub(crate) members: Map<String, Value>,
    pub(crate) entries: Vec<Entry>,
    /// Whether these were several documents: then what a page says of itself is not said of the whole.
    pub(crate) is_joined: bool,
}

/// Checks a document, or the pages of one, oldest events first. `rerun` is for bundles at hand.
#[must_use]
pub fn verify(pages: Vec<Value>, roots: &Roots, rerun: Option<&dyn Rerun>) -> Report {
    let mut report = Report::default();
    let Some(read) = events::read(pages, &mut report) else { return report };
    let history = events::check(&read, &mut report);
    let story = story::check(&read, history, &mut report);
    if let Some(story) = &story {
        decisions::check(story, roots, rerun, &mut report);
        approvals::check(story, roots, &mut report);
        admission::check(story, roots, &mut report);
        receipts::check(story, roots, &mut report);
        result::check(story, roots, &mut report);
        key::check(&read, story, roots, &mut report);
    }
    log::check(&read, roots, &mut report);
    report
}
