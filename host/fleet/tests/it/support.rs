//! A deployment in a folder: a fleet of nodes, a clock, the gateway's keys, and operations that the domain's rules drive.

use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId};
use gateway_domain::intent::Intent;
use gateway_domain::key::CustodyKey;
use gateway_domain::key::transitions::{Keys, after};
use gateway_domain::operation::{
    Action, Change, Command, Effect, EffectStep, Event, KeySlot, Operation, Outcome, Phase, SignatureResult,
    Step, Submission, decide, evolve, next, open, replay, target,
};
use gateway_domain::roster::{ParticipantIndex, Threshold};
use gateway_domain::testing::samples;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::DriveNodes;
use gateway_fleet::{BundleOffer, EmbeddedFleet, FindBundle, FleetConfig};
use gateway_node::Node;
use gateway_node::testing::{Case, approvals, before_creation, bundle, clock, hex32, offer, settings};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tempfile::TempDir;

pub(crate) use gateway_node::testing::{KEY, SUCCESSOR};

pub(crate) struct World {
    /// Deletes the folder when this is dropped; `None` if the folder belongs to another process.
    _owned: Option<TempDir>,
    pub(crate) folder: PathBuf,
    pub(crate) fleet: EmbeddedFleet,
    pub(crate) keys: BTreeMap<KeyId, CustodyKey>,
    /// All events, each with the operation before it.
    pub(crate) events: Vec<(Operation, Event)>,
    now: Arc<AtomicU64>,
    bundles: Bundles,
    /// Locked while an effect is performed: the engine performs one effect of an operation at a time too.
    performing: tokio::sync::Mutex<()>,
}

/// A fleet under this key-encryption key.
fn fleet(folder: &Path, now: &Arc<AtomicU64>, kek_byte: u8, bundles: &Bundles) -> EmbeddedFleet {
    let nodes = settings(kek_byte, clock(now));
    EmbeddedFleet::new(
        FleetConfig { folder: folder.to_owned(), log_size_files: None, nodes },
        Arc::new(bundles.clone()),
    )
}

/// Has the bundle `payment-guard`, unless it is hidden.
#[derive(Clone, Default)]
struct Bundles {
    are_hidden: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl FindBundle for Bundles {
    async fn find(&self, bundle_hash: Hex32) -> Result<Option<BundleOffer>, Unavailable> {
        let is_found = |offer: &BundleOffer| {
            offer.files.bundle_hash().unwrap() == bundle_hash && !self.are_hidden.load(Ordering::Relaxed)
        };
        Ok(Some(offer(bundle())).filter(is_found))
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let owned = tempfile::tempdir().unwrap();
        let folder = owned.path().to_owned();
        Self::in_folder(&folder, Some(owned))
    }

    /// The deployment in an existing folder, which stays after this is dropped.
    #[cfg(feature = "failpoints")]
    pub(crate) fn open(folder: &Path) -> Self {
        Self::in_folder(folder, None)
    }

    fn in_folder(folder: &Path, owned: Option<TempDir>) -> Self {
        let now = Arc::new(AtomicU64::new(1_000));
        let bundles = Bundles::default();
        let fleet = fleet(folder, &now, 1, &bundles);
        Self {
            _owned: owned,
            folder: folder.to_owned(),
            fleet,
            keys: BTreeMap::new(),
            events: vec![],
            now,
            bundles,
            performing: tokio::sync::Mutex::default(),
        }
    }

    /// A deployment with one key, held by participants `0..n`.
    pub(crate) async fn with_key(n: u16, threshold: u16, suite: &str) -> Self {
        let mut world = Self::new();
        let participants: Vec<u16> = (0..n).collect();
        let create = gateway_node::testing::key_create(&participants, threshold, suite);
        let created = world.complete(operation(100, create)).await;
        assert_eq!(created.phase, Phase::Published, "{:?}", created.failure);
        world
    }

    pub(crate) fn set_time(&self, now_ms: u64) {
        self.now.store(now_ms, Ordering::Relaxed);
    }

    /// Whether the fleet finds no bundle to offer.
    pub(crate) fn hide_bundles(&self, are_hidden: bool) {
        self.bundles.are_hidden.store(are_hidden, Ordering::Relaxed);
    }

    pub(crate) fn path(&self, participant: u16) -> PathBuf {
        self.folder.join(format!("node-{participant}.db"))
    }

    pub(crate) async fn node(&self, participant: u16) -> Arc<Node> {
        self.fleet.node(ParticipantIndex(participant)).await.unwrap()
    }

    /// The same nodes under another key-encryption key.
    pub(crate) fn fleet_under(&self, kek_byte: u8) -> EmbeddedFleet {
        fleet(&self.folder, &self.now, kek_byte, &self.bundles)
    }

    /// Restarts the fleet, which loses what was only in memory.
    pub(crate) async fn restart(&mut self) {
        self.fleet.close().await;
        self.fleet = fleet(&self.folder, &self.now, 1, &self.bundles);
    }

    /// Deletes the participants' databases, as if their disks were lost.
    pub(crate) async fn lose(&mut self, participants: &[u16]) {
        self.fleet.close().await;
        for participant in participants {
            let path = self.path(*participant);
            for name in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{name}", path.display()));
            }
        }
        self.restart().await;
    }

