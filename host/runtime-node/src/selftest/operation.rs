//! Operations that the honest nodes admit: intents, their decisions, and the calls that follow.

use gateway_domain::admission::{AdmissionDecision, PAYLOAD_TYPE, Target, admission_hash};
use gateway_domain::approval::{Approval, approvals_root};
use gateway_domain::binding::ClientBinding;
use gateway_domain::contribution::RecoveryCase;
use gateway_domain::dsse::{self, Envelope};
use gateway_domain::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{
    AssetAction, FixedContributions, Intent, KeyCreate, Lifecycle, PublicationMode, Recover, Refresh,
    Reshare, SigningTerms, key_id,
};
use gateway_domain::key::{Epoch, FIRST_EPOCH};
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::policy::{Facts, Moment, Outcome, Recorded, Request};
use gateway_domain::receipt::Chain;
use gateway_domain::roster::{ParticipantIndex, Roster, Threshold};
use gateway_domain::time::EpochMs;
use gateway_node::{AdmitRequest, Call, Owner, Subject, admitted_contributions};
use gateway_policy::TrustedBundle;
use gateway_seal::node_key::NodeSecret;
use gateway_service::process::Fault;
use gateway_threshold::{SignatureProfile, repair};

/// The people whose approval each operation has.
const APPROVERS: [&str; 2] = ["alice", "bob"];

/// The threshold of every key.
pub(crate) const THRESHOLD: u16 = 2;

/// The number of participants.
pub(crate) const PARTICIPANTS: u16 = 3;

/// Facts that agree with the nodes' rules.
const FACTS: [(&str, &str); 3] = [
    ("deployment.permitted_recipients", "*"),
    ("deployment.required_approvals", "2"),
    ("deployment.separation_of_duties", "false"),
];

/// When decisions expire, by the nodes' clock.
pub(crate) const NOT_AFTER: EpochMs = EpochMs(1_000_000);

/// An operation with its signed decision.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) decision: AdmissionDecision,
    pub(crate) request: AdmitRequest,
    admission_hash: Hex32,
    profile: SignatureProfile,
}

/// What signs decisions, and the bundle that allows the operations.
pub(crate) struct Authority<'a> {
    pub(crate) secret: &'a NodeSecret,
    pub(crate) bundle: &'a TrustedBundle,
}

/// The parts of an operation that the intent does not have.
struct Terms {
    participants: Roster,
    holders: Option<Roster>,
    target: Option<Target>,
    epoch: Epoch,
}

/// The participants `0..PARTICIPANTS`.
fn everyone() -> Result<Roster, Fault> {
    Ok(Roster::parse(&(0..PARTICIPANTS).collect::<Vec<_>>())?)
}

fn change(epoch: &str) -> Lifecycle {
    Lifecycle {
        target_epoch: EpochName(epoch.to_owned()),
        reason: "selftest".to_owned(),
        publication_mode: PublicationMode::Manual,
        metadata: Default::default(),
        public_key_artifact_ref: None,
    }
}

/// A change of the key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Refresh,
    /// To the same participants, with a threshold of all of them.
    Reshare,
    /// The attacker and participant 0 help participant 1.
    Recover,
}

impl Change {
    /// The threshold of the new shares.
    fn threshold(self) -> u16 {
        match self {
            Self::Refresh | Self::Recover => THRESHOLD,
            Self::Reshare => PARTICIPANTS,
        }
    }

    /// `contributions` are those of the helpers of a recovery.
    fn intent(self, contributions: &FixedContributions) -> Result<Intent, Fault> {
        let change = change("2");
        Ok(match self {
            Self::Refresh => Intent::Refresh(Refresh { change }),
            Self::Reshare => Intent::Reshare(Reshare {
                change,
                new_participants: everyone()?,
                threshold: Threshold(self.threshold()),
            }),
            Self::Recover => Intent::Recover(Recover {
                change,
                recovery_case_ref: "selftest".to_owned(),
                recovering_participant: ParticipantIndex(1),
                helper_participants: Roster::parse(&[0, 2])?,
                helper_share_cids: contributions.cids.iter().map(ToString::to_string).collect(),
                expected_helper_admission_root: contributions.root.map(|root| root.to_string()),
            }),
        })
    }
}

