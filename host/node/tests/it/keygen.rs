//! Key generation on nodes: an attempt begins once, and a share is staged durably, promoted once, and removed by a discard.

use crate::support::{Group, KEY, assert_lost, code, mail, other_root};
use gateway_domain::ids::EpochName;
use gateway_domain::key::epoch_root;
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::ReceiptKind;
use gateway_domain::roster::ParticipantIndex;
use gateway_node::testing::{Case, SUITES, asset_action, refresh, roster};
use gateway_node::{CeremonyAnswer, CeremonyStart, Code, CommitEpoch, Discard, NodeError, Publication};
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn create() -> Case {
    Case::key_create(1, KEY, 3, 2, SUITES[0])
}

#[tokio::test]
async fn staged_key_survives_a_restart_and_signs_only_after_promotion() {
    let mut group = Group::open(3).await;
    let case = create();
    group.make_key(&case, 1).await;
    group.restart(0).await;
    let call = case.call(0, EffectStep::Execute, 1, 1);
    let CeremonyAnswer::Staged { keys, .. } =
        group.nodes[0].ceremony_start(&call, &CeremonyStart::default()).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(*keys, *group.keys());
    let signing = group.case(2, asset_action(&[0, 1, 2], 7));
    let early = group.nodes[0].admit(&signing.request()).await;
    assert!(matches!(early, Err(NodeError::Unavailable { .. })), "{early:?}");
    group.commit_epoch(&case, 1).await;
    group.nodes[0].admit(&signing.request()).await.unwrap();
}

#[tokio::test]
async fn attempt_begins_once() {
    let mut group = Group::open(3).await;
    let case = create();
    group.admit(&case).await;
    let sent = group.start(&case, 2).await;
    let again = |participant, attempt| case.call(participant, EffectStep::Execute, attempt, attempt);
    assert_lost(group.nodes[0].ceremony_start(&again(0, 2), &CeremonyStart::default()).await);
    group.restart(1).await;
    assert_lost(group.nodes[1].ceremony_start(&again(1, 2), &CeremonyStart::default()).await);
    assert_lost(group.nodes[1].ceremony_deliver(&again(1, 2), &mail(&sent, 1)).await);
    let earlier = group.nodes[1].ceremony_start(&again(1, 1), &CeremonyStart::default()).await;
    assert_eq!(code(earlier), Code::AttemptSuperseded);
    group.run_keygen(&case, 3).await;
}

#[tokio::test]
async fn later_attempt_replaces_the_staged_share_of_an_earlier_one() {
    let mut group = Group::open(3).await;
    let case = create();
    group.make_key(&case, 1).await;
    let first = group.epoch().root;
    let second = case.call(0, EffectStep::Execute, 2, 2);
    let refused = group.nodes[0].ceremony_start(&second, &CeremonyStart::default()).await;
    assert_eq!(code(refused), Code::AttemptNotDiscarded);
    // All nodes staged their share, so these receipts are lies, which the nodes cannot know.
    let discarded = group.false_receipts(&case, &ReceiptKind::AttemptDiscarded { attempt: 1 });
    let discarded = discarded.into_iter().map(Into::into).collect();
    let start = CeremonyStart { discarded, ..CeremonyStart::default() };
    let keys = group.run_keygen_with(&case, 2, &start).await;
    assert_ne!(keys, *group.keys());
    let commit = case.call(0, EffectStep::CommitEpoch, 1, 1);
    let stale = group.promotion(&case, 1, first).await;
    assert_eq!(code(group.nodes[0].commit_epoch(&commit, &stale).await), Code::EpochConflict);
}

#[tokio::test]
async fn exactly_the_staged_generation_is_promoted_once() {
    let mut group = Group::open(3).await;
    let case = create();
    group.admit(&case).await;
    let commit = |attempt| case.call(0, EffectStep::CommitEpoch, attempt, 1);
    let early = group.promotion(&case, 1, other_root()).await;
    assert_eq!(code(group.nodes[0].commit_epoch(&commit(1), &early).await), Code::StepOutOfOrder);
    let keys = group.run_keygen(&case, 1).await;
    group.keys = Some(keys.clone());
    assert_eq!(code(group.nodes[0].commit_epoch(&commit(1), &early).await), Code::EpochConflict);
    let root =
        gateway_domain::key::epoch_root(KEY, &case.decision.epoch, &hex::encode(keys.to_bytes())).unwrap();
    let valid = group.promotion(&case, 1, root).await;
    let publish = case.call(0, EffectStep::Publish, 1, 1);
    let body = group.generation(&case).await;
    assert_eq!(code(group.nodes[0].publish(&publish, &body).await), Code::StepOutOfOrder);
    let done = group.nodes[0].commit_epoch(&commit(1), &valid).await.unwrap();
    assert_eq!(done.transition_hash, case.chain(0).after_commit_epoch(1).unwrap());
    // Repeats: with the same effect id, with the next one, and after a restart.
    assert_eq!(group.nodes[0].commit_epoch(&commit(1), &valid).await.unwrap(), done);
    assert_eq!(group.nodes[0].commit_epoch(&commit(2), &valid).await.unwrap(), done);
    group.restart(0).await;
    assert_eq!(group.nodes[0].commit_epoch(&commit(3), &valid).await.unwrap(), done);
    assert_eq!(code(group.nodes[0].commit_epoch(&commit(4), &early).await), Code::EpochConflict);
    // A receipt for another attempt would state another chain of steps.
    let other = case.call(0, EffectStep::CommitEpoch, 5, 2);
    let past = CommitEpoch { attempt: 2, ..valid.clone() };
    assert_eq!(code(group.nodes[0].commit_epoch(&other, &past).await), Code::StepOutOfOrder);
    let other = case.call(0, EffectStep::Publish, 1, 2);
    let past = Publication { attempt: 2, ..body.clone() };
    assert_eq!(code(group.nodes[0].publish(&other, &past).await), Code::StepOutOfOrder);
    for participant in [1, 2] {
        let call = case.call(participant, EffectStep::CommitEpoch, 1, 1);
        group.nodes[usize::from(participant)].commit_epoch(&call, &valid).await.unwrap();
    }
    group.nodes[0].publish(&publish, &group.generation(&case).await).await.unwrap();
}

