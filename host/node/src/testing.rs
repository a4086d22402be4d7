//! Sample values for tests: an authority, a policy, intents, approvals, admissions, and calls; and nodes that issue false receipts.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "tests fail by panicking")]

pub(crate) mod lies;

use crate::{AdmitRequest, BundleOffer, Call, Discard, Node, NodeRejection, Owner, Subject, derivation};
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::admission::{
    AdmissionDecision, Authorities, Derivation, PAYLOAD_TYPE, Target, admission_hash,
};
use gateway_domain::approval::{Approval, approvals_root};
use gateway_domain::binding::ClientBinding;
use gateway_domain::canonical;
use gateway_domain::dsse::{self, Envelope};
use gateway_domain::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{
    self, AssetAction, Bip32, Intent, KeyCreate, Lifecycle, Payment, PublicationMode, Recover, Refresh,
    Reshare, Rotate, SigningTerms,
};
use gateway_domain::key::Epoch;
use gateway_domain::node_log::LogEntry;
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::policy::facts::Rules;
use gateway_domain::policy::{Facts, Moment, Outcome, Recorded, Request};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptStatement};
use gateway_domain::roster::{ParticipantIndex, Roster, Threshold};
use gateway_domain::time::EpochMs;
use gateway_policy::bundle::{MANIFEST_FILE, Manifest, is_signature, pack};
use gateway_policy::{BundleFiles, CompiledBundles, Pins, Trust, TrustedBundle, TrustedBundles};
use gateway_seal::at_rest::Kek;
use gateway_seal::relay::{self, Complaint};
use gateway_threshold::{Message, PublicKeys, SignatureProfile, Tweak};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// The names of the two signature profiles.
pub const SUITES: [&str; 2] = ["frost-ed25519-sha512", "frost-secp256k1-sha256-tr"];

/// The id of the key `treasury` of tenant `default`.
pub const KEY: KeyId = KeyId(Hex32::new([
    76, 113, 56, 128, 101, 160, 255, 209, 246, 1, 15, 185, 147, 146, 226, 254, 183, 75, 243, 210, 110, 238,
    68, 5, 10, 36, 57, 103, 205, 247, 10, 18,
]));

/// The id of the key `successor` of tenant `default`, which a rotation creates.
pub const SUCCESSOR: KeyId = KeyId(Hex32::new([
    77, 30, 122, 121, 130, 24, 51, 27, 208, 59, 71, 91, 88, 254, 198, 47, 248, 190, 162, 149, 225, 134, 247,
    32, 225, 125, 255, 5, 213, 219, 101, 0,
]));

/// When admissions expire.
pub const NOT_AFTER: EpochMs = EpochMs(1_000_000);

/// Thirty-two equal bytes.
#[must_use]
pub fn hex32(byte: u8) -> Hex32 {
    Hex32::new([byte; 32])
}

/// A roster of these participants.
#[must_use]
pub fn roster(indices: &[u16]) -> Roster {
    Roster::parse(indices).unwrap()
}

/// An authority with a fixed key.
#[must_use]
pub fn authority(byte: u8) -> SigningKey {
    SigningKey::from_bytes(&[byte; 32])
}

/// The key set that nodes pin for this authority.
#[must_use]
pub fn pinned(authority: &SigningKey) -> Authorities {
    Authorities::new([authority.verifying_key().to_bytes()], 1).unwrap()
}

/// A key-encryption key.
#[must_use]
pub fn kek(byte: u8) -> Kek {
    Kek::new([byte; 32].into())
}

/// The tenant `default` and its key of this name.
#[must_use]
pub fn owner(key_ref: &str) -> Owner {
    Owner { tenant: Tenant("default".to_owned()), key_ref: KeyRef(key_ref.to_owned()) }
}

/// The id of the key that [`owner`] names.
#[must_use]
pub fn key_id(key_ref: &str) -> KeyId {
    intent::key_id(&owner(key_ref).tenant, &KeyRef(key_ref.to_owned())).unwrap()
}

/// The client with this subject.
#[must_use]
pub fn submitter(subject: &str) -> ClientBinding {
    ClientBinding {
        client_id: "client-1".to_owned(),
        subject_id: subject.to_owned(),
        roles: vec!["submitter".to_owned()],
        scopes: vec![],
        cert_sha256: None,
        token_jti: None,
        tenant: None,
    }
}

