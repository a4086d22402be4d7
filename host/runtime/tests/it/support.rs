//! A deployment in a folder: a fleet, a clock, the gateway's copy of its keys, and operations driven by the core.

use gateway_domain::approval::Approval;
use gateway_domain::approval::SigningRule;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{EpochName, Hex32, KeyId, KeyRef, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::key::{CustodyKey, Epoch, Keys, after};
use gateway_domain::operation::{
    Action, Change, Command, Effect, EffectStep, Event, KeySlot, Operation, Outcome, Phase, Step, Submission,
    decide, evolve, next, open, replay, target,
};
use gateway_domain::policy::{self, Decision, Quorum};
use gateway_domain::roster::{ParticipantIndex, Threshold};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::DriveNodes;
use gateway_node::Node;
use gateway_node::testing::{Case, NOT_AFTER, authority, hex32, kek, pinned};
use gateway_runtime::{EmbeddedFleet, FleetConfig};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// Of the key `treasury` of tenant `default`.
pub(crate) const KEY: KeyId = KeyId(Hex32::new([
    76, 113, 56, 128, 101, 160, 255, 209, 246, 1, 15, 185, 147, 146, 226, 254, 183, 75, 243, 210, 110, 238,
    68, 5, 10, 36, 57, 103, 205, 247, 10, 18,
]));

/// What a rotation makes.
pub(crate) const SUCCESSOR: KeyId = KeyId(Hex32::new([
    77, 30, 122, 121, 130, 24, 51, 27, 208, 59, 71, 91, 88, 254, 198, 47, 248, 190, 162, 149, 225, 134, 247,
    32, 225, 125, 255, 5, 213, 219, 101, 0,
]));

pub(crate) struct World {
    /// Goes away with the world, unless another process lent the folder.
    _owned: Option<TempDir>,
    pub(crate) folder: PathBuf,
    pub(crate) fleet: EmbeddedFleet,
    pub(crate) keys: BTreeMap<KeyId, CustodyKey>,
    /// What happened, and to what.
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
    EmbeddedFleet::new(FleetConfig {
        folder: folder.to_owned(),
        kek: Arc::new(kek(key)),
        authorities: pinned(&authority(1)),
        required_approvals: 2,
        decision_ttl_max_ms: NOT_AFTER.0,
        signed_approvals: SigningRule::Off,
        keys_without_approvals: false,
        clock: Arc::new(move || EpochMs(now.load(Ordering::Relaxed))),
    })
}

impl World {
    pub(crate) fn new() -> Self {
        let owned = tempfile::tempdir().unwrap();
        let folder = owned.path().to_owned();
        Self::in_folder(&folder, Some(owned))
    }

    /// In a folder that has nodes already.
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

    /// With one key of participants `0..n`.
    pub(crate) async fn with_key(n: u16, threshold: u16, suite: &str) -> Self {
        let mut world = Self::new();
        let participants: Vec<u16> = (0..n).collect();
        let create = gateway_node::testing::key_create(&participants, threshold, suite);
        let created = world.live(operation(100, create)).await;
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

    /// The same nodes, told another key.
    pub(crate) fn fleet_under(&self, key: u8) -> EmbeddedFleet {
        sealed(&self.folder, &self.now, key)
    }

    /// Every process of the deployment ends and starts again: what was only in memory is gone.
    pub(crate) async fn restart(&mut self) {
        self.fleet.close().await;
        self.fleet = fleet(&self.folder, &self.now);
    }

    /// Makes the participants' databases unusable, as a lost disk does.
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

    /// As [`Self::lose`], and nothing new can be put in their place.
    pub(crate) async fn break_disk(&mut self, participants: &[u16]) {
        self.lose(participants).await;
        for participant in participants {
            std::fs::create_dir(self.path(*participant)).unwrap();
        }
    }

    /// The participant can still be read and no longer marks nonces as used.
    pub(crate) async fn fail_marks(&self, participant: u16) {
        let sql = "CREATE TRIGGER full BEFORE INSERT ON consumed BEGIN SELECT RAISE(ABORT, 'disk full'); END";
        self.change(participant, sql).await;
    }

    /// Somebody else writes to the participant's database.
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

    /// What the operation owes, performed but not settled.
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

    /// Gives the core an answer to what is owed.
    pub(crate) fn settle(&mut self, operation: Operation, outcome: Outcome) -> Operation {
        let result_root = outcome.result_root().unwrap();
        let ask = Action::Settle { effect: effect(&operation).id, outcome, result_root };
        self.ask(operation, ask)
    }

    pub(crate) fn ask(&mut self, mut operation: Operation, ask: Action) -> Operation {
        let at = EpochMs(self.now.load(Ordering::Relaxed));
        let made = operation.successor.as_ref().map_or(operation.key.key_id, |slot| slot.key_id);
        if !self.keys.contains_key(&made) {
            let submitted = Change::Submitted(Box::new(submission(0, operation.intent.clone())));
            let subject = self.keys.get(&operation.key.key_id).cloned();
            self.keep(after(Keys { subject, successor: None }, &operation, &submitted));
        }
        for event in decide(&operation, &Command { at, ask }).unwrap() {
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

    /// Drives until the operation is `there`, or rests for good, or a step can not be done.
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

    /// A whole life.
    pub(crate) async fn live(&mut self, operation: Operation) -> Operation {
        self.drive(operation, |_| false).await.unwrap()
    }

    /// Until the operation owes this attempt at its ceremony.
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

/// An operation with its quorum reached.
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
