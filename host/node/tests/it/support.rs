//! Nodes in a folder with a clock that the tests set, and the calls that a coordinator makes.

use gateway_domain::admission::Authorities;
use gateway_domain::admission::Target;
use gateway_domain::approval::SigningRule;
use gateway_domain::ids::{EpochName, Hex32};
use gateway_domain::intent::Intent;
use gateway_domain::key::{Epoch, epoch_root};
use gateway_domain::operation::{EffectStep, SignatureResult};
use gateway_domain::policy::facts::Rules;
use gateway_domain::receipt::{AttemptReceipt, NodeReceipt, ReceiptKind};
use gateway_domain::roster::{ParticipantIndex, Threshold};
use gateway_node::testing::{
    Case, SUITES, asset_action, authority, bundle, clock, hex32, kek, key_id, offer, pinned, policy_trust,
    roster, rules, settings,
};
use gateway_node::{
    CeremonyAnswer, CeremonyStart, Code, CommitEpoch, Envelope, Node, NodeConfig, NodeError, NodeRejection,
    NodeSettings, Peers, Publication, Published, RoundOne, SignedShare,
};
use gateway_policy::Trust;
use gateway_seal::at_rest::{Kek, SecretId, open_share};
use gateway_seal::node_key::{Identities, NodeSecret};
use gateway_seal::relay;
use gateway_threshold::PublicKeys;
use gateway_threshold::sign::{SigningPackage, aggregate};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use zeroize::Zeroizing;

pub(crate) use gateway_node::testing::{KEY, mail};

pub(crate) const NOW: u64 = 1_000;
/// The key-encryption key is 32 of this byte, which no other value in the tests contains.
pub(crate) const KEK_BYTE: u8 = 0xa7;

pub(crate) struct Group {
    folder: TempDir,
    pub(crate) nodes: Vec<Arc<Node>>,
    peers: Arc<Peers>,
    pub(crate) kek: Arc<Kek>,
    now: Arc<AtomicU64>,
    pub(crate) keys: Option<PublicKeys>,
    /// The epoch of these keys.
    epoch: EpochName,
    signed_approvals: SigningRule,
    /// The nodes' rules; call [`Group::restart_all`] after a change.
    pub(crate) rules: Rules,
    pub(crate) approver_roles: BTreeMap<String, u32>,
    pub(crate) keys_without_approvals: bool,
    pub(crate) policy_trust: Trust,
    pub(crate) authorities: Authorities,
    /// Whether the nodes have files with the sizes of their logs; call [`Group::restart_all`] after a change.
    pub(crate) has_size_files: bool,
}