    /// Deletes the participants' databases, and prevents that new ones are created.
    pub(crate) async fn break_disk(&mut self, participants: &[u16]) {
        self.lose(participants).await;
        for participant in participants {
            std::fs::create_dir(self.path(*participant)).unwrap();
        }
    }

    /// Makes writes fail that mark nonces as used. The participant's database can still be read.
    pub(crate) async fn fail_nonce_marks(&self, participant: u16) {
        let sql = "CREATE TRIGGER full BEFORE INSERT ON consumed BEGIN SELECT RAISE(ABORT, 'disk full'); END";
        self.change(participant, sql).await;
    }

    /// Changes the participant's database with another connection than the node's.
    pub(crate) async fn change(&self, participant: u16, sql: &'static str) {
        let options = SqliteConnectOptions::new().filename(self.path(participant));
        let mut conn = options.connect().await.unwrap();
        sqlx::query(sql).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }

    pub(crate) async fn perform(
        &self,
        operation: &Operation,
        effect: &Effect,
    ) -> Result<Outcome, Unavailable> {
        if effect.id.step == EffectStep::Decision {
            return Ok(self.decision(operation));
        }
        let key = self.keys.get(&operation.key.key_id);
        let _performing = self.performing.lock().await;
        self.fleet.perform(effect, operation, key).await
    }

    /// Performs the operation's pending effect, without recording the outcome.
    pub(crate) async fn perform_pending(&self, operation: &Operation) -> Result<Outcome, Unavailable> {
        self.perform(operation, &effect(operation)).await
    }

    fn decision(&self, operation: &Operation) -> Outcome {
        let case = self.case(operation);
        let admission = gateway_domain::admission::Admission {
            decision: case.decision(),
            envelope: case.request().envelope,
            admission_hash: case.admission_hash(),
        };
        Outcome::DecisionSigned { policy: case.outcome(), admission: Box::new(admission) }
    }

    pub(crate) fn case(&self, operation: &Operation) -> Case {
        let first = before_creation();
        let key = self.keys.get(&operation.key.key_id).filter(|key| key.public.is_some());
        let (epoch, threshold) = match (&operation.intent, key) {
            (Intent::KeyCreate(create), _) => (first, create.threshold),
            (_, Some(key)) => (key.epoch.clone(), key.threshold),
            (_, None) => (first, Threshold(2)),
        };
        let requested = operation.intent.signing_terms().and_then(|terms| terms.threshold);
        let threshold = requested.unwrap_or(threshold);
        let mut case = Case::new(0, operation.key.key_id, epoch, threshold.0, operation.intent.clone());
        case = case.of(operation.id);
        case.submitter = operation.submitter.clone();
        case.owner.key_ref = operation.key.key_ref.clone();
        if let (Some(key), Some(target), false) =
            (key, target(operation, key), matches!(operation.intent, Intent::KeyCreate(_)))
        {
            case = case.changing(&key.participants, target);
        }
        if let Some(key) = key {
            case.decision.derivation = self.fleet.derivation(key, &operation.intent).unwrap_or_default();
        }
        case
    }

    /// Records this outcome of the pending effect.
    pub(crate) fn record_outcome(&mut self, operation: Operation, outcome: Outcome) -> Operation {
        let settle = Action::Settle { effect: effect(&operation).id, outcome };
        self.apply(operation, settle)
    }

    /// Decides the action, and applies its events to the operation and its keys.
    pub(crate) fn apply(&mut self, mut operation: Operation, action: Action) -> Operation {
        let at = EpochMs(self.now.load(Ordering::Relaxed));
        let new_key = operation.successor.as_ref().map_or(operation.key.key_id, |slot| slot.key_id);
        if !self.keys.contains_key(&new_key) {
            let change = Change::Submitted(Box::new(submission(0, operation.intent.clone())));
            let submitted = Event { at_ms: at, change, requested_by: None, settles: None };
            let subject = self.keys.get(&operation.key.key_id).cloned();
            self.store_keys(after(Keys { subject, successor: None }, &operation, &submitted));
        }
        for event in decide(&operation, &Command { at, action }).unwrap() {
            self.events.push((operation.clone(), event.clone()));
            operation = evolve(operation, &event);
            let subject = self.keys.get(&operation.key.key_id).cloned();
            let slot = operation.successor.as_ref();
            let successor = slot.and_then(|slot| self.keys.get(&slot.key_id).cloned());
            self.store_keys(after(Keys { subject, successor }, &operation, &event));
        }
        operation
    }

