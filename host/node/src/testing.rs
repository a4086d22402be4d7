//! Sample values for tests: an authority, a policy, intents, approvals, admissions, and calls; and nodes that issue false receipts.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "tests fail by panicking")]

pub mod holders;

pub use crate::samples::{Case, NOT_AFTER, approvals, before_creation, facts, mail, owner, refresh, rules};
pub use gateway_domain::samples::submitter;
pub use gateway_domain::testing::samples::{hex32, roster};

use crate::{
    AdmitRequest, BundleOffer, Call, Clock, Discard, Node, NodeRejection, NodeSettings, derivation, samples,
};
use ed25519_dalek::SigningKey;
use gateway_domain::admission::{AdmissionDecision, Authorities, Derivation, Target};
use gateway_domain::approval::{Approval, ApprovalSubject, Approvers, approvals_root};
use gateway_domain::canonical;
use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId};
use gateway_domain::intent::{self, Bip32, FixedContributions, Intent, Payment, SigningTerms};
use gateway_domain::key::{Epoch, PublicKey, epoch_root};
use gateway_domain::node_log::LogEntry;
use gateway_domain::operation::{EffectId, EffectStep, Staged};
use gateway_domain::policy::{Decision, Outcome};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptStatement};
use gateway_domain::roster::Roster;
use gateway_domain::testing::approvers::{entry, key, key_entry, registry, signed};
use gateway_domain::time::EpochMs;
use gateway_policy::bundle::{MANIFEST_FILE, Manifest, is_signature, pack};
use gateway_policy::{BundleFiles, CompiledBundles, Pins, Trust, TrustedBundle, TrustedBundles};
use gateway_seal::at_rest::Kek;
use gateway_seal::relay::{self, Complaint};
use gateway_threshold::sign::SigningPackage;
use gateway_threshold::{Message, PublicKeys, Tweak, derive};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
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

/// An authority with a fixed key.
pub fn authority(byte: u8) -> SigningKey {
    SigningKey::from_bytes(&[byte; 32])
}

/// The key set that nodes pin for this authority.
pub fn pinned(authority: &SigningKey) -> Authorities {
    Authorities::new([authority.verifying_key().to_bytes()], 1).unwrap()
}

/// A key-encryption key.
pub fn kek(byte: u8) -> Kek {
    Kek::new([byte; 32].into())
}

/// The id of the key that [`owner`] names.
pub fn key_id(key_ref: &str) -> KeyId {
    intent::key_id(&owner(key_ref).tenant, &KeyRef(key_ref.to_owned())).unwrap()
}

fn bundles_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles")
}

/// The files of the repository's bundle `payment-guard`, signed with the development key.
pub fn bundle() -> BundleFiles {
    named_bundle("payment-guard")
}

/// The files of a bundle of the repository.
pub fn named_bundle(name: &str) -> BundleFiles {
    BundleFiles::read(&bundles_folder().join(name)).unwrap()
}

/// The files with a changed manifest that has their hashes, signed by this key only.
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
pub fn trust_roots() -> Vec<u8> {
    std::fs::read(bundles_folder().join("trust-development.json")).unwrap()
}

/// The public development key, with which a test signs other bundles.
pub fn bundle_key() -> SigningKey {
    let file = std::fs::read(bundles_folder().join("development-signing-key.json")).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
    let seed: Hex32 = file.pointer("/private_seed").unwrap().as_str().unwrap().parse().unwrap();
    SigningKey::from_bytes(seed.as_bytes())
}

/// Trusts bundles by the development key.
pub fn policy_trust() -> Trust {
    let trust = Trust::new(true);
    trust.replace(Ok(&trust_roots()), Pins::default()).unwrap();
    trust
}

/// The bundles that this process has compiled.
pub fn compiled_bundles() -> Arc<CompiledBundles> {
    static COMPILED: LazyLock<Arc<CompiledBundles>> = LazyLock::new(Arc::default);
    Arc::clone(&COMPILED)
}

/// The bundle, as a gateway has it that trusts the development key.
pub fn trusted_bundle(files: &BundleFiles) -> Arc<TrustedBundle> {
    static TRUSTED: LazyLock<TrustedBundles> =
        LazyLock::new(|| TrustedBundles::new(policy_trust(), compiled_bundles()));
    let hash = files.bundle_hash().unwrap();
    TRUSTED.find(hash).unwrap_or_else(|| TRUSTED.add(files.clone(), None, EpochMs(0)).unwrap())
}

/// The offer of a bundle, without an activation record.
pub fn offer(files: BundleFiles) -> BundleOffer {
    BundleOffer { files, activation: None }
}