impl Operation {
    /// The creation of a key.
    pub(crate) fn creation(
        authority: &Authority<'_>,
        id: Hex32,
        key_ref: &str,
        profile: SignatureProfile,
    ) -> Result<Self, Fault> {
        let participants = everyone()?;
        let threshold = Threshold(THRESHOLD);
        let intent = Intent::KeyCreate(KeyCreate {
            asset_id: "btc".to_owned(),
            purpose: "cold".to_owned(),
            participants: participants.clone(),
            threshold,
            signature_profile: profile.name().to_owned(),
            requested_signature_profile: None,
            chains: vec![],
        });
        let owner = owner(key_ref);
        let epoch = Epoch { name: EpochName(FIRST_EPOCH.to_owned()), root: Hex32::ZERO };
        let target = Target {
            key_id: key_id(&owner.tenant, &owner.key_ref)?,
            epoch: epoch.name.clone(),
            participants: participants.clone(),
            threshold,
        };
        let terms = Terms { participants, holders: None, target: Some(target), epoch };
        Self::decided(authority, id, owner, intent, terms, profile)
    }

    /// A signature over `digest` by any of the participants.
    pub(crate) fn signature(
        authority: &Authority<'_>,
        id: Hex32,
        (key_ref, epoch): (&str, &Epoch),
        profile: SignatureProfile,
    ) -> Result<Self, Fault> {
        let participants = everyone()?;
        let intent = Intent::AssetAction(AssetAction {
            asset_id: "btc".to_owned(),
            action: "transfer".to_owned(),
            chain_id: "bitcoin".to_owned(),
            // Each operation signs another digest.
            request_digest: id,
            typed_data_root: id,
            public_fields: Default::default(),
            terms: SigningTerms {
                requested_participants: participants.clone(),
                threshold: None,
                bip32: None,
                taproot: None,
                epoch_fence_token_hex: None,
                public_key_artifact_ref: None,
                publication_mode: PublicationMode::Manual,
            },
        });
        let terms = Terms { participants, holders: None, target: None, epoch: epoch.clone() };
        Self::decided(authority, id, owner(key_ref), intent, terms, profile)
    }

    /// A change of the key to epoch 2.
    pub(crate) fn change(
        authority: &Authority<'_>,
        id: Hex32,
        (key_ref, epoch): (&str, &Epoch),
        profile: SignatureProfile,
        (change, contributions): (Change, &FixedContributions),
    ) -> Result<Self, Fault> {
        let owner = owner(key_ref);
        let participants = everyone()?;
        let target = Target {
            key_id: key_id(&owner.tenant, &owner.key_ref)?,
            epoch: EpochName("2".to_owned()),
            participants: participants.clone(),
            threshold: Threshold(change.threshold()),
        };
        let holders = Some(participants.clone());
        let terms = Terms { participants, holders, target: Some(target), epoch: epoch.clone() };
        Self::decided(authority, id, owner, change.intent(contributions)?, terms, profile)
    }

