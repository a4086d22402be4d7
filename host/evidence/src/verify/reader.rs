//! What the reader of a document brings: trusted keys, a clock, and what else a document can be compared with.

use crate::node_logs::NodeLogs;
use crate::roots::Roots;
use gateway_domain::ids::OperationId;
use gateway_domain::log::WitnessPolicy;
use gateway_domain::operation::Evaluation;
use gateway_domain::time::EpochMs;

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