    fn store_keys(&mut self, keys: Keys) {
        self.keys.extend([keys.subject, keys.successor].into_iter().flatten().map(|key| (key.key_id, key)));
    }

    /// The operation as the engine submits it: its intent names its key's public key.
    fn naming_its_key(&self, mut operation: Operation) -> Operation {
        if operation.phase == Phase::Deciding {
            let key = self.keys.get(&operation.key.key_id);
            operation.intent = operation.intent.naming(key.and_then(CustodyKey::generated_artifact_ref));
            operation.intent_hash = operation.intent.hash().unwrap();
        }
        operation
    }

    /// Drives the operation until `is_reached` or it is finished. Fails if a step fails.
    pub(crate) async fn drive(
        &mut self,
        operation: Operation,
        is_reached: impl Fn(&Operation) -> bool,
    ) -> Result<Operation, (Box<Operation>, Unavailable)> {
        let mut operation = self.naming_its_key(operation);
        while !is_reached(&operation) {
            operation = match next(&operation) {
                Step::Record(action) => self.apply(operation, *action),
                Step::Perform(effect) => {
                    let before = operation.revision;
                    let outcome = match self.perform(&operation, &effect).await {
                        Ok(outcome) => outcome,
                        Err(why) => return Err((Box::new(operation), why)),
                    };
                    let settled = self.record_outcome(operation, outcome.clone());
                    assert_ne!(
                        settled.revision, before,
                        "the outcome {outcome:?} of {effect:?} changed nothing"
                    );
                    settled
                }
                Step::Rest => match operation.phase {
                    Phase::Admitted => {
                        self.apply(operation, Action::Execute { requested_at_ms: None, key: None })
                    }
                    Phase::Executed => {
                        let publish = Action::Publish {
                            scope: "signature".into(),
                            expected_result_ref: None,
                            requested_at_ms: 0,
                        };
                        self.apply(operation, publish)
                    }
                    _ => return Ok(operation),
                },
            };
        }
        Ok(operation)
    }

    /// Drives the operation to its end.
    pub(crate) async fn complete(&mut self, operation: Operation) -> Operation {
        self.drive(operation, |_| false).await.unwrap()
    }

    /// Drives the signature to its publication, and checks it.
    pub(crate) async fn signed(&mut self, operation: Operation) -> SignatureResult {
        let done = self.complete(operation).await;
        assert_eq!(done.phase, Phase::Published, "{:?}", done.failure);
        let signature = *done.signature.unwrap();
        check_signature(&signature);
        signature
    }

    /// Drives the operation to its ceremony.
    pub(crate) async fn until_ceremony(&mut self, operation: Operation) -> Operation {
        self.drive(operation, |operation| matches!(operation.phase, Phase::Executing { .. })).await.unwrap()
    }
}

/// The operation's pending effect.
pub(crate) fn effect(operation: &Operation) -> Effect {
    match next(operation) {
        Step::Perform(effect) => effect,
        other => panic!("{other:?}"),
    }
}

/// An operation that has reached its quorum.
pub(crate) fn operation(id: u8, intent: Intent) -> Operation {
    let mut operation = replay(&open(submission(id, intent), EpochMs(1))).unwrap();
    assert_eq!(operation.phase, Phase::Deciding);
    operation.approvals = approvals(&["alice", "bob"]);
    operation
}

fn submission(id: u8, intent: Intent) -> Submission {
    let successor = matches!(intent, Intent::Rotate(_))
        .then_some(KeySlot { key_ref: KeyRef("successor".into()), key_id: SUCCESSOR });
    Submission {
        operation_id: OperationId(hex32(id)),
        key: KeySlot { key_ref: KeyRef("treasury".into()), key_id: KEY },
        successor,
        ..samples::submission(intent, 0)
    }
}

/// Checks a signature with ed25519-dalek or k256, not with the FROST libraries.
pub(crate) fn check_signature(result: &SignatureResult) {
    let public_key: [u8; 32] = hex::decode(&result.public_key_hex).unwrap().try_into().unwrap();
    let signature: [u8; 64] = hex::decode(&result.signature_hex).unwrap().try_into().unwrap();
    let message = result.signed_digest.as_bytes();
    match result.signature_profile.as_str() {
        "frost-ed25519-sha512" => {
            let key = ed25519_dalek::VerifyingKey::from_bytes(&public_key).unwrap();
            key.verify_strict(message, &ed25519_dalek::Signature::from_bytes(&signature)).unwrap();
        }
        "frost-secp256k1-sha256-tr" => {
            let key = k256::schnorr::VerifyingKey::from_bytes(&public_key).unwrap();
            key.verify_raw(message, &k256::schnorr::Signature::try_from(signature.as_slice()).unwrap())
                .unwrap();
        }
        other => panic!("no library for {other}"),
    }
}
