//! Three honest nodes behind their routers, and what a corrupted gateway can send them: every call is an HTTP request.

use crate::quotas;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use gateway_domain::admission::Target;
use gateway_domain::approval::{Approval, PinnedRegistry, SigningRule};
use gateway_domain::contribution::RecoveryCase;
use gateway_domain::ids::{EpochName, OperationId};
use gateway_domain::intent::Intent;
use gateway_domain::key::{Epoch, epoch_root};
use gateway_domain::operation::EffectStep;
use gateway_domain::policy::facts::Rules;
use gateway_domain::receipt::NodeReceipt;
use gateway_domain::roster::{ParticipantIndex, Threshold};
use gateway_domain::testing::approvers::{key, key_entry};
use gateway_domain::time::EpochMs;
use gateway_node::testing::{
    Case, KEY, before_creation, bundle, clock, hex32, offer, payment, policy_trust, registered, roster,
    settings, submitter,
};
use gateway_node::wire::{
    CallContext, ExecuteAnswer, ExecuteBody, NodeAdmissionDecisionRequest, Nothing, OfferBundleRequest,
    Package, Slot, Start, StepRequest,
};
use gateway_node::{
    AdmitRequest, Call, CeremonyStart, CommitEpoch, Discard, Envelope, Node, NodeConfig, NodeSettings, Peers,
    Publication, Published, ShownReceipt,
};
use gateway_policy::Trust;
use gateway_threshold::PublicKeys;
use gateway_threshold::sign::SigningPackage;
use http_body_util::BodyExt;
use runtime_node::routes;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use tower::ServiceExt;

pub(crate) use gateway_node::testing::mail;

pub(crate) const SUITE: &str = "frost-secp256k1-sha256-tr";

/// The nodes' clock at the beginning.
pub(crate) const NOW: u64 = 1_000;

/// Simultaneous requests that a node answers.
pub(crate) const REQUESTS_MAX: usize = 8;

/// The greatest age of an approval that the nodes accept.
const APPROVAL_AGE_MAX_MS: u64 = 1_000_000_000;

/// The answer to a request: its body, or the error.
pub(crate) type Answer = Result<Value, Refused>;

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) error: String,
    pub(crate) message: String,
    pub(crate) culprits: Value,
    pub(crate) complaint: Value,
}

/// Checks that the answer is this error, and that `part` is in its message.
#[track_caller]
pub(crate) fn assert_refused(what: &str, answer: Answer, error: &str, part: &str) {
    let Err(refused) = answer else { panic!("{what}: {answer:?}") };
    assert_eq!(refused.error, error, "{what}: {refused:?}");
    assert!(refused.message.contains(part), "{what}: {refused:?}");
}

/// The nodes. Everything else is the attacker's: the gateway, the relay, the clock of its requests and, where a test says so, the
/// authority's key. The approvers' keys are not.
pub(crate) struct Victims {
    folder: TempDir,
    pub(crate) nodes: Vec<Arc<Node>>,
    routers: Vec<Router>,
    peers: Arc<Peers>,
    /// The nodes' rule on approvers' signatures, with their registry.
    pub(crate) approvers: SigningRule,
    /// The nodes' rules; call [`Victims::restart`] after a change.
    pub(crate) rules: Rules,
    pub(crate) approver_roles: BTreeMap<String, u32>,
    pub(crate) trust: Trust,
    now: Arc<AtomicU64>,
    keys: Option<PublicKeys>,
}

/// A genuine approval of the case as it is now. Anyone but Alice, Bob and Carol has a key that is in no registry.
pub(crate) fn approval_by(case: &Case, name: &str) -> Approval {
    approval_in(case, name, &["approver"])
}

/// As [`approval_by`], in these roles.
pub(crate) fn approval_in(case: &Case, name: &str, roles: &[&str]) -> Approval {
    case.approval_by(name, roles, EpochMs(NOW))
}

/// The case with genuine approvals of these people.
pub(crate) fn approved_by(case: Case, names: &[&str]) -> Case {
    let approvals = names.iter().map(|name| approval_by(&case, name)).collect();
    case.with_approvals(approvals)
}

/// The case as the nodes admit it: submitted by Dave, approved by Alice and Bob, with facts that agree with the nodes.
pub(crate) fn honest(mut case: Case) -> Case {
    case.submitter = submitter("dave");
    case.facts.insert("deployment.permitted_recipients".into(), "acct-2".into());
    case.facts.insert("deployment.separation_of_duties".into(), "true".into());
    approved_by(case, &["alice", "bob"])
}

