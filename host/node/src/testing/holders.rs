//! Two nodes that hold a key and require signed approvals, for measurements.

use crate::testing::{Case, KEY, NOT_AFTER, SUITES, bundle, offer, payment, settings};
use crate::{CeremonyAnswer, CeremonyStart, CommitEpoch, Envelope, Node, NodeConfig, NodeSettings, Peers};
use gateway_domain::approval::{Approvers, PinnedRegistry, SigningRule};
use gateway_domain::ids::{EpochName, Hex32, OperationId};
use gateway_domain::key::{Epoch, epoch_root};
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::ReceiptKind;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::testing::approvers::{approval, entry, key, key_entry, registry, signed};
use gateway_domain::time::EpochMs;
use gateway_threshold::PublicKeys;
use std::path::Path;
use std::sync::Arc;

const NOW: u64 = 1_000;

/// A payment by this key with signed approvals of Alice and Bob.
pub fn approved_payment(epoch: &Epoch, keys: &PublicKeys, id: u16) -> Case {
    let mut bytes = [7; 32];
    bytes.iter_mut().zip(id.to_be_bytes()).for_each(|(byte, id)| *byte = id);
    let case = Case::new(1, KEY, epoch.clone(), 2, payment(&[0, 1], None));
    let case = case.of(OperationId(Hex32::new(bytes))).derived_from(keys);
    let claimed = i64::try_from(NOW).unwrap();
    let sign = |name: &str, byte| signed(approval(name, claimed), &case.approval_subject(), &key(byte));
    let approvals = vec![sign("alice", 1), sign("bob", 2)];
    case.with_approvals(approvals)
}

fn config(folder: &Path, participant: u16, peers: &Arc<Peers>, rule: SigningRule) -> NodeConfig {
    let settings = NodeSettings { signed_approvals: rule, ..settings(1, Arc::new(|| EpochMs(NOW))) };
    let database = folder.join(format!("node-{participant}.db"));
    let (participant, peers) = (ParticipantIndex(participant), Arc::clone(peers));
    NodeConfig { participant, database, log_size_file: None, peers, settings }
}

/// Two nodes that hold a key and require signed approvals, and the key's epoch and public keys.
pub async fn nodes_with_key(folder: &Path) -> (Vec<Node>, Epoch, PublicKeys) {
    let peers = Arc::default();
    let open = async |participant, rule| Node::open(config(folder, participant, &peers, rule)).await.unwrap();
    let nodes = [open(0, SigningRule::Off).await, open(1, SigningRule::Off).await];
    let creation = Case::key_create(100, KEY, 2, 2, SUITES[1]);
    let call = |node: &Node, step| creation.call(node.participant().0, step, 1, 1);
    let mut sent = vec![];
    for node in &nodes {
        peers.pin(node.identity()).unwrap();
        node.offer_bundle(offer(bundle())).await.unwrap();
        node.admit(&creation.request()).await.unwrap();
        node.policy_receipt(&call(node, EffectStep::PolicyReceipt)).await.unwrap();
    }
    for node in &nodes {
        let start = CeremonyStart::default();
        sent.extend(messages(node.ceremony_start(&call(node, EffectStep::Execute), &start).await.unwrap()).0);
    }
    let mut made = None;
    while !sent.is_empty() {
        let mut next = vec![];
        for node in &nodes {
            let me = node.participant().0;
            let is_mine = |envelope: &&Envelope| {
                let header = envelope.header();
                header.from != me && header.to.is_none_or(|to| to == me)
            };
            let mail: Vec<_> = sent.iter().filter(is_mine).cloned().collect();
            let answer = node.ceremony_deliver(&call(node, EffectStep::Execute), &mail).await.unwrap();
            let (more, keys) = messages(answer);
            next.extend(more);
            made = made.or(keys);
        }
        sent = next;
    }
    let name = EpochName("1".to_owned());
    let keys = made.unwrap();
    let root = epoch_root(KEY, &name, &hex::encode(keys.to_bytes())).unwrap();
    let kind = ReceiptKind::Staged { attempt: 1, epoch_root: root };
    let mut staged = vec![];
    for node in &nodes {
        let statement = creation.chain(node.participant().0).statement(&kind).unwrap();
        staged.push(node.signed_receipt(&statement).await.unwrap());
    }
    let commit = CommitEpoch { attempt: 1, epoch_root: root, staged };
    for node in &nodes {
        node.commit_epoch(&call(node, EffectStep::CommitEpoch), &commit).await.unwrap();
        node.close().await;
    }
    let entries = [entry("alice", &[key_entry(&key(1))]), entry("bob", &[key_entry(&key(2))])];
    let approvers = Arc::new(Approvers::parse(registry(&entries).as_bytes()).unwrap());
    let rule = || SigningRule::Required(PinnedRegistry::new(Arc::clone(&approvers), NOT_AFTER.0));
    (vec![open(0, rule()).await, open(1, rule()).await], Epoch { name, root }, keys)
}

/// The messages in an answer, or the public keys.
fn messages(answer: CeremonyAnswer) -> (Vec<Envelope>, Option<PublicKeys>) {
    match answer {
        CeremonyAnswer::Send(messages) => (messages, None),
        CeremonyAnswer::Staged { keys, .. } => (vec![], Some(*keys)),
    }
}