impl Group {
    pub(crate) async fn open(n: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicU64::new(NOW));
        let mut group = Self {
            folder,
            nodes: vec![],
            peers: Arc::default(),
            kek: Arc::new(kek(KEK_BYTE)),
            now,
            keys: None,
            epoch: EpochName("1".into()),
            signed_approvals: SigningRule::Off,
            rules: rules(),
            approver_roles: BTreeMap::new(),
            keys_without_approvals: false,
            policy_trust: policy_trust(),
            authorities: pinned(&authority(1)),
            has_size_files: false,
        };
        for participant in 0..n {
            let node = Node::open(group.config(participant)).await.unwrap();
            group.peers.pin(node.identity()).unwrap();
            node.offer_bundle(offer(bundle())).await.unwrap();
            group.nodes.push(Arc::new(node));
        }
        group
    }

    /// Nodes `0..n` that hold an active key.
    pub(crate) async fn with_key(n: u16, threshold: u16, suite: &str) -> Self {
        let mut group = Self::open(n).await;
        let case = Case::key_create(100, KEY, n, threshold, suite);
        group.make_key(&case, 1).await;
        group.commit_epoch(&case, 1).await;
        for (node, participant) in group.nodes.iter().zip(0..) {
            let call = case.call(participant, EffectStep::Publish, 1, 1);
            node.publish(&call, &group.generation(&case).await).await.unwrap();
        }
        group
    }

    pub(crate) fn config(&self, participant: u16) -> NodeConfig {
        let settings = NodeSettings {
            kek: Arc::clone(&self.kek),
            authorities: self.authorities.clone(),
            rules: self.rules.clone(),
            approver_roles: self.approver_roles.clone(),
            policy_trust: self.policy_trust.clone(),
            signed_approvals: self.signed_approvals.clone(),
            keys_without_approvals: self.keys_without_approvals,
            ..settings(KEK_BYTE, clock(&self.now))
        };
        NodeConfig {
            participant: ParticipantIndex(participant),
            database: self.path(participant),
            log_size_file: self.has_size_files.then(|| self.size_file(participant)),
            peers: Arc::clone(&self.peers),
            settings,
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn size_file(&self, participant: u16) -> PathBuf {
        self.folder.path().join(format!("node-{participant}.log-size"))
    }

    pub(crate) fn path(&self, participant: u16) -> PathBuf {
        self.folder.path().join(format!("node-{participant}.db"))
    }

    pub(crate) fn set_time(&self, now_ms: u64) {
        self.now.store(now_ms, Ordering::Relaxed);
    }

    /// The identity secret of a participant, read from its database with the group's key.
    pub(crate) async fn secret_of(&self, participant: u16) -> NodeSecret {
        let options = SqliteConnectOptions::new().filename(self.path(participant)).read_only(true);
        let mut conn = options.connect().await.unwrap();
        let sql = "SELECT identity_seed FROM node";
        let sealed: Vec<u8> = sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap();
        let node = format!("node-{participant}");
        let secret_id = SecretId { node: &node, key_id: "identity", epoch: "", index: participant };
        let seed = open_share(&self.kek, &secret_id, &sealed).unwrap();
        NodeSecret::from_seed(participant, &Zeroizing::new(seed.as_slice().try_into().unwrap()))
    }

    /// The same envelope with another body, signed by its sender.
    pub(crate) async fn forge(&self, envelope: &Envelope, change: impl FnOnce(&mut Vec<u8>)) -> Envelope {
        let header = *envelope.header();
        let secrets = [self.secret_of(0).await, self.secret_of(1).await, self.secret_of(2).await];
        let all = Identities::new(secrets.iter().map(|secret| secret.identity().clone())).unwrap();
        let reader = header.to.unwrap_or((header.from + 1) % 3);
        let opened = relay::open(&secrets[usize::from(reader)], &all, &header.ceremony, envelope).unwrap();
        let mut body = opened.body.to_vec();
        change(&mut body);
        relay::seal(&secrets[usize::from(header.from)], &all, header, &body).unwrap()
    }

    /// Changes the participant's database with another connection than the node's. Returns the number of rows.
    pub(crate) async fn execute_sql(&self, participant: u16, sql: &str) -> u64 {
        let options = SqliteConnectOptions::new().filename(self.path(participant));
        let mut conn = options.connect().await.unwrap();
        let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        done.rows_affected()
    }

    /// Restarts the nodes with another rule on approvers' signatures.
    pub(crate) async fn set_signed_approvals(&mut self, rule: SigningRule) {
        self.signed_approvals = rule;
        self.restart_all().await;
    }

    /// Restarts the nodes with the group's settings.
    pub(crate) async fn restart_all(&mut self) {
        for participant in 0..u16::try_from(self.nodes.len()).unwrap() {
            self.restart(participant).await;
        }
    }

    /// Restarts the node.
    pub(crate) async fn restart(&mut self, participant: u16) {
        let index = usize::from(participant);
        self.nodes[index].close().await;
        self.nodes[index] = Arc::new(Node::open(self.config(participant)).await.unwrap());
    }

    pub(crate) fn keys(&self) -> &PublicKeys {
        self.keys.as_ref().unwrap()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        let name = self.epoch.clone();
        let root = epoch_root(KEY, &name, &hex::encode(self.keys().to_bytes())).unwrap();
        Epoch { name, root }
    }

    /// An operation on the group's key.
    pub(crate) fn case(&self, id: u8, intent: Intent) -> Case {
        let keys = self.keys();
        let case = Case::new(id, KEY, self.epoch(), keys.threshold(), intent);
        case.on_profile(keys.profile()).derived_from(keys)
    }

    /// Admits the operation and issues the policy receipt on every node.
    pub(crate) async fn admit(&self, case: &Case) {
        for (node, participant) in self.nodes.iter().zip(0..) {
            node.admit(&case.request()).await.unwrap();
            node.policy_receipt(&case.call(participant, EffectStep::PolicyReceipt, 1, 1)).await.unwrap();
        }
    }

    /// Admits the operation on every node, and makes no further step.
    pub(crate) async fn admit_only(&self, case: &Case) {
        for node in &self.nodes {
            node.admit(&case.request()).await.unwrap();
        }
    }

    pub(crate) async fn make_key(&mut self, case: &Case, attempt: u32) {
        self.admit(case).await;
        let keys = self.run_keygen(case, attempt).await;
        self.keys = Some(keys);
    }

    /// Refreshes the group's key, and promotes the new shares.
    pub(crate) async fn refresh(&mut self, case: &Case) {
        self.admit(case).await;
        let dealers = [0, 1].map(ParticipantIndex).into();
        let start = CeremonyStart { dealers, package: self.keys().to_bytes(), discarded: vec![] };
        let keys = self.run_keygen_with(case, 1, &start).await;
        self.keys = Some(keys);
        self.epoch = case.decision.target.as_ref().unwrap().epoch.clone();
        self.commit_epoch(case, 1).await;
    }

    /// A change of the group's key, which participants 0, 1 and 2 hold, to a generation with these participants.
    pub(crate) fn key_change(
        &self,
        intent: Intent,
        epoch: &str,
        participants: &[u16],
        threshold: u16,
    ) -> Case {
        let target = Target {
            key_id: if matches!(intent, Intent::Rotate(_)) { key_id("successor") } else { KEY },
            epoch: EpochName(epoch.into()),
            participants: roster(participants),
            threshold: Threshold(threshold),
        };
        self.case(1, intent).changing(&roster(&[0, 1, 2]), target)
    }

    /// Begins the attempt of a key generation on every node. Returns their first messages.
    pub(crate) async fn start(&self, case: &Case, attempt: u32) -> Vec<Envelope> {
        self.start_with(case, attempt, &CeremonyStart::default()).await
    }

    /// Begins the attempt on every node. Returns their first messages.
    pub(crate) async fn start_with(&self, case: &Case, attempt: u32, start: &CeremonyStart) -> Vec<Envelope> {
        let mut sent = vec![];
        for (node, participant) in self.nodes.iter().zip(0..) {
            let call = case.call(participant, EffectStep::Execute, attempt, attempt);
            match node.ceremony_start(&call, start).await.unwrap() {
                CeremonyAnswer::Send(messages) => sent.extend(messages),
                CeremonyAnswer::Staged { keys, .. } => panic!("{keys:?}"),
            }
        }
        sent
    }

    /// Relays messages until no node sends any. Returns the public keys that the nodes staged, or the first rejection.
    pub(crate) async fn relay(
        &self,
        case: &Case,
        attempt: u32,
        mut sent: Vec<Envelope>,
    ) -> Result<Vec<PublicKeys>, Box<NodeRejection>> {
        let mut staged = vec![];
        while !sent.is_empty() {
            let mut next = vec![];
            for (node, participant) in self.nodes.iter().zip(0..) {
                let call = case.call(participant, EffectStep::Execute, attempt, attempt);
                match node.ceremony_deliver(&call, &mail(&sent, participant)).await {
                    Ok(CeremonyAnswer::Send(messages)) => next.extend(messages),
                    Ok(CeremonyAnswer::Staged { keys, .. }) => staged.push(*keys),
                    Err(NodeError::Rejected(rejection)) => return Err(Box::new(rejection)),
                    Err(other) => panic!("{other:?}"),
                }
            }
            sent = next;
        }
        Ok(staged)
    }

    pub(crate) async fn run_keygen(&self, case: &Case, attempt: u32) -> PublicKeys {
        self.run_keygen_with(case, attempt, &CeremonyStart::default()).await
    }

    pub(crate) async fn run_keygen_with(
        &self,
        case: &Case,
        attempt: u32,
        start: &CeremonyStart,
    ) -> PublicKeys {
        let sent = self.start_with(case, attempt, start).await;
        let mut staged = self.relay(case, attempt, sent).await.unwrap();
        assert_eq!(staged.len(), self.nodes.len());
        assert!(staged.iter().all(|keys| *keys == staged[0]));
        staged.remove(0)
    }

    /// Valid receipts of this kind, for steps that need not have happened, by the nodes that get new shares.
    pub(crate) fn false_receipts(&self, case: &Case, kind: &ReceiptKind) -> Vec<NodeReceipt> {
        let target = case.decision.target.as_ref().unwrap();
        let sign = |participant: ParticipantIndex| {
            let statement = case.chain(participant.0).statement(kind).unwrap();
            self.nodes[usize::from(participant.0)].sign_anything(&statement, 0)
        };
        target.participants.iter().map(sign).collect()
    }

    /// The receipts of this kind by the nodes that get new shares. Those of nodes that did not make the step are not valid.
    pub(crate) async fn receipts(&self, case: &Case, kind: &ReceiptKind) -> Vec<NodeReceipt> {
        let mut receipts = self.false_receipts(case, kind);
        for receipt in &mut receipts {
            let participant = receipt.participant.0;
            let statement = case.chain(participant).statement(kind).unwrap();
            match self.nodes[usize::from(participant)].signed_receipt(&statement).await {
                Some(signed) => *receipt = signed,
                None => receipt.log_index = 1_000,
            }
        }
        receipts
    }

    /// The promotion of this generation, with the receipts of all its receivers.
    pub(crate) async fn promotion(&self, case: &Case, attempt: u32, epoch_root: Hex32) -> CommitEpoch {
        let staged = self.receipts(case, &ReceiptKind::Staged { attempt, epoch_root }).await;
        CommitEpoch { attempt, epoch_root, staged }
    }

    pub(crate) async fn commit_epoch(&self, case: &Case, attempt: u32) {
        let commit = self.promotion(case, attempt, self.epoch().root).await;
        for (node, participant) in self.nodes.iter().zip(0..) {
            let call = case.call(participant, EffectStep::CommitEpoch, 1, attempt);
            node.commit_epoch(&call, &commit).await.unwrap();
        }
    }

    pub(crate) async fn round_one(
        &self,
        case: &Case,
        participant: u16,
        attempt: u32,
    ) -> Result<RoundOne, NodeError> {
        self.round_one_after::<AttemptReceipt>(case, participant, attempt, &[]).await
    }

    /// Round one with these receipts for earlier attempts.
    pub(crate) async fn round_one_after<R: Clone + Into<AttemptReceipt>>(
        &self,
        case: &Case,
        participant: u16,
        attempt: u32,
        discarded: &[R],
    ) -> Result<RoundOne, NodeError> {
        let call = case.call(participant, EffectStep::Execute, attempt, attempt);
        let discarded: Vec<_> = discarded.iter().cloned().map(Into::into).collect();
        self.nodes[usize::from(participant)].signing_commit(&call, &discarded).await
    }

    /// Admits a signature, and has node 0 release its share while `other` calls it. Exactly one of the two must succeed.
    /// Returns whether the share was released, and whether the other call succeeded.
    pub(crate) async fn release_beside<F: Future<Output = Result<NodeReceipt, NodeError>>>(
        &self,
        id: u8,
        other: impl FnOnce(Case) -> F,
    ) -> (bool, bool) {
        let case = self.case(id, asset_action(&[0, 1, 2], id));
        self.admit(&case).await;
        let package = self.package(&case, &[0, 1], 1).await;
        let (node, call) = (self.nodes[0].clone(), case.call(0, EffectStep::Execute, 1, 1));
        let signing = tokio::spawn(async move { node.signing_share(&call, &package).await });
        if id.is_multiple_of(2) {
            tokio::task::yield_now().await;
        }
        let other = other(case).await;
        let share = signing.await.unwrap();
        assert_ne!(share.is_ok(), other.is_ok(), "{share:?} {other:?}");
        (share.is_ok(), other.is_ok())
    }

    pub(crate) async fn discard_attempt(
        &self,
        case: &Case,
        participant: u16,
        attempt: u32,
    ) -> Result<NodeReceipt, NodeError> {
        let call = case.call(participant, EffectStep::Execute, attempt, attempt);
        self.nodes[usize::from(participant)].discard_attempt(&call).await
    }

    pub(crate) async fn round_two(
        &self,
        case: &Case,
        participant: u16,
        attempt: u32,
        package: &SigningPackage,
    ) -> Result<SignedShare, NodeError> {
        let call = case.call(participant, EffectStep::Execute, attempt, attempt);
        self.nodes[usize::from(participant)].signing_share(&call, package).await
    }

    /// A package over the admitted digest, with the commitments of these signers.
    pub(crate) async fn package(&self, case: &Case, signers: &[u16], attempt: u32) -> SigningPackage {
        let mut commitments = BTreeMap::new();
        for signer in signers {
            match self.round_one(case, *signer, attempt).await.unwrap() {
                RoundOne::Committed(bytes) => _ = commitments.insert(*signer, bytes),
                consumed @ RoundOne::Consumed { .. } => panic!("{consumed:?}"),
            }
        }
        case.package(commitments)
    }

    pub(crate) fn result(
        &self,
        case: &Case,
        package: &SigningPackage,
        shares: &BTreeMap<u16, SignedShare>,
    ) -> SignatureResult {
        let shares = shares.iter().map(|(signer, signed)| (*signer, signed.share.clone())).collect();
        let signature = aggregate(package, &shares, self.keys()).unwrap();
        SignatureResult {
            signature_profile: self.keys().profile().to_string(),
            public_key_hex: case.public_key_hex(self.keys()),
            signed_digest: case.decision.request_digest,
            signature_hex: hex::encode(signature),
            signers: roster(&package.commitments.keys().copied().collect::<Vec<_>>()),
            package_hash: Hex32::new(package.hash()),
        }
    }

    /// The publication of the generation that a key creation made.
    pub(crate) async fn generation(&self, case: &Case) -> Publication {
        let staged = case.made(self.keys());
        let kind = ReceiptKind::Promoted { attempt: 1, epoch_root: staged.epoch.root };
        let promoted = self.receipts(case, &kind).await;
        Publication { attempt: 1, result: Published::Generation(staged), promoted }
    }

    /// Checks that the receipt is this node's, for this step.
    #[track_caller]
    pub(crate) fn check_receipt(
        &self,
        case: &Case,
        participant: u16,
        kind: ReceiptKind,
        receipt: &NodeReceipt,
    ) {
        let key = self.nodes[usize::from(participant)].identity().signing_key();
        let statement = case.chain(participant).statement(&kind).unwrap();
        receipt.verify(&statement, &key).unwrap();
    }

    /// A signature by nodes 0 and 1.
    pub(crate) async fn sign(&self, case: &Case, attempt: u32) -> SignatureResult {
        self.sign_by(case, &[0, 1], attempt).await
    }

    pub(crate) async fn sign_by(&self, case: &Case, signers: &[u16], attempt: u32) -> SignatureResult {
        let package = self.package(case, signers, attempt).await;
        let mut shares = BTreeMap::new();
        for signer in signers {
            shares.insert(*signer, self.round_two(case, *signer, attempt, &package).await.unwrap());
        }
        self.result(case, &package, &shares)
    }
}

/// Three nodes that have admitted a signature.
pub(crate) async fn admitted() -> (Group, Case) {
    let group = Group::with_key(3, 2, SUITES[1]).await;
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    group.admit(&case).await;
    (group, case)
}

/// The code of a permanent refusal.
#[track_caller]
pub(crate) fn code<T: std::fmt::Debug>(answer: Result<T, NodeError>) -> Code {
    match answer {
        Err(NodeError::Rejected(rejection)) => rejection.code,
        other => panic!("not a rejection: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_lost<T: std::fmt::Debug>(answer: Result<T, NodeError>) {
    assert!(matches!(answer, Err(NodeError::Lost { .. })), "{answer:?}");
}

pub(crate) fn other_root() -> Hex32 {
    hex32(99)
}