/// The deployment's rules: two approvals, any recipient.
#[must_use]
pub fn rules() -> Rules {
    Rules { permitted_recipients: "*".to_owned(), required_approvals: 2, separation_of_duties: false }
}

/// The facts that a gateway with [`rules`] states.
#[must_use]
pub fn facts() -> BTreeMap<String, String> {
    let facts = [
        ("deployment.permitted_recipients", "*"),
        ("deployment.required_approvals", "2"),
        ("deployment.separation_of_duties", "false"),
    ];
    facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn bundles_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles")
}

/// The files of the repository's bundle `payment-guard`, signed with the development key.
#[must_use]
pub fn bundle() -> BundleFiles {
    named_bundle("payment-guard")
}

/// The files of a bundle of the repository.
#[must_use]
pub fn named_bundle(name: &str) -> BundleFiles {
    BundleFiles::read(&bundles_folder().join(name)).unwrap()
}

/// The files with a changed manifest that has their hashes, signed by this key only.
#[must_use]
pub fn signed_bundle(
    files: &BundleFiles,
    key: &SigningKey,
    change: impl FnOnce(&mut Manifest),
) -> BundleFiles {
    let mut manifest = Manifest::parse(files.get(MANIFEST_FILE).unwrap()).unwrap();
    let content = files.only(|name| name != MANIFEST_FILE && !is_signature(name));
    let hash = |(name, bytes): (&str, &[u8])| (name.to_owned(), canonical::digest_bytes("", bytes));
    manifest.files = content.iter().map(hash).collect();
    change(&mut manifest);
    let unsigned =
        content.with([(MANIFEST_FILE.to_owned(), serde_json::to_vec(&manifest).unwrap())]).unwrap();
    unsigned.with([pack::sign(&unsigned, key).unwrap()]).unwrap()
}

/// The text of trust roots that trust the development key.
#[must_use]
pub fn trust_roots() -> Vec<u8> {
    std::fs::read(bundles_folder().join("trust-development.json")).unwrap()
}

/// The public development key, with which a test signs other bundles.
#[must_use]
pub fn bundle_key() -> SigningKey {
    let file = std::fs::read(bundles_folder().join("development-signing-key.json")).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
    let seed: Hex32 = file.pointer("/private_seed").unwrap().as_str().unwrap().parse().unwrap();
    SigningKey::from_bytes(seed.as_bytes())
}

/// Trusts bundles by the development key.
#[must_use]
pub fn policy_trust() -> Trust {
    let trust = Trust::new(true);
    trust.replace(Ok(&trust_roots()), Pins::default()).unwrap();
    trust
}

/// The bundles that this process has compiled.
#[must_use]
pub fn compiled_bundles() -> Arc<CompiledBundles> {
    static COMPILED: LazyLock<Arc<CompiledBundles>> = LazyLock::new(Arc::default);
    Arc::clone(&COMPILED)
}

/// The bundle, as a gateway has it that trusts the development key.
#[must_use]
pub fn trusted_bundle(files: &BundleFiles) -> Arc<TrustedBundle> {
    static TRUSTED: LazyLock<TrustedBundles> =
        LazyLock::new(|| TrustedBundles::new(policy_trust(), compiled_bundles()));
    let hash = files.bundle_hash().unwrap();
    TRUSTED.find(hash).unwrap_or_else(|| TRUSTED.add(files.clone(), None, EpochMs(0)).unwrap())
}

/// The offer of a bundle, without an activation record.
#[must_use]
pub fn offer(files: BundleFiles) -> BundleOffer {
    BundleOffer { files, activation: None }
}

/// One unsigned approval by each of these people.
#[must_use]
pub fn approvals(subjects: &[&str]) -> Vec<Approval> {
    let approval = |subject: &&str| Approval {
        subject_id: (*subject).to_owned(),
        roles: vec!["approver".to_owned()],
        claimed_at_ms: 0,
        approved_at_ms: EpochMs(1),
        signature: None,
    };
    subjects.iter().map(approval).collect()
}

/// The creation of a key.
#[must_use]
pub fn key_create(participants: &[u16], threshold: u16, suite: &str) -> Intent {
    Intent::KeyCreate(KeyCreate {
        asset_id: "btc".to_owned(),
        purpose: "cold".to_owned(),
        participants: roster(participants),
        threshold: Threshold(threshold),
        signature_profile: suite.to_owned(),
        requested_signature_profile: None,
        chains: vec![],
    })
}

