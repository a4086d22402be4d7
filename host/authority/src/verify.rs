//! The checks of a request that comes from another process. Pure: the time is an argument.

use crate::{Authority, Refusal};
use gateway_domain::admission::{Admission, AdmissionRequest, Derivation};
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::approval::{ApprovalError, ApprovalSubject, SigningRule, n_distinct_subjects};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::dsse::Envelope;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::OperationType;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Event, Operation, replay};
use gateway_domain::policy;
use gateway_domain::redaction::Salt;
use gateway_domain::time::EpochMs;
use serde::{Deserialize, Serialize};

/// A [`ChainedEvent`] on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryEvent {
    /// The event.
    pub event: Event,
    /// The salt of its commitments.
    pub salt: Hex32,
    /// Its hash in the operation's chain.
    pub hash: Hex32,
}

impl From<ChainedEvent> for HistoryEvent {
    fn from(ChainedEvent { event, salt, hash }: ChainedEvent) -> Self {
        Self { event, salt: Hex32::new(*salt.as_bytes()), hash }
    }
}

/// A request for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// All events of the operation, oldest first.
    pub events: Vec<HistoryEvent>,
    /// The policy's outcome over its approvals.
    pub policy: policy::Outcome,
    /// The key; `null` for a key creation.
    pub key: Option<CustodyKey>,
    /// The derived key, if one was requested.
    pub derivation: Option<Derivation>,
    /// The first valid instant.
    pub not_before_ms: EpochMs,
    /// The first instant that is no longer valid.
    pub not_after_ms: EpochMs,
}

/// The answer to a [`DecisionRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionAnswer {
    /// The signed decision.
    pub decision: Envelope,
}

/// The authority's own rules.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// Whether approvers sign, and the authority's own registry of their keys.
    pub signed_approvals: SigningRule,
    /// The number of different people who must have approved, even if the policy requires fewer.
    pub required_approvals: u32,
    /// Whether keys may be created without approvals, as development does. Ignored if approvals must be signed.
    pub keys_without_approvals: bool,
    /// How far in the future a decision may expire, in milliseconds.
    pub decision_ttl_max_ms: u64,
}

/// Why a request is not decided.
#[derive(Debug, thiserror::Error)]
pub enum Unverified {
    /// The events are not the chained history of an operation.
    #[error("the events are not the history of an operation: {0}")]
    Events(&'static str),
    /// The decision would not be valid now, or for too long.
    #[error(
        "the decision would be valid from `{not_before_ms}` to `{not_after_ms}`, and the authority's clock says `{now_ms}`"
    )]
    Times {
        /// The first valid instant.
        not_before_ms: u64,
        /// The first instant that is no longer valid.
        not_after_ms: u64,
        /// The authority's time.
        now_ms: u64,
    },
    /// An approval does not count.
    #[error("approval of `{subject_id}`: `{}`: {fault}", fault.as_str())]
    Approval {
        /// The approver.
        subject_id: String,
        /// The reason.
        fault: ApprovalError,
    },
    /// Too few people approved.
    #[error("the operation has {n_approved} of {required} required approvals")]
    TooFew {
        /// The number of different people who approved.
        n_approved: usize,
        /// The required number.
        required: u32,
    },
    /// The request is inconsistent.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A value has no canonical form.
    #[error("the operation has no canonical form")]
    Canonical(#[from] CanonicalError),
}

impl Verifier {
    /// Checks the request, and signs the decision.
    ///
    /// # Errors
    /// [`Unverified`], which names the check that failed.
    pub fn decide(
        &self,
        authority: &Authority,
        request: &DecisionRequest,
        now: EpochMs,
    ) -> Result<Admission, Unverified> {
        let operation = operation(&request.events)?;
        self.check_times(request, now)?;
        self.check_approvals(&operation, now)?;
        let DecisionRequest { policy, key, derivation, not_before_ms, not_after_ms, .. } = request;
        let admission = AdmissionRequest {
            operation: &operation,
            policy,
            key: key.as_ref(),
            derivation: derivation.as_ref(),
            not_before_ms: *not_before_ms,
            not_after_ms: *not_after_ms,
        };
        Ok(authority.sign(&admission)?)
    }

    /// The decision must be valid now, and neither begin nor end too far from it.
    fn check_times(&self, request: &DecisionRequest, now: EpochMs) -> Result<(), Unverified> {
        let DecisionRequest { not_before_ms, not_after_ms, .. } = request;
        let latest = now.plus_ms(self.decision_ttl_max_ms).plus_ms(CLOCK_SKEW_MS);
        let earliest = EpochMs(now.0.saturating_sub(CLOCK_SKEW_MS.saturating_mul(2)));
        let is_valid = *not_before_ms <= now && now < *not_after_ms;
        if is_valid && *not_after_ms <= latest && *not_before_ms >= earliest {
            return Ok(());
        }
        Err(Unverified::Times { not_before_ms: not_before_ms.0, not_after_ms: not_after_ms.0, now_ms: now.0 })
    }

    /// Each approval must count by the authority's own registry, and enough different people must have approved.
    fn check_approvals(&self, operation: &Operation, now: EpochMs) -> Result<(), Unverified> {
        let subject = ApprovalSubject {
            tenant: &operation.tenant,
            operation_id: operation.id,
            key_id: operation.key.key_id,
            intent_hash: operation.intent.hash()?,
            submitter: &operation.submitter.subject_id,
        };
        for approval in &operation.approvals {
            self.signed_approvals
                .check(&subject, approval, now)
                .map_err(|fault| Unverified::Approval { subject_id: approval.subject_id.clone(), fault })?;
        }
        let is_exempt = self.keys_without_approvals
            && operation.intent.operation_type() == OperationType::KeyCreate
            && !self.signed_approvals.is_required();
        let required = if is_exempt { 0 } else { self.required_approvals };
        let n_approved = n_distinct_subjects(&operation.approvals);
        if u32::try_from(n_approved).unwrap_or(u32::MAX) < required {
            return Err(Unverified::TooFew { n_approved, required });
        }
        Ok(())
    }
}

/// The operation of these events.
fn operation(events: &[HistoryEvent]) -> Result<Operation, Unverified> {
    let mut previous = Hex32::ZERO;
    for HistoryEvent { event, salt, hash } in events {
        let event = ChainedEvent { event: event.clone(), salt: Salt::new(*salt.as_bytes()), hash: *hash };
        if !event.follows(previous) {
            return Err(Unverified::Events("an event does not follow the one before it"));
        }
        previous = event.hash;
    }
    let events: Vec<Event> = events.iter().map(|sent| sent.event.clone()).collect();
    replay(&events).ok_or(Unverified::Events("the first one is not a submission"))
}
