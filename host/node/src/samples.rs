//! Operations that honest nodes admit: intents, the decision on each, the calls that follow, and the settings of the nodes. For the
//! self-test and for tests, which sign decisions with an authority's key of their own.

use crate::{
    AdmitRequest, Call, Clock, CompiledBundles, Envelope, Header, NodeSettings, Owner, Subject, Trust,
};
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::admission::{AdmissionDecision, Authorities, PAYLOAD_TYPE, Target, admission_hash};
use gateway_domain::approval::{Approval, SigningRule, approvals_root};
use gateway_domain::binding::ClientBinding;
use gateway_domain::canonical::CanonicalError;
use gateway_domain::dsse;
use gateway_domain::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{
    FixedContributions, Intent, KeyCreate, Lifecycle, PublicationMode, Recover, Refresh,
};
use gateway_domain::key::{Epoch, FIRST_EPOCH};
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::policy::facts::Rules;
use gateway_domain::policy::{Facts, Moment, Outcome, Recorded, Request, SignedDocument};
use gateway_domain::receipt::Chain;
use gateway_domain::roster::{ParticipantIndex, Roster, Threshold};
use gateway_domain::samples;
use gateway_domain::time::EpochMs;
use gateway_policy::TrustedBundle;
use gateway_seal::at_rest::Kek;
use gateway_threshold::SignatureProfile;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The key of an authority.
pub type AuthorityKey = SigningKey;

/// When admissions expire, by the nodes' clock.
pub const NOT_AFTER: EpochMs = EpochMs(1_000_000);

/// The deployment's rules: two approvals, any recipient.
pub fn rules() -> Rules {
    Rules { permitted_recipients: "*".to_owned(), required_approvals: 2, separation_of_duties: false }
}