    /// The operation, with the decision that the authority signs.
    fn decided(
        authority: &Authority<'_>,
        id: Hex32,
        owner: Owner,
        intent: Intent,
        terms: Terms,
        profile: SignatureProfile,
    ) -> Result<Self, Fault> {
        let key_id = key_id(&owner.tenant, &owner.key_ref)?;
        let (operation_id, intent_hash) = (OperationId(id), intent.hash()?);
        let (approvals, submitter) = (APPROVERS.map(approval).to_vec(), submitter());
        let asked = Request {
            moment: Moment::Admission,
            intent_hash,
            tenant: &owner.tenant,
            key_ref: &owner.key_ref,
            submitter: &submitter,
            intent: &intent,
            approvals: &approvals,
        };
        let outcome = evaluate(authority.bundle, &asked);
        let decision = AdmissionDecision {
            operation_id,
            operation_type: intent.operation_type(),
            intent_hash,
            request_digest: intent.request_digest(operation_id, key_id)?,
            key_id,
            epoch: terms.epoch.name,
            epoch_root: terms.epoch.root,
            participants: terms.participants,
            threshold: Threshold(THRESHOLD),
            holders: terms.holders,
            target: terms.target,
            derivation: None,
            bundle_hash: outcome.bundle_hash,
            policy_input_hash: outcome.input_hash,
            policy_output_hash: outcome.output_hash,
            approvals_root: approvals_root(intent_hash, &approvals)?,
            not_before_ms: EpochMs(0),
            not_after_ms: NOT_AFTER,
        };
        let payload = decision.payload()?;
        let signer = dsse::key_id(&authority.secret.identity().signing_key());
        let signature = authority.secret.sign_statement(PAYLOAD_TYPE, &payload);
        let request = AdmitRequest {
            effect: EffectId { operation: operation_id, step: EffectStep::Admission, attempt: 1 },
            intent,
            submitter,
            approvals,
            owner,
            policy: Recorded::from(&outcome),
            envelope: Envelope::seal(PAYLOAD_TYPE, &payload, &[(signer, signature)]),
        };
        Ok(Self { admission_hash: admission_hash(&payload), decision, request, profile })
    }

    /// The case of a recovery.
    pub(crate) fn recovery_case(&self) -> Option<RecoveryCase> {
        let Intent::Recover(recover) = &self.request.intent else { return None };
        Some(RecoveryCase::new(self.decision.key_id, self.decision.epoch_root, recover))
    }

    /// The contributions to the recovery that are admitted.
    pub(crate) fn admitted_contributions(&self) -> repair::Admitted {
        match &self.request.intent {
            Intent::Recover(recover) => admitted_contributions(recover),
            Intent::KeyCreate(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Payment(_)
            | Intent::AssetAction(_) => repair::Admitted::default(),
        }
    }

    /// The chain of its steps at a participant.
    pub(crate) fn chain(&self, participant: u16) -> Chain {
        Chain {
            admission_hash: self.admission_hash,
            operation_id: self.decision.operation_id,
            participant: ParticipantIndex(participant),
        }
    }

    /// A call to a participant; `attempt` is that of the ceremony.
    pub(crate) fn call(&self, participant: u16, step: EffectStep, attempt: u32) -> Result<Call, Fault> {
        let previous = self.chain(participant).before(step, self.decision.operation_type, attempt)?;
        let of_effect = if step == EffectStep::Execute { attempt } else { 1 };
        Ok(Call {
            effect: EffectId { operation: self.decision.operation_id, step, attempt: of_effect },
            admission_hash: self.admission_hash,
            previous,
            subject: Subject::new(&self.decision, self.profile),
        })
    }

    /// The key.
    pub(crate) fn key_id(&self) -> KeyId {
        self.decision.key_id
    }
}

fn owner(key_ref: &str) -> Owner {
    Owner { tenant: Tenant("default".to_owned()), key_ref: KeyRef(key_ref.to_owned()) }
}

fn submitter() -> ClientBinding {
    ClientBinding {
        client_id: "selftest".to_owned(),
        subject_id: "carol".to_owned(),
        roles: vec!["submitter".to_owned()],
        scopes: vec![],
        cert_sha256: None,
        token_jti: None,
        tenant: None,
    }
}

fn approval(subject: &str) -> Approval {
    Approval {
        subject_id: subject.to_owned(),
        roles: vec!["approver".to_owned()],
        claimed_at_ms: 0,
        approved_at_ms: EpochMs(1),
        signature: None,
    }
}

fn evaluate(bundle: &TrustedBundle, asked: &Request<'_>) -> Outcome {
    let facts = Facts::from_pairs(FACTS.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let evaluator = bundle.evaluator();
    evaluator.evaluate(asked, &facts, evaluator.fuel_max()).outcome.raise_quorum_to(THRESHOLD.into())
}