/// The terms of a signature by these participants.
#[must_use]
pub fn terms(participants: &[u16]) -> SigningTerms {
    SigningTerms {
        requested_participants: roster(participants),
        threshold: None,
        bip32: None,
        taproot: None,
        epoch_fence_token_hex: None,
        public_key_artifact_ref: None,
        publication_mode: PublicationMode::Manual,
    }
}

/// A custody signature over `digest`.
#[must_use]
pub fn asset_action(participants: &[u16], digest: u8) -> Intent {
    Intent::AssetAction(AssetAction {
        asset_id: "btc".to_owned(),
        action: "transfer".to_owned(),
        chain_id: "bitcoin".to_owned(),
        request_digest: hex32(digest),
        typed_data_root: hex32(8),
        public_fields: Default::default(),
        terms: terms(participants),
    })
}

fn change(epoch: &str) -> Lifecycle {
    Lifecycle {
        target_epoch: EpochName(epoch.to_owned()),
        reason: "drill".to_owned(),
        publication_mode: PublicationMode::Automatic,
        metadata: Default::default(),
        public_key_artifact_ref: None,
    }
}

/// New shares for the same participants.
#[must_use]
pub fn refresh(epoch: &str) -> Intent {
    Intent::Refresh(Refresh { change: change(epoch) })
}

/// New shares for these participants.
#[must_use]
pub fn reshare(epoch: &str, participants: &[u16], threshold: u16) -> Intent {
    Intent::Reshare(Reshare {
        change: change(epoch),
        new_participants: roster(participants),
        threshold: Threshold(threshold),
    })
}

/// A new key that replaces the present one.
#[must_use]
pub fn rotate(epoch: &str, participants: &[u16], threshold: u16) -> Intent {
    Intent::Rotate(Rotate {
        change: change(epoch),
        new_key_ref: KeyRef("successor".to_owned()),
        participants: roster(participants),
        threshold: Threshold(threshold),
    })
}

/// The recovery of one participant's share.
#[must_use]
pub fn recover(epoch: &str, recovering: u16, helpers: &[u16]) -> Intent {
    Intent::Recover(Recover {
        change: change(epoch),
        recovery_case_ref: "case-9".to_owned(),
        recovering_participant: ParticipantIndex(recovering),
        helper_participants: roster(helpers),
        helper_share_cids: vec![],
        expected_helper_admission_root: None,
    })
}

/// A payment, with a child key if there is a path.
#[must_use]
pub fn payment(participants: &[u16], path: Option<&str>) -> Intent {
    let bip32 = path.map(|path| Bip32 { network: "bitcoin".to_owned(), path: path.to_owned() });
    Intent::Payment(Payment {
        key_ref: None,
        from_account: "acct-1".to_owned(),
        to_account: "acct-2".to_owned(),
        amount_minor: 12_500,
        currency: "EUR".to_owned(),
        reference: None,
        terms: SigningTerms { bip32, ..terms(participants) },
    })
}