/// The settings of a node under this key-encryption key, which trusts [`authority`] 1 and the development key.
pub fn settings(kek_byte: u8, clock: Clock) -> NodeSettings {
    let (kek, authorities) = (Arc::new(kek(kek_byte)), pinned(&authority(1)));
    samples::settings(kek, authorities, policy_trust(), compiled_bundles(), clock)
}

/// A clock that a test sets, in milliseconds.
pub fn clock(now: &Arc<AtomicU64>) -> Clock {
    let now = Arc::clone(now);
    Arc::new(move || EpochMs(now.load(Ordering::Relaxed)))
}

/// The creation of a key.
pub fn key_create(participants: &[u16], threshold: u16, suite: &str) -> Intent {
    samples::key_create(roster(participants), threshold, suite)
}

/// The terms of a signature by these participants.
pub fn terms(participants: &[u16]) -> SigningTerms {
    gateway_domain::samples::terms(roster(participants))
}

/// A custody signature over `digest`.
pub fn asset_action(participants: &[u16], digest: u8) -> Intent {
    samples::asset_action(roster(participants), hex32(digest))
}

/// New shares for these participants.
pub fn reshare(epoch: &str, participants: &[u16], threshold: u16) -> Intent {
    samples::reshare(epoch, roster(participants), threshold)
}

/// A new key that replaces the present one.
pub fn rotate(epoch: &str, participants: &[u16], threshold: u16) -> Intent {
    let change = samples::change(epoch);
    Intent::Rotate(gateway_domain::samples::rotate(change, "successor", roster(participants), threshold))
}

/// The recovery of one participant's share.
pub fn recover(epoch: &str, recovering: u16, helpers: &[u16]) -> Intent {
    samples::recover(epoch, recovering, roster(helpers), &FixedContributions::default())
}

/// A payment, with a child key if there is a path.
pub fn payment(participants: &[u16], path: Option<&str>) -> Intent {
    let bip32 = path.map(|path| Bip32 { network: "bitcoin".to_owned(), path: path.to_owned() });
    let terms = SigningTerms { bip32, ..terms(participants) };
    Intent::Payment(gateway_domain::samples::payment(terms))
}

/// A payment of this amount to this account.
pub fn paying(to: &str, amount_minor: i64) -> Intent {
    let paid = gateway_domain::samples::payment(terms(&[0, 1, 2]));
    Intent::Payment(Payment { to_account: to.to_owned(), amount_minor, ..paid })
}

/// Makes any outcome an ALLOW by Alice and Bob, with the hash that fits.
pub fn allow(outcome: &mut Outcome) {
    outcome.decision = Decision::Allow;
    outcome.quorum.subjects = vec!["alice".into(), "bob".into()];
    outcome.quorum.satisfied = true;
    outcome.output_hash = outcome.output_digest();
}

/// A registry of Alice, Bob, and Carol who is a treasurer too. `alice` is the entry of Alice's key.
pub fn registered(alice: serde_json::Value) -> Approvers {
    let carol = serde_json::json!({
        "subject_id": "carol", "tenants": ["default"], "roles": ["approver", "treasurer"], "keys": [key_entry(&key(3))],
    });
    let entries = [entry("alice", &[alice]), entry("bob", &[key_entry(&key(2))]), carol];
    Approvers::parse(registry(&entries).as_bytes()).unwrap()
}

/// As [`derivation`], of the key with this id.
pub fn derived_key(intent: &Intent, key_id: KeyId, keys: &PublicKeys) -> Result<Option<Derivation>, String> {
    derivation(intent, keys, || derive::Derivation::of(keys)?.payments(key_id.0.as_bytes()))
}

impl Case {
    /// An operation with this id, on the key `treasury` in this epoch. For a change of a key, call [`Case::changing`] too.
    pub fn new(id: u8, key_id: KeyId, epoch: Epoch, threshold: u16, intent: Intent) -> Self {
        let participants = match (&intent, intent.signing_terms()) {
            (Intent::KeyCreate(create), _) => create.participants.clone(),
            (_, Some(terms)) => terms.requested_participants.clone(),
            // `changing` sets the participants of a change of a key.
            (_, None) => roster(&[0, 1]),
        };
        let decided_by = (authority(1), trusted_bundle(&bundle()));
        let (id, key) = (OperationId(hex32(id)), (key_id, owner("treasury")));
        Self::build(decided_by, id, key, (epoch, threshold), intent, participants).unwrap()
    }

    /// The creation of a key, by participants `0..n`.
    pub fn key_create(id: u8, key_id: KeyId, n: u16, threshold: u16, suite: &str) -> Self {
        let participants: Vec<u16> = (0..n).collect();
        Self::new(id, key_id, before_creation(), threshold, key_create(&participants, threshold, suite))
    }

    /// The same with another operation id.
    pub fn of(mut self, operation_id: OperationId) -> Self {
        self.decision.operation_id = operation_id;
        self.decision.request_digest =
            self.intent.request_digest(operation_id, self.decision.key_id).unwrap();
        self
    }

