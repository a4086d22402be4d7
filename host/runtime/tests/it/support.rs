//! A deployment in a folder: a fleet, a clock, the gateway's copy of its keys, and operations that the core drives.

use gateway_domain::approval::Approval;
use gateway_domain::approval::SigningRule;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{EpochName, Hex32, KeyId, KeyRef, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::key::transitions::{Keys, after};
use gateway_domain::key::{CustodyKey, Epoch};
use gateway_domain::operation::{
    Action, Change, Command, Effect, EffectStep, Event, KeySlot, Operation, Outcome, Phase, SignatureResult,
    Step, Submission, decide, evolve, next, open, replay, target,
};
use gateway_domain::policy::{self, Decision, Quorum};
use gateway_domain::roster::{ParticipantIndex, Threshold};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::DriveNodes;
use gateway_node::Node;
use gateway_node::testing::{Case, NOT_AFTER, authority, hex32, kek, pinned};
use gateway_runtime::{EmbeddedFleet, FleetConfig, NodeSettings};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

pub(crate) use gateway_node::testing::{KEY, SUCCESSOR};

pub(crate) struct World {
    /// Removed with the world, unless the folder belongs to another process.
    _owned: Option<TempDir>,
    pub(crate) folder: PathBuf,
    pub(crate) fleet: EmbeddedFleet,
    pub(crate) keys: BTreeMap<KeyId, CustodyKey>,
    /// All events, each with the operation before it.
    pub(crate) events: Vec<(Operation, Event)>,
    now: Arc<AtomicU64>,
    /// The engine performs one effect of an operation at a time, and so do the tests.
    turn: tokio::sync::Mutex<()>,
}

pub(crate) fn fleet(folder: &Path, now: &Arc<AtomicU64>) -> EmbeddedFleet {
    sealed(folder, now, 1)
}

fn sealed(folder: &Path, now: &Arc<AtomicU64>, key: u8) -> EmbeddedFleet {
    let now = Arc::clone(now);
    let nodes = NodeSettings {
        kek: Arc::new(kek(key)),
        authorities: pinned(&authority(1)),
        required_approvals: 2,
        decision_ttl_max_ms: NOT_AFTER.0,
        signed_approvals: SigningRule::Off,
        keys_without_approvals: false,
        clock: Arc::new(move || EpochMs(now.load(Ordering::Relaxed))),
    };
    EmbeddedFleet::new(FleetConfig { folder: folder.to_owned(), nodes })
}

impl World {
    pub(crate) fn new() -> Self {
        let owned = tempfile::tempdir().unwrap();
        let folder = owned.path().to_owned();
        Self::in_folder(&folder, Some(owned))
    }

    /// In an existing folder of nodes.
    #[cfg(feature = "failpoints")]
    pub(crate) fn lent(folder: &Path) -> Self {
        Self::in_folder(folder, None)
    }

    fn in_folder(folder: &Path, owned: Option<TempDir>) -> Self {
        let now = Arc::new(AtomicU64::new(1_000));
        let fleet = fleet(folder, &now);
        Self {
            _owned: owned,
            folder: folder.to_owned(),
            fleet,
            keys: BTreeMap::new(),
            events: vec![],
            now,
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// With one key, held by participants `0..n`.
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

    pub(crate) fn path(&self, participant: u16) -> PathBuf {
        self.folder.join(format!("node-{participant}.db"))
    }

    pub(crate) async fn node(&self, participant: u16) -> Arc<Node> {
        self.fleet.node(ParticipantIndex(participant)).await.unwrap()
    }

    /// The same nodes under another key-encryption key.
    pub(crate) fn fleet_under(&self, key: u8) -> EmbeddedFleet {
        sealed(&self.folder, &self.now, key)
    }

    /// Restarts the deployment: everything that was only in memory is gone.
    pub(crate) async fn restart(&mut self) {
        self.fleet.close().await;
        self.fleet = fleet(&self.folder, &self.now);
    }

    /// Removes the participants' databases, as a lost disk does.
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

    /// [`Self::lose`], and new databases cannot be created in their place.
    pub(crate) async fn break_disk(&mut self, participants: &[u16]) {
        self.lose(participants).await;
        for participant in participants {
            std::fs::create_dir(self.path(*participant)).unwrap();
        }
    }

    /// The participant's database can still be read, but nonces can no longer be marked as used.
    pub(crate) async fn fail_marks(&self, participant: u16) {
        let sql = "CREATE TRIGGER full BEFORE INSERT ON consumed BEGIN SELECT RAISE(ABORT, 'disk full'); END";
        self.change(participant, sql).await;
    }

    /// Writes to the participant's database from outside.
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
        let _turn = self.turn.lock().await;
        self.fleet.perform(effect, operation, key).await
    }

    /// Performs the owed effect without settling it.
    pub(crate) async fn owed(&self, operation: &Operation) -> Result<Outcome, Unavailable> {
        self.perform(operation, &effect(operation)).await
    }

    fn decision(&self, operation: &Operation) -> Outcome {
        let case = self.case(operation);
        let admission = gateway_domain::admission::Admission {
            decision: case.decision.clone(),
            envelope: case.request().envelope,
            admission_hash: case.admission_hash(),
        };
        Outcome::DecisionSigned { policy: operation.policy.clone(), admission: Box::new(admission) }
    }

    pub(crate) fn case(&self, operation: &Operation) -> Case {
        let first = Epoch { name: EpochName("1".into()), root: Hex32::ZERO };
        let key = self.keys.get(&operation.key.key_id).filter(|key| key.public.is_some());
        let (epoch, threshold) = match (&operation.intent, key) {
            (Intent::KeyCreate(create), _) => (first, create.threshold),
            (_, Some(key)) => (key.epoch.clone(), key.threshold),
            (_, None) => (first, Threshold(2)),
        };
        let asked = operation.intent.signing_terms().and_then(|terms| terms.threshold);
        let threshold = asked.unwrap_or(threshold);
        let mut case = Case::new(0, operation.key.key_id, epoch, threshold.0, operation.intent.clone());
        case = case.of(operation.id);
        if let (Some(key), Some(target), false) =
            (key, target(operation, key), matches!(operation.intent, Intent::KeyCreate(_)))
        {
            case = case.changing(&key.participants, target);
            case.decision.serves = key.serves;
        }
        if let (Intent::Payment(payment), Some(key)) = (&operation.intent, key) {
            case.decision.derivation =
                payment.bip32.as_ref().map(|bip32| self.fleet.derive(key, bip32).unwrap());
        }
        case
    }

    /// Settles the owed effect with this outcome.
    pub(crate) fn settle(&mut self, operation: Operation, outcome: Outcome) -> Operation {
        let result_root = outcome.result_root().unwrap();
        let ask = Action::Settle { effect: effect(&operation).id, outcome, result_root };
        self.ask(operation, ask)
    }

    pub(crate) fn ask(&mut self, mut operation: Operation, action: Action) -> Operation {
        let at = EpochMs(self.now.load(Ordering::Relaxed));
        let made = operation.successor.as_ref().map_or(operation.key.key_id, |slot| slot.key_id);
        if !self.keys.contains_key(&made) {
            let submitted = Change::Submitted(Box::new(submission(0, operation.intent.clone())));
            let subject = self.keys.get(&operation.key.key_id).cloned();
            self.keep(after(Keys { subject, successor: None }, &operation, &submitted));
        }
        for event in decide(&operation, &Command { at, action }).unwrap() {
            self.events.push((operation.clone(), event.clone()));
            operation = evolve(operation, &event);
            let subject = self.keys.get(&operation.key.key_id).cloned();
            let slot = operation.successor.as_ref();
            let successor = slot.and_then(|slot| self.keys.get(&slot.key_id).cloned());
            self.keep(after(Keys { subject, successor }, &operation, &event.change));
        }
        operation
    }

    fn keep(&mut self, keys: Keys) {
        self.keys.extend([keys.subject, keys.successor].into_iter().flatten().map(|key| (key.key_id, key)));
    }

    /// Drives the operation until it is `there`, or finished, or a step fails.
    pub(crate) async fn drive(
        &mut self,
        mut operation: Operation,
        there: impl Fn(&Operation) -> bool,
    ) -> Result<Operation, (Box<Operation>, Unavailable)> {
        while !there(&operation) {
            operation = match next(&operation) {
                Step::Record(ask) => self.ask(operation, *ask),
                Step::Perform(effect) => {
                    let root = operation.revision;
                    let outcome = match self.perform(&operation, &effect).await {
                        Ok(outcome) => outcome,
                        Err(why) => return Err((Box::new(operation), why)),
                    };
                    let settled = self.settle(operation, outcome.clone());
                    assert_ne!(
                        settled.revision, root,
                        "{effect:?} was answered {outcome:?}, which moves nothing"
                    );
                    settled
                }
                Step::Rest => match operation.phase {
                    Phase::Admitted => {
                        self.ask(operation, Action::Execute { requested_at_ms: None, key: None })
                    }
                    Phase::Executed => {
                        let publish = Action::Publish {
                            scope: "signature".into(),
                            expected_result_ref: None,
                            requested_at_ms: 0,
                        };
                        self.ask(operation, publish)
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

    /// Drives the operation to its ceremony.
    pub(crate) async fn until_ceremony(&mut self, operation: Operation) -> Operation {
        self.drive(operation, |operation| matches!(operation.phase, Phase::Executing { .. })).await.unwrap()
    }
}

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
    operation.approvals = approvals();
    operation
}

fn submission(id: u8, intent: Intent) -> Submission {
    Submission {
        operation_id: gateway_domain::ids::OperationId(hex32(id)),
        tenant: Tenant("default".into()),
        submitter: ClientBinding {
            client_id: "desk".into(),
            subject_id: "carol".into(),
            roles: vec![],
            scopes: vec![],
            cert_sha256: None,
            token_jti: None,
            tenant: None,
        },
        intent_hash: intent.hash().unwrap(),
        key: KeySlot { key_ref: KeyRef("treasury".into()), key_id: KEY },
        successor: matches!(intent, Intent::Rotate(_))
            .then_some(KeySlot { key_ref: KeyRef("successor".into()), key_id: SUCCESSOR }),
        body_digest: hex32(6),
        unknown_fields: vec![],
        policy: allowed(),
        intent,
    }
}

fn approvals() -> Vec<Approval> {
    gateway_node::testing::approvals(&["alice", "bob"])
}

fn allowed() -> policy::Outcome {
    policy::Outcome {
        decision: Decision::Allow,
        bundle_id: "payment-guard".into(),
        bundle_hash: hex32(3),
        reasons: vec![],
        obligations: vec![],
        facts: vec![],
        quorum: Quorum { subjects: vec![], required: 0, satisfied: true },
        input_hash: hex32(4),
        output_hash: hex32(5),
        fuel_used: 1,
        fault: None,
    }
}

/// Checks a signature with a library that shares no protocol code with FROST.
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