/// The body of an admission, as an honest gateway writes it.
pub(crate) fn admission(case: &Case) -> NodeAdmissionDecisionRequest {
    admission_of(case, &case.request())
}

/// The body of an admission with this request.
pub(crate) fn admission_of(case: &Case, request: &AdmitRequest) -> NodeAdmissionDecisionRequest {
    let decision = request.unverified_decision().unwrap_or_else(|_| case.decision());
    let mut body = NodeAdmissionDecisionRequest::new(request, &decision, SUITE, EpochMs(NOW)).unwrap();
    body.now_ms = None;
    body
}

impl Victims {
    pub(crate) async fn open() -> Self {
        let pinned_registry =
            PinnedRegistry::new(Arc::new(registered(key_entry(&key(1)))), APPROVAL_AGE_MAX_MS);
        let mut victims = Self {
            folder: tempfile::tempdir().unwrap(),
            nodes: vec![],
            routers: vec![],
            peers: Arc::default(),
            approvers: SigningRule::Required(pinned_registry),
            rules: Rules {
                permitted_recipients: "acct-2".into(),
                required_approvals: 2,
                separation_of_duties: true,
            },
            approver_roles: BTreeMap::new(),
            trust: policy_trust(),
            now: Arc::new(AtomicU64::new(NOW)),
            keys: None,
        };
        for participant in 0..3 {
            let node = Arc::new(Node::open(victims.config(participant)).await.unwrap());
            victims.peers.pin(node.identity()).unwrap();
            victims.routers.push(routes::router(Arc::clone(&node), quotas(REQUESTS_MAX)));
            victims.nodes.push(node);
            let offered = OfferBundleRequest::from(&offer(bundle()));
            victims.post(participant, "/v1/node/bundles", offered).await.unwrap();
        }
        victims
    }

    /// Nodes with an active key of threshold 2.
    pub(crate) async fn with_key() -> Self {
        let mut victims = Self::open().await;
        let case = victims.key_creation(100);
        let staged = victims.make_shares(&case, 1, &CeremonyStart::default()).await;
        victims.promote_and_publish(&case, 1, &staged).await;
        victims
    }

    fn config(&self, participant: u16) -> NodeConfig {
        NodeConfig {
            participant: ParticipantIndex(participant),
            database: self.path(participant),
            log_size_file: None,
            peers: Arc::clone(&self.peers),
            settings: NodeSettings {
                rules: self.rules.clone(),
                approver_roles: self.approver_roles.clone(),
                policy_trust: self.trust.clone(),
                signed_approvals: self.approvers.clone(),
                ..settings(1, clock(&self.now))
            },
        }
    }

    /// The database of a node.
    pub(crate) fn path(&self, participant: u16) -> PathBuf {
        self.folder.path().join(format!("node-{participant}.db"))
    }

    /// The shares that the node has retired and not erased.
    pub(crate) async fn n_retired(&self, participant: u16) -> u32 {
        let options = SqliteConnectOptions::new().filename(self.path(participant)).read_only(true);
        let mut conn = options.connect().await.unwrap();
        let sql = "SELECT count(*) FROM share WHERE state = 'retired' AND secret IS NOT NULL";
        let n_retired = sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        n_retired
    }

    pub(crate) fn set_time(&self, now_ms: u64) {
        self.now.store(now_ms, Ordering::Relaxed);
    }

    /// Closes the node, lets `change` alter its database's file, and opens it with the present settings.
    pub(crate) async fn restart_after(&mut self, participant: u16, change: impl FnOnce(PathBuf)) {
        let index = usize::from(participant);
        self.nodes[index].close().await;
        change(self.path(participant));
        let node = Arc::new(Node::open(self.config(participant)).await.unwrap());
        self.routers[index] = routes::router(Arc::clone(&node), quotas(REQUESTS_MAX));
        self.nodes[index] = node;
    }

    pub(crate) async fn restart(&mut self) {
        for participant in 0..3 {
            self.restart_after(participant, |_| ()).await;
        }
    }

    pub(crate) fn router(&self, participant: u16) -> Router {
        self.routers[usize::from(participant)].clone()
    }