/// The facts that a gateway with [`rules`] states.
pub fn facts() -> BTreeMap<String, String> {
    let facts = [
        ("deployment.permitted_recipients", "*"),
        ("deployment.required_approvals", "2"),
        ("deployment.separation_of_duties", "false"),
    ];
    facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// Settings of nodes with [`rules`], which do not verify approvers' signatures.
pub fn settings(
    kek: Arc<Kek>,
    authorities: Authorities,
    policy_trust: Trust,
    compiled_bundles: Arc<CompiledBundles>,
    clock: Clock,
) -> NodeSettings {
    NodeSettings {
        kek,
        authorities,
        rules: rules(),
        approver_roles: BTreeMap::new(),
        policy_trust,
        compiled_bundles,
        decision_ttl_max_ms: NOT_AFTER.0,
        signed_approvals: SigningRule::Off,
        keys_without_approvals: false,
        clock,
    }
}

/// The tenant `default` and its key of this name.
pub fn owner(key_ref: &str) -> Owner {
    Owner { tenant: Tenant("default".to_owned()), key_ref: KeyRef(key_ref.to_owned()) }
}

/// One unsigned approval by each of these people.
pub fn approvals(subjects: &[&str]) -> Vec<Approval> {
    let approval = |subject: &&str| Approval { approved_at_ms: EpochMs(1), ..samples::approval(subject, 0) };
    subjects.iter().map(approval).collect()
}

/// The epoch before a key's creation.
pub fn before_creation() -> Epoch {
    Epoch { name: EpochName(FIRST_EPOCH.to_owned()), root: Hex32::ZERO }
}

/// The creation of a key.
pub fn key_create(participants: Roster, threshold: u16, profile: &str) -> Intent {
    Intent::KeyCreate(samples::key_create(participants, threshold, profile))
}

/// A custody signature over `digest`.
pub fn asset_action(participants: Roster, digest: Hex32) -> Intent {
    Intent::AssetAction(samples::asset_action(digest, samples::terms(participants)))
}

/// A change of a key to this epoch, published at once.
pub fn change(epoch: &str) -> Lifecycle {
    samples::change(epoch, PublicationMode::Automatic)
}

/// New shares for the same participants.
pub fn refresh(epoch: &str) -> Intent {
    Intent::Refresh(Refresh { change: change(epoch) })
}

/// New shares for these participants.
pub fn reshare(epoch: &str, participants: Roster, threshold: u16) -> Intent {
    Intent::Reshare(samples::reshare(change(epoch), participants, threshold))
}

/// The recovery of one participant's share, with these contributions of the helpers.
pub fn recover(epoch: &str, recovering: u16, helpers: Roster, contributions: &FixedContributions) -> Intent {
    Intent::Recover(Recover {
        helper_share_cids: contributions.cids.iter().map(ToString::to_string).collect(),
        expected_helper_admission_root: contributions.root.map(|root| root.to_string()),
        ..samples::recover(change(epoch), recovering, helpers)
    })
}

/// The messages for this participant.
pub fn mail(sent: &[Envelope], participant: u16) -> Vec<Envelope> {
    let is_mine = |envelope: &&Envelope| {
        let Header { from, to, .. } = *envelope.header();
        from != participant && to.is_none_or(|to| to == participant)
    };
    sent.iter().filter(is_mine).cloned().collect()
}

/// An operation that every node with [`settings`] admits. A test changes some of its fields before the decision is signed.
#[derive(Clone, Debug)]
pub struct Case {
    /// The authority that signs the decision.
    pub authority: AuthorityKey,
    /// The intent.
    pub intent: Intent,
    /// Its approvals.
    pub approvals: Vec<Approval>,
    /// The tenant and key name that the caller claims.
    pub owner: Owner,
    /// The client that submitted the operation.
    pub submitter: ClientBinding,
    /// The bundle that evaluates the operation.
    pub bundle: Arc<TrustedBundle>,
    /// The facts that the policy gets.
    pub facts: BTreeMap<String, String>,
    /// The documents that the policy gets, valid or not.
    pub documents: Vec<Arc<SignedDocument>>,
    /// The number of approvals that the gateway requires.
    pub required_approvals: u32,
    /// Changes the outcome of the policy before the decision is signed, as a dishonest gateway does.
    pub forge: fn(&mut Outcome),
    /// The decision. [`Case::decision`] sets bundle and hashes of the policy's outcome.
    pub decision: AdmissionDecision,
    /// The signature profile of the key.
    pub profile: SignatureProfile,
}

impl Case {
    /// An operation on a key in this epoch, approved by Alice and Bob. For a change of a key, call [`Case::changing`] too.
    pub fn build(
        (authority, bundle): (AuthorityKey, Arc<TrustedBundle>),
        operation_id: OperationId,
        (key_id, owner): (KeyId, Owner),
        (epoch, threshold): (Epoch, u16),
        intent: Intent,
        participants: Roster,
    ) -> Result<Self, CanonicalError> {
        let (approvals, intent_hash) = (approvals(&["alice", "bob"]), intent.hash()?);
        let (target, profile) = match &intent {
            Intent::KeyCreate(KeyCreate { participants, threshold, signature_profile, .. }) => {
                let (participants, threshold) = (participants.clone(), *threshold);
                let target = Target { key_id, epoch: epoch.name.clone(), participants, threshold };
                (Some(target), signature_profile.parse().ok())
            }
            Intent::Payment(_)
            | Intent::AssetAction(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Recover(_) => (None, None),
        };
        let decision = AdmissionDecision {
            operation_id,
            operation_type: intent.operation_type(),
            intent_hash,
            request_digest: intent.request_digest(operation_id, key_id)?,
            key_id,
            epoch: epoch.name,
            epoch_root: epoch.root,
            participants,
            threshold: Threshold(threshold),
            holders: None,
            target,
            derivation: None,
            bundle_hash: Hex32::ZERO,
            policy_input_hash: Hex32::ZERO,
            policy_output_hash: Hex32::ZERO,
            approvals_root: approvals_root(intent_hash, &approvals)?,
            not_before_ms: EpochMs(0),
            not_after_ms: NOT_AFTER,
        };
        Ok(Self {
            authority,
            intent,
            approvals,
            owner,
            submitter: samples::submitter("carol"),
            bundle,
            facts: facts(),
            documents: Vec::new(),
            required_approvals: 2,
            forge: |_| (),
            decision,
            profile: profile.unwrap_or(SignatureProfile::FrostSecp256k1Sha256Tr),
        })
    }

    /// The same operation on a key of this signature profile.
    pub fn on_profile(self, profile: SignatureProfile) -> Self {
        Self { profile, ..self }
    }

    /// The same as a change of a key from these holders to the generation `target`, by `participants`: all of both.
    pub fn between(mut self, holders: Roster, target: Target, participants: Roster) -> Self {
        self.decision.participants = participants;
        self.decision.holders = Some(holders);
        self.decision.target = Some(target);
        self
    }

    /// The request that the policy evaluates.
    pub fn policy_request(&self) -> Request<'_> {
        Request {
            moment: Moment::Admission,
            intent_hash: self.decision.intent_hash,
            tenant: &self.owner.tenant,
            key_ref: &self.owner.key_ref,
            submitter: &self.submitter,
            intent: &self.intent,
            approvals: &self.approvals,
        }
    }

    /// The policy's outcome, as the gateway records it.
    pub fn outcome(&self) -> Outcome {
        let evaluator = self.bundle.evaluator();
        let facts = Facts::from_pairs(self.facts.clone()).with_documents(&self.documents, EpochMs(0));
        let outcome = evaluator.evaluate(&self.policy_request(), &facts, evaluator.fuel_max());
        let mut outcome = outcome.raise_quorum_to(self.required_approvals);
        (self.forge)(&mut outcome);
        outcome
    }

    /// The operation with the decision that the authority signs.
    pub fn admitted(&self) -> Result<Admitted, CanonicalError> {
        let outcome = self.outcome();
        let decision = AdmissionDecision {
            bundle_hash: outcome.bundle_hash,
            policy_input_hash: outcome.input_hash,
            policy_output_hash: outcome.output_hash,
            ..self.decision.clone()
        };
        let payload = decision.payload()?;
        let signed = dsse::pre_authentication_encoding(PAYLOAD_TYPE, &payload);
        let keyid = dsse::key_id(&self.authority.verifying_key().to_bytes());
        let signature = (keyid, self.authority.sign(&signed).to_bytes());
        let request = AdmitRequest {
            effect: EffectId { operation: decision.operation_id, step: EffectStep::Admission, attempt: 1 },
            intent: self.intent.clone(),
            submitter: self.submitter.clone(),
            approvals: self.approvals.clone(),
            policy: Recorded::from(&outcome),
            owner: self.owner.clone(),
            envelope: dsse::Envelope::seal(PAYLOAD_TYPE, &payload, &[signature]),
        };
        Ok(Admitted { admission_hash: admission_hash(&payload), decision, request, profile: self.profile })
    }
}

/// An operation with its signed decision.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The decision.
    pub decision: AdmissionDecision,
    /// The hash of the decision.
    pub admission_hash: Hex32,
    /// The request to admit it.
    pub request: AdmitRequest,
    profile: SignatureProfile,
}

impl Admitted {
    /// The chain of its steps on a node.
    pub fn chain(&self, participant: u16) -> Chain {
        Chain {
            admission_hash: self.admission_hash,
            operation_id: self.decision.operation_id,
            participant: ParticipantIndex(participant),
        }
    }

    /// A call with the right previous transition; `executed` is the attempt that produced the result.
    pub fn call(
        &self,
        participant: u16,
        step: EffectStep,
        attempt: u32,
        executed: u32,
    ) -> Result<Call, CanonicalError> {
        let (operation_id, operation_type) =
            (self.decision.operation_id, self.request.intent.operation_type());
        Ok(Call {
            effect: EffectId { operation: operation_id, step, attempt },
            admission_hash: self.admission_hash,
            previous: self.chain(participant).before(step, operation_type, executed)?,
            subject: Subject::new(&self.decision, self.profile),
        })
    }
}