/// An operation that every node admits. A test changes some of its fields, then calls [`Case::request`].
#[derive(Clone, Debug)]
pub struct Case {
    /// The authority that signs the decision.
    pub authority: SigningKey,
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
    /// An operation with this id, on the key `treasury` in this epoch. For a change of a key, call [`Case::changing`] too.
    #[must_use]
    pub fn new(id: u8, key_id: KeyId, epoch: Epoch, threshold: u16, intent: Intent) -> Self {
        let approvals = approvals(&["alice", "bob"]);
        let (operation_id, intent_hash) = (OperationId(hex32(id)), intent.hash().unwrap());
        let participants = match &intent {
            Intent::KeyCreate(create) => create.participants.clone(),
            // `changing` sets the participants of a change of a key.
            other => other
                .signing_terms()
                .map_or_else(|| roster(&[0, 1]), |terms| terms.requested_participants.clone()),
        };
        let target = match &intent {
            Intent::KeyCreate(create) => Some(Target {
                key_id,
                epoch: epoch.name.clone(),
                participants: create.participants.clone(),
                threshold: create.threshold,
            }),
            Intent::Payment(_)
            | Intent::AssetAction(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Recover(_) => None,
        };
        let decision = AdmissionDecision {
            operation_id,
            operation_type: intent.operation_type(),
            intent_hash,
            request_digest: intent.request_digest(operation_id, key_id).unwrap(),
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
            approvals_root: approvals_root(intent_hash, &approvals).unwrap(),
            not_before_ms: EpochMs(0),
            not_after_ms: NOT_AFTER,
        };
        let profile = match &intent {
            Intent::KeyCreate(create) => {
                create.signature_profile.parse().unwrap_or(SignatureProfile::FrostSecp256k1Sha256Tr)
            }
            _ => SignatureProfile::FrostSecp256k1Sha256Tr,
        };
        Self {
            authority: authority(1),
            intent,
            approvals,
            owner: owner("treasury"),
            submitter: submitter("carol"),
            bundle: trusted_bundle(&bundle()),
            facts: facts(),
            required_approvals: 2,
            forge: |_| (),
            decision,
            profile,
        }
    }

    /// The creation of a key, by participants `0..n`.
    #[must_use]
    pub fn key_create(id: u8, key_id: KeyId, n: u16, threshold: u16, suite: &str) -> Self {
        let participants: Vec<u16> = (0..n).collect();
        let epoch = Epoch { name: EpochName("1".to_owned()), root: Hex32::ZERO };
        Self::new(id, key_id, epoch, threshold, key_create(&participants, threshold, suite))
    }

    /// The same operation on a key of this signature profile.
    #[must_use]
    pub fn on_profile(self, profile: SignatureProfile) -> Self {
        Self { profile, ..self }
    }

    /// The same with another operation id.
    #[must_use]
    pub fn of(mut self, operation_id: OperationId) -> Self {
        self.decision.operation_id = operation_id;
        self.decision.request_digest =
            self.intent.request_digest(operation_id, self.decision.key_id).unwrap();
        self
    }

    /// The same on another key of the tenant `default`.
    #[must_use]
    pub fn on_key(mut self, key_ref: &str) -> Self {
        self.owner = owner(key_ref);
        self.decision.key_id = key_id(key_ref);
        if let Some(target) = &mut self.decision.target {
            target.key_id = self.decision.key_id;
        }
        let operation_id = self.decision.operation_id;
        self.of(operation_id)
    }

    /// The same as a change of a key from these holders to the generation `target`.
    #[must_use]
    pub fn changing(mut self, holders: &Roster, target: Target) -> Self {
        self.decision.participants = holders.union(&target.participants).unwrap();
        self.decision.holders = Some(holders.clone());
        self.decision.target = Some(target);
        self
    }

    /// The same for the key that is to sign, derived from a key with these public keys. Without one if it cannot be derived.
    #[must_use]
    pub fn derived_from(mut self, keys: &PublicKeys) -> Self {
        self.decision.derivation = derivation(&self.intent, self.decision.key_id, keys).unwrap_or_default();
        self
    }

    /// The same for this derived key.
    #[must_use]
    pub fn derived(mut self, derivation: Derivation) -> Self {
        self.decision.derivation = Some(derivation);
        self
    }

    /// The tweak of the key that signs, for the signing package.
    #[must_use]
    pub fn tweak(&self) -> Option<Tweak> {
        self.decision.derivation.as_ref().map(|derived| Tweak::new(*derived.tweak.as_bytes()))
    }

    /// The public key that verifies the signature, by a key with these public keys.
    #[must_use]
    pub fn public_key_hex(&self, keys: &PublicKeys) -> String {
        let derived = self.decision.derivation.as_ref().map(|derived| derived.public_key_hex.clone());
        derived.unwrap_or_else(|| hex::encode(keys.public_key()))
    }

    /// The same with approvals by these people, on which the decision is based.
    #[must_use]
    pub fn approved_by(mut self, subjects: &[&str]) -> Self {
        self.approvals = approvals(subjects);
        self.decision.approvals_root = approvals_root(self.decision.intent_hash, &self.approvals).unwrap();
        self
    }

    /// The request that the policy evaluates.
    #[must_use]
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
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let evaluator = self.bundle.evaluator();
        let facts = Facts::from_pairs(self.facts.clone());
        let evaluation = evaluator.evaluate(&self.policy_request(), &facts, evaluator.fuel_max());
        let mut outcome = evaluation.outcome.raise_quorum_to(self.required_approvals);
        (self.forge)(&mut outcome);
        outcome
    }

    /// The decision, with bundle and hashes of the policy's outcome.
    #[must_use]
    pub fn decision(&self) -> AdmissionDecision {
        let Outcome { bundle_hash, input_hash, output_hash, .. } = self.outcome();
        AdmissionDecision {
            bundle_hash,
            policy_input_hash: input_hash,
            policy_output_hash: output_hash,
            ..self.decision.clone()
        }
    }

