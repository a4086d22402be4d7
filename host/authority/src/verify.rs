//! The checks of a request that comes from another process. The time is an argument.

use crate::Authority;
use crate::decision::decide;
use crate::error::Unverified;
use crate::policies::Policies;
use crate::record::Record;
use crate::verified::{Verified, known};
use gateway_domain::admission::{Admission, AdmissionDecision, Authorities, Derivation};
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::approval::{ApprovalSubject, SigningRule, n_distinct_people};
use gateway_domain::binding::ClientBinding;
use gateway_domain::dsse::Envelope;
use gateway_domain::evidence::{self, ChainedEvent};
use gateway_domain::ids::Hex32;
use gateway_domain::intent::{Intent, OperationType};
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::AdmissionRequest;
use gateway_domain::operation::{Event, Operation, Phase, replay};
use gateway_domain::policy::facts::Rules;
use gateway_domain::policy::paid::{Paid, Paying};
use gateway_domain::policy::{Moment, Outcome, Recorded};
use gateway_domain::redaction::Salt;
use gateway_domain::signature::signing_key;
use gateway_domain::time::EpochMs;
use serde::{Deserialize, Serialize};

/// Decisions that a process makes at one time; others wait. Each takes a core, an instance of the policy engine's pool, and up to
/// its memory.
pub const DECISIONS_MAX: usize = 8;

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
    /// The policy bundle that allows it.
    pub bundle_hash: Hex32,
    /// What the authority needs to evaluate the policy itself. The gateway's verdict is not part of the request.
    pub policy: Recorded,
    /// The key as the gateway states it; `null` for a key creation. Each node compares it with its own share.
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
#[derive(Debug)]
pub struct Verifier {
    /// Whether approvers sign, and the authority's own registry of their keys.
    pub signed_approvals: SigningRule,
    /// The authority's own rules. They hold even if the policy requires less, and the facts that the policy read must agree with
    /// them.
    pub rules: Rules,
    /// Whether keys may be created without approvals, as development does. Ignored if approvals must be signed.
    pub keys_without_approvals: bool,
    /// How far in the future a decision may expire, in milliseconds.
    pub decision_ttl_max_ms: u64,
    /// The policy bundles that it trusts. It evaluates the policy itself.
    pub policies: Policies,
    /// What it decided before.
    pub record: Record,
    /// The authorities whose decisions prove earlier payments, itself included, and how many of them sign one.
    pub authorities: Authorities,
}

impl Verifier {
    /// Checks the request, and evaluates the policy. Takes as long as the policy, so it is called where it may block.
    ///
    /// # Errors
    /// [`Unverified`], which names the check that failed.
    pub fn verify(&self, request: &DecisionRequest, now: EpochMs) -> Result<Verified, Unverified> {
        let operation = operation(&request.events)?;
        self.check_times(request, now)?;
        self.check_approvals(&operation, now)?;
        // Neither decided before, nor rejected, cancelled or expired.
        if operation.phase != Phase::Deciding {
            return Err(Unverified::Events("the operation does not await a decision"));
        }
        let bundle = self.policies.find(request.bundle_hash, now)?;
        let asked = operation.request(Moment::Admission, &operation.approvals);
        let policy = bundle.evaluator().repeat(&asked, &request.policy)?;
        let required_approvals = self.n_required(operation.intent.operation_type());
        let rules = Rules { required_approvals, ..self.rules.clone() };
        let paid = self.paid(&operation, request, now)?;
        let documents = self.policies.documents(&request.policy)?;
        let known = known(rules.clone(), &operation, request.key.as_ref(), paid, documents.clone(), now);
        known.check_outcome(&policy)?;
        self.check_ages(&operation, &policy, now)?;
        known.check_facts(&policy.facts)?;
        let DecisionRequest { key, derivation, not_before_ms, not_after_ms, .. } = request;
        let decision = decide(&AdmissionRequest {
            operation: &operation,
            policy: &policy,
            key: key.as_ref(),
            derivation: derivation.as_ref(),
            not_before_ms: *not_before_ms,
            not_after_ms: *not_after_ms,
        })?;
        Ok(Verified {
            is_pinned: self.policies.is_pinned(request.bundle_hash),
            recorded: request.policy.clone(),
            key: key.clone(),
            operation,
            bundle,
            now,
            decision,
            rules,
            paid,
            documents,
        })
    }