    /// The same on another key of the tenant `default`.
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
    pub fn changing(self, holders: &Roster, target: Target) -> Self {
        let participants = holders.union(&target.participants).unwrap();
        self.between(holders.clone(), target, participants)
    }

    /// The same for the key that is to sign, derived from a key with these public keys. Without one if it cannot be derived.
    pub fn derived_from(mut self, keys: &PublicKeys) -> Self {
        self.decision.derivation = derived_key(&self.intent, self.decision.key_id, keys).unwrap_or_default();
        self
    }

    /// The same for this derived key.
    pub fn derived(mut self, derivation: Derivation) -> Self {
        self.decision.derivation = Some(derivation);
        self
    }

    /// The package over the admitted digest with these commitments.
    pub fn package(&self, commitments: BTreeMap<u16, Vec<u8>>) -> SigningPackage {
        let derivation = self.decision.derivation.as_ref();
        let tweak = derivation.map(|derived| Tweak::new(*derived.tweak.as_bytes()));
        SigningPackage { message: self.decision.request_digest.as_bytes().to_vec(), commitments, tweak }
    }

    /// The public key that verifies the signature, by a key with these public keys.
    pub fn public_key_hex(&self, keys: &PublicKeys) -> String {
        let derived = self.decision.derivation.as_ref().map(|derived| derived.public_key_hex.clone());
        derived.unwrap_or_else(|| hex::encode(keys.public_key()))
    }

    /// The generation that it makes, with these public keys.
    pub fn made(&self, keys: &PublicKeys) -> Box<Staged> {
        let Target { key_id, epoch: name, participants, threshold } = self.decision.target.clone().unwrap();
        let package_hex = hex::encode(keys.to_bytes());
        let root = epoch_root(key_id, &name, &package_hex).unwrap();
        let public = PublicKey { public_key_hex: hex::encode(keys.public_key()), package_hex };
        Box::new(Staged { epoch: Epoch { name, root }, public, participants, threshold })
    }

    /// The same with approvals by these people, on which the decision is based.
    pub fn approved_by(self, subjects: &[&str]) -> Self {
        self.with_approvals(approvals(subjects))
    }

    /// The same with these approvals, on which the decision is based.
    pub fn with_approvals(mut self, approvals: Vec<Approval>) -> Self {
        self.decision.approvals_root = approvals_root(self.decision.intent_hash, &approvals).unwrap();
        self.approvals = approvals;
        self
    }

    /// A genuine approval of it as it is now, in these roles. Anyone but Alice, Bob and Carol, in any case, has a key that is in no registry.
    pub fn approval_by(&self, name: &str, roles: &[&str], at: EpochMs) -> Approval {
        let byte = ["alice", "bob", "carol"]
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name))
            .map_or(9, |at| at + 1);
        let mut unsigned = gateway_domain::samples::approval(name, at.0.cast_signed());
        unsigned.roles = roles.iter().map(ToString::to_string).collect();
        signed(unsigned, &self.approval_subject(), &key(u8::try_from(byte).unwrap()))
    }

    /// What an approval of it states.
    pub fn approval_subject(&self) -> ApprovalSubject<'_> {
        ApprovalSubject {
            tenant: &self.owner.tenant,
            operation_id: self.decision.operation_id,
            key_id: self.decision.key_id,
            intent_hash: self.decision.intent_hash,
            submitter: &self.submitter.subject_id,
        }
    }

    /// The decision, with bundle and hashes of the policy's outcome.
    pub fn decision(&self) -> AdmissionDecision {
        self.admitted().unwrap().decision
    }

    /// What a node needs to discard it, without receipts for attempts.
    pub fn discarding(&self) -> Discard {
        Discard { decision: self.request().envelope, discarded_attempts: vec![] }
    }

    /// The request to admit it, with the decision signed by `authority`.
    pub fn request(&self) -> AdmitRequest {
        self.admitted().unwrap().request
    }

    /// The hash of the decision.
    pub fn admission_hash(&self) -> Hex32 {
        self.admitted().unwrap().admission_hash
    }

    /// An effect of this operation.
    pub fn effect(&self, step: EffectStep, attempt: u32) -> EffectId {
        EffectId { operation: self.decision.operation_id, step, attempt }
    }

    /// The chain of its steps on a node.
    pub fn chain(&self, participant: u16) -> Chain {
        self.admitted().unwrap().chain(participant)
    }

    /// A call with the right previous transition; `executed` is the attempt that produced the result.
    pub fn call(&self, participant: u16, step: EffectStep, attempt: u32, executed: u32) -> Call {
        self.admitted().unwrap().call(participant, step, attempt, executed).unwrap()
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