#[tokio::test]
async fn misbehaving_participant_is_named_and_ends_the_ceremony() {
    let group = Group::open(3).await;
    let case = create();
    group.admit(&case).await;
    let sent = group.start(&case, 1).await;
    let mut tampered = mail(&sent, 0);
    let from = tampered[0].header().from;
    let tamper = |body: &mut Vec<u8>| *body.last_mut().unwrap() ^= 1;
    tampered[0] = group.forge(&tampered[0], tamper).await;
    let call = case.call(0, EffectStep::Execute, 1, 1);
    let Err(NodeError::Rejected(rejection)) = group.nodes[0].ceremony_deliver(&call, &tampered).await else {
        panic!()
    };
    assert_eq!(rejection.code, Code::CeremonyMisbehaviour);
    assert_eq!(rejection.culprits, [ParticipantIndex(from)]);
    assert_lost(group.nodes[0].ceremony_deliver(&call, &mail(&sent, 0)).await);
}

/// Otherwise some nodes could be made to promote the one operation's shares, and others the other's: neither generation would sign.
#[tokio::test]
async fn node_stages_the_shares_of_one_operation_on_a_key_at_a_time() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let (first, second) = two_refreshes(&group);
    group.admit(&first).await;
    group.admit(&second).await;
    let dealers = [0, 1].map(ParticipantIndex).into();
    let start = CeremonyStart { dealers, package: group.keys().to_bytes(), discarded: vec![] };
    // Both begin before either has staged a share.
    let mut sent = group.start_with(&second, 1, &start).await;
    let of_first = group.start_with(&first, 1, &start).await;
    let keys = group.relay(&first, 1, of_first).await.unwrap().remove(0);
    let mut n_refused = 0;
    while !sent.is_empty() {
        let mut next = vec![];
        for (node, participant) in group.nodes.iter().zip(0..) {
            let call = second.call(participant, EffectStep::Execute, 1, 1);
            match node.ceremony_deliver(&call, &mail(&sent, participant)).await {
                Ok(CeremonyAnswer::Send(messages)) => next.extend(messages),
                Ok(CeremonyAnswer::Staged { .. }) => panic!("two generations are staged"),
                Err(error) => {
                    assert_staged_by_another(&error);
                    n_refused += 1;
                }
            }
        }
        sent = next;
    }
    assert_eq!(n_refused, 3);
    let again = second.call(0, EffectStep::Execute, 2, 2);
    assert_staged_by_another(&group.nodes[0].ceremony_start(&again, &start).await.unwrap_err());
    let root = epoch_root(KEY, &EpochName("2".into()), &hex::encode(keys.to_bytes())).unwrap();
    let promotion = group.promotion(&first, 1, root).await;
    for (node, participant) in group.nodes.iter().zip(0..) {
        node.commit_epoch(&first.call(participant, EffectStep::CommitEpoch, 1, 1), &promotion).await.unwrap();
    }
    assert_eq!(code(group.nodes[0].ceremony_start(&again, &start).await), Code::EpochConflict);
}

/// Refreshes of the group's key that were admitted for the same generation.
fn two_refreshes(group: &Group) -> (Case, Case) {
    let first = group.key_change(refresh("2"), "2", &[0, 1, 2], 2);
    let target = group.key_change(refresh("3"), "3", &[0, 1, 2], 2).decision.target.unwrap();
    (first, group.case(7, refresh("3")).changing(&roster(&[0, 1, 2]), target))
}

fn assert_staged_by_another(error: &NodeError) {
    let detail = error.to_string();
    assert!(
        matches!(error, NodeError::Unavailable { .. }) && detail.contains("has staged a share"),
        "{detail}"
    );
}

/// Whether the node's files contain these bytes.
fn is_on_disk(group: &Group, participant: u16, needle: &[u8]) -> bool {
    ["", "-wal"].into_iter().any(|suffix| {
        let bytes = fs::read(format!("{}{suffix}", group.path(participant).display())).unwrap_or_default();
        bytes.windows(needle.len()).any(|window| window == needle)
    })
}

#[tokio::test]
async fn files_are_private_and_a_discarded_share_is_removed_from_them() {
    let mut group = Group::open(3).await;
    let case = create();
    group.make_key(&case, 1).await;
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let path = format!("{}{suffix}", group.path(0).display());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{path}");
    }
    // The public keys are in the same row as the secret.
    let row = group.keys().to_bytes();
    assert!(is_on_disk(&group, 0, &row));
    let discarded_attempts = group.false_receipts(&case, &ReceiptKind::AttemptDiscarded { attempt: 1 });
    let discarded_attempts = discarded_attempts.into_iter().map(Into::into).collect();
    let discarding = Discard { discarded_attempts, ..case.discarding() };
    group.nodes[0].discard(&case.call(0, EffectStep::Discard, 1, 1), &discarding).await.unwrap();
    assert!(!is_on_disk(&group, 0, &row));
    let shown = format!("{:?}", group.nodes[0]);
    assert_eq!(shown, "Node { participant: ParticipantIndex(0), .. }");
}
