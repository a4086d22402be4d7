//! A request that passed every check but those against the record.

use crate::error::Unverified;
use crate::marks::Marks;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::intent::OperationType;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::Operation;
use gateway_domain::policy::facts::Rules;
use gateway_domain::policy::{Moment, Paid, Recorded, SignedDocument, SpendingTotals};
use gateway_domain::time::EpochMs;
use gateway_policy::{Known, KnownKey, RepeatError, Superseded, TotalsError, TrustedBundle};
use std::sync::Arc;

/// A request that passed every check but those against the record.
#[derive(Debug)]
pub struct Verified {
    pub(crate) operation: Operation,
    pub(crate) bundle: Arc<TrustedBundle>,
    pub(crate) now: EpochMs,
    pub(crate) decision: AdmissionDecision,
    pub(crate) recorded: Recorded,
    pub(crate) key: Option<CustodyKey>,
    /// The authority's rules for this operation.
    pub(crate) rules: Rules,
    pub(crate) is_pinned: bool,
    /// What the proofs of earlier payments say.
    pub(crate) paid: Option<Paid>,
    /// The documents that the policy read.
    pub(crate) documents: Vec<Arc<SignedDocument>>,
}

impl Verified {
    /// Checks that its bundle may admit an operation. Returns the marks afterwards; `None` if they stay as they are.
    pub(crate) fn raise(&self, marks: &Marks) -> Result<Option<Marks>, Superseded> {
        marks.raised(self.bundle.bundle().hash(), self.bundle.sequence(), self.is_pinned, self.now)
    }

    /// Checks the payment against what the authority admitted.
    pub(crate) fn check_totals(&self, totals: SpendingTotals) -> Result<(), Unverified> {
        let asked = self.operation.request(Moment::Admission, &self.operation.approvals);
        let (rules, documents) = (self.rules.clone(), self.documents.clone());
        let known = known(rules, &self.operation, self.key.as_ref(), self.paid, documents, self.now);
        let checked = known.check_totals(self.bundle.evaluator(), &asked, &self.recorded, &totals);
        checked.map_err(|error| match error {
            TotalsError::Host(fault) => RepeatError::Host(fault).into(),
            TotalsError::Denied(why) => Unverified::Spent { totals, why },
        })
    }
}

/// What the authority knows of an operation, by its rules for it.
pub(crate) fn known<'a>(
    rules: Rules,
    operation: &'a Operation,
    key: Option<&'a CustodyKey>,
    paid: Option<Paid>,
    documents: Vec<Arc<SignedDocument>>,
    now: EpochMs,
) -> Known<'a> {
    let has_key = operation.intent.operation_type() != OperationType::KeyCreate;
    Known {
        rules,
        key: key.filter(|_| has_key).map(KnownKey::of),
        intent: &operation.intent,
        submitter: &operation.submitter,
        approvals: &operation.approvals,
        paid,
        documents,
        now: Some(now),
    }
}