    pub(crate) async fn get(&self, participant: u16, path: &str) -> Answer {
        self.send(participant, Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, participant: u16, path: &str, body: impl Serialize) -> Answer {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(participant, request.body(Body::from(json!(body).to_string())).unwrap()).await
    }

    async fn send(&self, participant: u16, request: Request<Body>) -> Answer {
        let response = self.router(participant).oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        if status.is_success() {
            return Ok(body);
        }
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        let (error, message) = (text("error"), text("message"));
        let (culprits, complaint) = (body["culprits"].clone(), body["complaint"].clone());
        Err(Refused { status: status.as_u16(), error, message, culprits, complaint })
    }

    pub(crate) async fn admit(&self, participant: u16, case: &Case) -> Answer {
        self.post(participant, &path(case, "/admission"), admission(case)).await
    }

    /// Checks that node 0 refuses the admission with this error, and knows nothing of the operation afterwards.
    pub(crate) async fn assert_not_admitted(&self, what: &str, case: &Case, error: &str, part: &str) {
        assert_refused(what, self.admit(0, case).await, error, part);
        assert_refused(what, self.get(0, &path(case, "")).await, "operation_not_found", "");
        assert_refused(what, self.receipt(0, case).await, "step_out_of_order", "");
        assert_refused(what, self.commit(0, case, 1).await, "step_out_of_order", "");
    }

    /// A step of one call, without arguments.
    pub(crate) async fn step(&self, participant: u16, case: &Case, step: EffectStep) -> Answer {
        self.step_with(participant, &case.call(participant, step, 1, 1), Nothing {}, None).await
    }

    /// A step of one call.
    pub(crate) async fn step_with(
        &self,
        participant: u16,
        call: &Call,
        body: impl Serialize,
        newest: Option<ShownReceipt>,
    ) -> Answer {
        let context = CallContext::new(call, Slot::Step).unwrap();
        let path =
            format!("/v1/node/operations/{}/steps/{}", call.effect.operation, call.effect.step.as_str());
        self.post(participant, &path, json!(StepRequest { context, newest, body })).await
    }

    /// Discards the operation, with receipts for attempts.
    pub(crate) async fn discard(&self, participant: u16, case: &Case, receipts: &[NodeReceipt]) -> Answer {
        let call = case.call(participant, EffectStep::Discard, 1, 1);
        let discarded_attempts = receipts.iter().cloned().map(Into::into).collect();
        let body = Discard { discarded_attempts, ..case.discarding() };
        self.step_with(participant, &call, body, None).await
    }

    /// Discards an attempt.
    pub(crate) async fn discard_attempt(
        &self,
        participant: u16,
        case: &Case,
        attempt: u32,
    ) -> Result<NodeReceipt, Refused> {
        let body = ExecuteBody::default();
        let answer = self.execute(participant, case, attempt, Slot::DiscardAttempt, body).await?;
        Ok(serde_json::from_value(answer["receipt"].clone()).unwrap())
    }

    pub(crate) async fn receipt(&self, participant: u16, case: &Case) -> Answer {
        self.step(participant, case, EffectStep::PolicyReceipt).await
    }

    async fn execute(
        &self,
        participant: u16,
        case: &Case,
        attempt: u32,
        slot: Slot,
        body: ExecuteBody,
    ) -> Answer {
        let call = case.call(participant, EffectStep::Execute, attempt, attempt);
        let context = CallContext::new(&call, slot).unwrap();
        let request = StepRequest { context, newest: None, body };
        self.post(participant, &path(case, "/steps/execute"), json!(request)).await
    }

    /// Round one of a signature.
    pub(crate) async fn commit(&self, participant: u16, case: &Case, attempt: u32) -> Answer {
        self.commit_after(participant, case, attempt, vec![]).await
    }

    /// Round one, with nodes' receipts for earlier attempts.
    pub(crate) async fn commit_after(
        &self,
        participant: u16,
        case: &Case,
        attempt: u32,
        discarded: Vec<NodeReceipt>,
    ) -> Answer {
        let discarded = discarded.into_iter().map(Into::into).collect();
        let body = ExecuteBody { discarded, ..ExecuteBody::default() };
        self.execute(participant, case, attempt, Slot::Commitments, body).await
    }

    /// Round two of a signature.
    pub(crate) async fn share(
        &self,
        participant: u16,
        case: &Case,
        attempt: u32,
        package: &SigningPackage,
    ) -> Answer {
        let body = ExecuteBody { package: Some(Package::new(package).unwrap()), ..ExecuteBody::default() };
        self.execute(participant, case, attempt, Slot::Share, body).await
    }

    /// Begins an attempt at new shares.
    pub(crate) async fn start(
        &self,
        participant: u16,
        case: &Case,
        attempt: u32,
        start: &CeremonyStart,
    ) -> Answer {
        let body = ExecuteBody { start: Some(Start::from(start)), ..ExecuteBody::default() };
        self.execute(participant, case, attempt, Slot::CeremonyStart, body).await
    }

    /// Delivers messages of a ceremony.
    pub(crate) async fn deliver(
        &self,
        participant: u16,
        case: &Case,
        attempt: u32,
        messages: Vec<Envelope>,
    ) -> Answer {
        let body = ExecuteBody { messages: Some(messages), ..ExecuteBody::default() };
        self.execute(participant, case, attempt, Slot::CeremonyMessages, body).await
    }

    /// Admits the case on all nodes and issues their policy receipts.
    pub(crate) async fn admit_all(&self, case: &Case) {
        for participant in 0..3 {
            self.admit(participant, case).await.unwrap();
            self.receipt(participant, case).await.unwrap();
        }
    }

    /// Begins the attempt on all nodes. Returns their first messages.
    pub(crate) async fn start_all(&self, case: &Case, attempt: u32, start: &CeremonyStart) -> Vec<Envelope> {
        let mut sent = vec![];
        for participant in 0..3 {
            sent.extend(messages(&self.start(participant, case, attempt, start).await.unwrap()));
        }
        sent
    }

    /// Admits the case, and relays the messages of its ceremony honestly. Returns public keys and receipts of the staged shares.
    pub(crate) async fn make_shares(
        &mut self,
        case: &Case,
        attempt: u32,
        start: &CeremonyStart,
    ) -> Vec<NodeReceipt> {
        self.admit_all(case).await;
        self.run_ceremony(case, attempt, start).await
    }

    /// As [`Self::make_shares`], of an admitted case.
    pub(crate) async fn run_ceremony(
        &mut self,
        case: &Case,
        attempt: u32,
        start: &CeremonyStart,
    ) -> Vec<NodeReceipt> {
        let mut sent = self.start_all(case, attempt, start).await;
        let mut receipts = vec![];
        while !sent.is_empty() {
            let mut next = vec![];
            for participant in 0..3 {
                let answer =
                    self.deliver(participant, case, attempt, mail(&sent, participant)).await.unwrap();
                next.extend(messages(&answer));
                if let ExecuteAnswer::Staged { public_keys_hex, receipt } =
                    serde_json::from_value(answer).unwrap()
                {
                    let keys = PublicKeys::from_bytes(&hex::decode(public_keys_hex).unwrap()).unwrap();
                    self.keys = Some(keys);
                    receipts.push(receipt);
                }
            }
            sent = next;
        }
        assert_eq!(receipts.len(), 3);
        receipts
    }

    /// Promotes the generation that these receipts are for, and publishes it, on all nodes.
    pub(crate) async fn promote_and_publish(&self, case: &Case, attempt: u32, staged: &[NodeReceipt]) {
        let mut promoted = vec![];
        for participant in 0..3 {
            let commit = self.promotion(case, attempt, staged.to_vec());
            promoted.push(
                self.promote(participant, case, &commit).await.map(|answer| receipt_of(&answer)).unwrap(),
            );
        }
        for participant in 0..3 {
            let publication = self.publication(case, attempt, promoted.clone());
            self.publish(participant, case, &publication).await.unwrap();
        }
    }

    /// The promotion of the generation that the nodes made last.
    pub(crate) fn promotion(&self, case: &Case, attempt: u32, staged: Vec<NodeReceipt>) -> CommitEpoch {
        CommitEpoch { attempt, epoch_root: case.made(self.keys()).epoch.root, staged }
    }

    /// What a node would contribute to a recovery.
    pub(crate) async fn contribution(&self, participant: u16, case: &RecoveryCase) -> Answer {
        self.post(participant, "/v1/node/keys/contributions", case).await
    }

    pub(crate) async fn promote(&self, participant: u16, case: &Case, commit: &CommitEpoch) -> Answer {
        let call = case.call(participant, EffectStep::CommitEpoch, 1, commit.attempt);
        self.step_with(participant, &call, commit, None).await
    }

    /// The publication of the generation that the nodes made last.
    pub(crate) fn publication(&self, case: &Case, attempt: u32, promoted: Vec<NodeReceipt>) -> Publication {
        Publication { attempt, result: Published::Generation(case.made(self.keys())), promoted }
    }

    pub(crate) async fn publish(&self, participant: u16, case: &Case, publication: &Publication) -> Answer {
        let call = case.call(participant, EffectStep::Publish, 1, publication.attempt);
        self.step_with(participant, &call, publication, None).await
    }

    pub(crate) fn keys(&self) -> &PublicKeys {
        self.keys.as_ref().unwrap()
    }

    /// The creation of the key `treasury`.
    pub(crate) fn key_creation(&self, id: u8) -> Case {
        let intent = gateway_node::testing::key_create(&[0, 1, 2], 2, SUITE);
        honest(Case::new(id, KEY, before_creation(), 2, intent))
    }

    /// An operation on the key, as nodes admit it.
    pub(crate) fn case(&self, id: u8, intent: Intent) -> Case {
        honest(self.unapproved(id, intent))
    }

    /// An operation on the key without approvals.
    pub(crate) fn unapproved(&self, id: u8, intent: Intent) -> Case {
        let name = EpochName("1".into());
        let root = epoch_root(KEY, &name, &hex::encode(self.keys().to_bytes())).unwrap();
        let case = Case::new(id, KEY, Epoch { name, root }, 2, intent);
        case.on_profile(self.keys().profile()).derived_from(self.keys())
    }

    /// A payment to the permitted recipient.
    pub(crate) fn payment(&self, id: u8) -> Case {
        self.case(id, payment(&[0, 1, 2], None))
    }

    /// A refresh of the key to epoch 2, and its parameters.
    pub(crate) fn refresh(&self, id: u8) -> (Case, CeremonyStart) {
        let dealers = [0, 1, 2].map(ParticipantIndex).into();
        let start = CeremonyStart { dealers, package: self.keys().to_bytes(), discarded: vec![] };
        (self.change(id, gateway_node::testing::refresh("2")), start)
    }

    /// The recovery of participant 2's share by the others, which fixes these contributions.
    pub(crate) fn recovery(&self, id: u8, cids: &[String], root: Option<String>) -> (Case, CeremonyStart) {
        let mut intent = gateway_node::testing::recover("2", 2, &[0, 1]);
        if let Intent::Recover(recover) = &mut intent {
            recover.helper_share_cids = cids.to_vec();
            recover.expected_helper_admission_root = root;
        }
        let start = CeremonyStart { package: self.keys().to_bytes(), ..CeremonyStart::default() };
        (self.change(id, intent), start)
    }

    /// A reshare to node 2 of the key `treasury`, which is said to have these public keys and which the intent names so.
    pub(crate) fn joining(&self, id: u8, keys: &PublicKeys, named: Option<String>) -> Case {
        let intent = gateway_node::testing::reshare("2", &[1, 2], 2).naming(named);
        let name = EpochName("1".into());
        let root = epoch_root(KEY, &name, &hex::encode(keys.to_bytes())).unwrap();
        let target = Target {
            key_id: KEY,
            epoch: EpochName("2".into()),
            participants: roster(&[1, 2]),
            threshold: Threshold(2),
        };
        let case = Case::new(id, KEY, Epoch { name, root }, 2, intent).on_profile(keys.profile());
        honest(case.changing(&roster(&[0, 1]), target))
    }

    /// A change of the key to epoch 2 with the same holders.
    fn change(&self, id: u8, intent: Intent) -> Case {
        let target = Target {
            key_id: KEY,
            epoch: EpochName("2".into()),
            participants: roster(&[0, 1, 2]),
            threshold: Threshold(2),
        };
        let mut case = self.unapproved(1, intent);
        case = case.changing(&roster(&[0, 1, 2]), target).of(OperationId(hex32(id)));
        honest(case)
    }

    /// A package over the admitted digest, with commitments of these signers.
    pub(crate) async fn package(&self, case: &Case, signers: &[u16], attempt: u32) -> SigningPackage {
        let mut commitments = BTreeMap::new();
        for signer in signers {
            let answer = self.commit(*signer, case, attempt).await.unwrap();
            let text = answer["commitments_hex"].as_str().unwrap();
            commitments.insert(*signer, hex::decode(text).unwrap());
        }
        case.package(commitments)
    }

    /// Checks that the nodes still make a signature that verifies.
    pub(crate) async fn assert_still_sign(&self, id: u8) {
        let case = self.payment(id);
        self.admit_all(&case).await;
        let package = self.package(&case, &[0, 1], 1).await;
        let mut shares = BTreeMap::new();
        for signer in [0, 1] {
            let answer = self.share(signer, &case, 1, &package).await.unwrap();
            shares.insert(signer, hex::decode(answer["share_hex"].as_str().unwrap()).unwrap());
        }
        gateway_threshold::sign::aggregate(&package, &shares, self.keys()).unwrap();
    }
}

/// The path of an operation.
pub(crate) fn path(case: &Case, rest: &str) -> String {
    format!("/v1/node/operations/{}{rest}", case.decision.operation_id)
}

/// The receipt in an answer.
pub(crate) fn receipt_of(answer: &Value) -> NodeReceipt {
    serde_json::from_value(answer["receipt"].clone()).unwrap()
}

/// The messages in an answer.
pub(crate) fn messages(answer: &Value) -> Vec<Envelope> {
    match &answer["messages"] {
        Value::Null => vec![],
        messages => serde_json::from_value(messages.clone()).unwrap(),
    }
}
