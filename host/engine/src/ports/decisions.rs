//! Recorded policy decisions, and the search for them.

use super::Visibility;
use crate::error::Unavailable;
use async_trait::async_trait;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::names::is_same_person;
use gateway_domain::policy::{Decision, DecisionId, Input, Outcome};
use gateway_domain::time::EpochMs;

/// What names the request that caused an evaluation; nothing in what the gateway does by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The `x-request-id` of its answer.
    pub request_id: Option<String>,
    /// Its idempotency key, if it is a submission.
    pub idempotency_key: Option<String>,
}

/// A recorded policy decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDecision {
    /// The position of the record.
    pub position: DecisionPosition,
    /// The operation that was evaluated; `None` for a preview.
    pub operation_id: Option<OperationId>,
    /// The request. Of a decision in an event, the event names the client, and the operation was the answer.
    pub asked: Asked,
    /// The time of the evaluation.
    pub at_ms: EpochMs,
    /// The input of the evaluation.
    pub input: Input,
    /// The outcome of the evaluation.
    pub outcome: Outcome,
    /// The stored hash of the record; for a decision in an event, that of the event.
    pub hash: Hex32,
    /// Whether the record matches its stored hash; for a decision in an event, whether all events up to it do.
    pub is_intact: bool,
}

/// The list that a decision is in, and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecisionPosition {
    /// In an event of an operation.
    Event {
        /// The event's index in the log of all events, from 0.
        ledger_index: u64,
        /// The event's number within its operation, from 1.
        seq: u64,
    },
    /// Among the refusals and faults, from 1.
    Refusal(u64),
    /// Among the previews, from 1.
    Preview(u64),
}

impl DecisionPosition {
    /// The index within the list.
    #[must_use]
    pub const fn index(self) -> u64 {
        match self {
            Self::Event { ledger_index: index, .. } | Self::Refusal(index) | Self::Preview(index) => index,
        }
    }
}

impl RecordedDecision {
    /// The decision's name.
    #[must_use]
    pub fn id(&self) -> DecisionId {
        match (self.position, self.operation_id) {
            (DecisionPosition::Event { seq, .. }, operation_id) => {
                // Each is of an operation.
                DecisionId::Event { operation_id: operation_id.unwrap_or(OperationId(Hex32::ZERO)), seq }
            }
            (DecisionPosition::Refusal(index), _) => DecisionId::Refusal(index),
            (DecisionPosition::Preview(index), _) => DecisionId::Preview(index),
        }
    }
}

/// The decisions that are searched for: those to which everything that is given applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionFilter {
    /// Of this operation.
    pub operation_id: Option<OperationId>,
    /// Of the request with this id. Finds no decision that moved an operation.
    pub request_id: Option<String>,
    /// Of a submission with this idempotency key, and all later ones on the operation that it created.
    pub idempotency_key: Option<String>,
    /// On what this subject submitted.
    pub subject_id: Option<String>,
    /// With this decision.
    pub decision: Option<Decision>,
    /// With this reason or obligation.
    pub code: Option<String>,
    /// Later than this.
    pub after: Option<EpochMs>,
    /// Earlier than this.
    pub before: Option<EpochMs>,
}

impl DecisionFilter {
    /// Whether the decision is one of these, but for `operation_id`, `request_id` and `idempotency_key`.
    #[must_use]
    pub fn fits(&self, RecordedDecision { at_ms, input, outcome, .. }: &RecordedDecision) -> bool {
        let Self { subject_id, decision, code, after, before, .. } = self;
        let has = |code: &String| {
            outcome.reasons.iter().chain(&outcome.obligations).any(|statement| statement.code == *code)
        };
        subject_id.as_ref().is_none_or(|subject| is_same_person(&input.submitter.subject_id, subject))
            && decision.is_none_or(|decision| outcome.decision == decision)
            && code.as_ref().is_none_or(has)
            && after.is_none_or(|after| *at_ms > after)
            && before.is_none_or(|before| *at_ms < before)
    }
}

/// How far a search has come: in each list, everything from this index on has been looked at. The default is the beginning of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchedFrom {
    /// In the log of events.
    pub event: u64,
    /// Among the refusals and faults.
    pub refusal: u64,
    /// Among the previews.
    pub preview: u64,
}

impl Default for SearchedFrom {
    fn default() -> Self {
        const END: u64 = i64::MAX.unsigned_abs();
        Self { event: END, refusal: END, preview: END }
    }
}

impl SearchedFrom {
    /// Whether all lists have been looked at.
    #[must_use]
    pub const fn is_end(self) -> bool {
        // The log begins at 0, the others at 1.
        self.event == 0 && self.refusal <= 1 && self.preview <= 1
    }
}

/// A part of a search for decisions that the caller can see.
#[derive(Clone, Copy, Debug)]
pub struct DecisionSearch<'a> {
    /// What the caller can see.
    pub visibility: &'a Visibility,
    /// What is searched for.
    pub filter: &'a DecisionFilter,
    /// The operations with the idempotency key, if the filter has one.
    pub operations: &'a [OperationId],
    /// How far the parts before have come.
    pub searched: SearchedFrom,
    /// The most decisions of this part.
    pub n_max: usize,
}

/// A part of the decisions that are searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundDecisions {
    /// Newest first. There may be fewer than asked for, although more follow: a search reads a limited number of records.
    pub decisions: Vec<RecordedDecision>,
    /// How far the search has come.
    pub searched: SearchedFrom,
}

/// Reads recorded decisions.
#[async_trait]
pub trait ReadDecisions: Send + Sync {
    /// The decision of this name.
    async fn decision(&self, id: DecisionId) -> Result<Option<RecordedDecision>, Unavailable>;

    /// A part of a search.
    async fn decisions(&self, search: DecisionSearch<'_>) -> Result<FoundDecisions, Unavailable>;
}