    /// Records the decision, and then signs it.
    ///
    /// # Errors
    /// [`Unverified::Superseded`], [`Unverified::Spent`], [`Unverified::OtherPayment`], [`Unverified::NotRecorded`],
    /// [`Unverified::NotRepeated`].
    pub async fn admit(&self, authority: &Authority, verified: Verified) -> Result<Admission, Unverified> {
        let decision = verified.decision.clone();
        self.record.admit(verified).await?;
        Ok(authority.sign_decision(decision)?)
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

    /// Each approval must count by the authority's own registry, which must know the submitter as the operation does, and enough different
    /// people must have approved.
    fn check_approvals(&self, operation: &Operation, now: EpochMs) -> Result<(), Unverified> {
        let subject =
            ApprovalSubject { intent_hash: operation.intent.hash()?, ..operation.approval_subject() };
        for approval in &operation.approvals {
            self.signed_approvals
                .check_approval(&subject, approval, now)
                .and_then(|()| approval.check_received())
                .map_err(|fault| Unverified::Approval { subject_id: approval.subject_id.clone(), fault })?;
        }
        let required = self.n_required(operation.intent.operation_type());
        let counted = self.rules.counted(&operation.approvals, &operation.submitter);
        let n_approved = n_distinct_people(counted);
        if n_approved < required {
            return Err(Unverified::TooFew { n_approved, required });
        }
        let ClientBinding { subject_id, registered, .. } = &operation.submitter;
        self.signed_approvals
            .check_registered(&operation.tenant, subject_id, registered.as_deref())
            .map_err(|fault| Unverified::Submitter { subject_id: subject_id.clone(), fault })
    }

    /// No approval may be too old; the time for which this outcome postpones the admission does not count.
    fn check_ages(&self, operation: &Operation, policy: &Outcome, now: EpochMs) -> Result<(), Unverified> {
        let wait_ms = policy.time_limits().wait_ms(&operation.approvals);
        for approval in &operation.approvals {
            let statement = operation.approval_subject().statement(approval);
            self.signed_approvals
                .check_age(&statement, approval.signature.as_deref(), now, wait_ms)
                .map_err(|fault| Unverified::Approval { subject_id: approval.subject_id.clone(), fault })?;
        }
        Ok(())
    }

    /// What the proofs of earlier payments say. They are of the key as the gateway states it, which each node compares with its own.
    fn paid(
        &self,
        operation: &Operation,
        request: &DecisionRequest,
        now: EpochMs,
    ) -> Result<Option<Paid>, Unverified> {
        // A child of the key follows from its chain code, which an authority does not have: it decided on its public key before.
        let signing_key = |intent: &Intent, decision: &AdmissionDecision| {
            let key = request.key.as_ref()?;
            let own = signing_key(intent, key.key_id, &key.public_key_artifact_ref());
            own.or_else(|| {
                let child = decision.derivation.as_ref()?;
                Some(format!("{}:{}", key.signature_profile, child.public_key_hex))
            })
        };
        let paying = Paying {
            operation_id: operation.id,
            key_id: operation.key.key_id,
            intent: &operation.intent,
            authorities: &self.authorities,
            now,
            signing_key: &signing_key,
        };
        Ok(paying.verify(&request.policy.proven_by)?)
    }

    /// The number of approvers required: 0 for a key creation if the settings exempt it. If approvals must be signed, none is
    /// exempt.
    fn n_required(&self, operation_type: OperationType) -> u32 {
        let is_exempt = self.keys_without_approvals
            && operation_type == OperationType::KeyCreate
            && !self.signed_approvals.is_required();
        if is_exempt { 0 } else { self.rules.required_approvals }
    }
}

/// The operation of these events.
fn operation(events: &[HistoryEvent]) -> Result<Operation, Unverified> {
    let mut previous = Hex32::ZERO;
    for HistoryEvent { event, salt, hash } in events {
        if evidence::fault(previous, event, &Salt::new(*salt.as_bytes()), *hash).is_some() {
            return Err(Unverified::Events("an event does not follow the one before it"));
        }
        previous = *hash;
    }
    let events = events.iter().map(|sent| &sent.event);
    replay(events).ok_or(Unverified::Events("the first one is not a submission"))
}