    /// What a node needs to discard it, without receipts for attempts.
    #[must_use]
    pub fn discarding(&self) -> Discard {
        Discard { decision: self.request().envelope, discarded_attempts: vec![] }
    }

    /// The request to admit it, with the decision signed by `authority`.
    #[must_use]
    pub fn request(&self) -> AdmitRequest {
        let payload = self.decision().payload().unwrap();
        let signed = dsse::pre_authentication_encoding(PAYLOAD_TYPE, &payload);
        let keyid = dsse::key_id(&self.authority.verifying_key().to_bytes());
        let signature = (keyid, self.authority.sign(&signed).to_bytes());
        AdmitRequest {
            effect: self.effect(EffectStep::Admission, 1),
            intent: self.intent.clone(),
            submitter: self.submitter.clone(),
            approvals: self.approvals.clone(),
            policy: Recorded::from(&self.outcome()),
            owner: self.owner.clone(),
            envelope: Envelope::seal(PAYLOAD_TYPE, &payload, &[signature]),
        }
    }

    /// The hash of the decision.
    #[must_use]
    pub fn admission_hash(&self) -> Hex32 {
        admission_hash(&self.decision().payload().unwrap())
    }

    /// An effect of this operation.
    #[must_use]
    pub fn effect(&self, step: EffectStep, attempt: u32) -> EffectId {
        EffectId { operation: self.decision.operation_id, step, attempt }
    }

    /// The chain of its steps on a node.
    #[must_use]
    pub fn chain(&self, participant: u16) -> Chain {
        Chain {
            admission_hash: self.admission_hash(),
            operation_id: self.decision.operation_id,
            participant: ParticipantIndex(participant),
        }
    }

    /// A call with the right previous transition; `executed` is the attempt that produced the result.
    #[must_use]
    pub fn call(&self, participant: u16, step: EffectStep, attempt: u32, executed: u32) -> Call {
        let operation_type = self.intent.operation_type();
        let previous = self.chain(participant).before(step, operation_type, executed).unwrap();
        let subject = Subject::new(&self.decision, self.profile);
        Call { effect: self.effect(step, attempt), admission_hash: self.admission_hash(), previous, subject }
    }
}

impl Node {
    /// From now on the node signs and sends what `replace` returns for each message of a ceremony.
    pub fn replace_mail(&self, replace: impl Fn(&Message) -> Vec<Message> + Send + 'static) {
        *self.lies.mail.lock() = Some(Box::new(replace));
    }

    /// From now on the node answers messages of a ceremony with this refusal, if there is one.
    pub fn accuse(
        &self,
        accuse: impl Fn(&Self, &[relay::Envelope]) -> Option<NodeRejection> + Send + 'static,
    ) {
        *self.lies.accusation.lock() = Some(Box::new(accuse));
    }

    /// A complaint of this node about a message that it got, right or wrong.
    #[must_use]
    pub fn complain_about(&self, envelope: &relay::Envelope) -> Option<Complaint> {
        let opened = self.open_mail(&envelope.header().ceremony, std::slice::from_ref(envelope)).ok()?;
        opened.first()?.complaint()
    }

    /// From now on the node returns the receipt that `replace` returns, or the true one if that is `None`.
    pub fn replace_receipts(
        &self,
        replace: impl Fn(&ReceiptStatement) -> Option<NodeReceipt> + Send + 'static,
    ) {
        *self.lies.receipt.lock() = Some(Box::new(replace));
    }

    /// Signs any statement as this node, true or not, at any position of its log.
    #[must_use]
    pub fn sign_anything(&self, statement: &ReceiptStatement, log_index: u64) -> NodeReceipt {
        self.sign_receipt(statement, log_index).unwrap()
    }

    /// The node's receipt for a statement in its log; `None` if it did not sign it.
    pub async fn signed_receipt(&self, wanted: &ReceiptStatement) -> Option<NodeReceipt> {
        let entries = self.log_entries_of(wanted.operation_id).await.unwrap();
        entries.into_iter().find_map(|entry| match entry {
            LogEntry::Receipt { log_index, statement, .. } if statement == *wanted => {
                Some(self.sign_anything(wanted, log_index))
            }
            LogEntry::Receipt { .. } | LogEntry::Lost { .. } | LogEntry::Readmitted { .. } => None,
        })
    }
}
