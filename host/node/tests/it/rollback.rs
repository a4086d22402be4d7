//! A node that is restored from an older copy of its database stops when it is shown what it signed, until it is readmitted.

use crate::support::{Group, KEY, NOW, admitted, code};
use gateway_domain::ids::Hex32;
use gateway_domain::node_log::{LogEntry, LogHead, SignedLogHead};
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::{NodeReceipt, ReceiptKind, ReceiptStatement, Signature};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_node::limits::READMIT_LOST_MAX;
use gateway_node::testing::{Case, SUITES, asset_action, hex32};
use gateway_node::{CeremonyStart, Code, CommitEpoch, Node, NodeError, Publication, Published, ShownReceipt};
use gateway_threshold::sign::SigningPackage;
use std::sync::Arc;

const STOPPED: &str =
    "the node has stopped: its database is older than what it signed, and an operator must readmit it";

#[track_caller]
fn assert_stopped<T: std::fmt::Debug>(answer: Result<T, NodeError>) {
    match answer {
        Err(NodeError::Unavailable { detail, .. }) => assert_eq!(detail, STOPPED),
        other => panic!("not stopped: {other:?}"),
    }
}

/// The database of node 0 as it is now.
async fn backup(group: &mut Group) -> Vec<u8> {
    group.restart(0).await;
    std::fs::read(group.path(0)).unwrap()
}

/// Replaces the database of node 0.
async fn restore(group: &mut Group, backup: &[u8]) {
    group.nodes[0].close().await;
    std::fs::write(group.path(0), backup).unwrap();
    group.nodes[0] = Arc::new(Node::open(group.config(0)).await.unwrap());
}

/// A statement with the node's receipt for it.
type Shown = (ReceiptStatement, NodeReceipt);

async fn receipt(group: &Group, case: &Case, kind: ReceiptKind) -> Shown {
    let statement = case.chain(0).statement(&kind).unwrap();
    let receipt = group.nodes[0].signed_receipt(&statement).await.unwrap();
    (statement, receipt)
}

/// A node 0 that was restored to the state before it signed; the case, the package, its receipt for the share and its head.
async fn restored() -> (Group, Case, SigningPackage, Shown, SignedLogHead) {
    let (mut group, case) = admitted().await;
    let copy = backup(&mut group).await;
    let package = group.package(&case, &[0, 1], 1).await;
    group.round_two(&case, 0, 1, &package).await.unwrap();
    let (signed_digest, package_hash) = (case.decision.request_digest, Hex32::new(package.hash()));
    let shown = receipt(&group, &case, ReceiptKind::Signed { attempt: 1, signed_digest, package_hash }).await;
    let head = group.nodes[0].log_head().await.unwrap();
    restore(&mut group, &copy).await;
    (group, case, package, shown, head)
}

/// Every call is refused.
async fn assert_refuses_everything(group: &Group, case: &Case, package: &SigningPackage) {
    let node = &group.nodes[0];
    let call = |step| case.call(0, step, 1, 1);
    let fresh = group.case(50, asset_action(&[0, 1, 2], 50));
    assert_stopped(node.admit(&fresh.request()).await);
    assert_stopped(node.admit(&case.request()).await);
    assert_stopped(node.policy_receipt(&call(EffectStep::PolicyReceipt)).await);
    assert_stopped(node.signing_commit(&call(EffectStep::Execute), &[]).await);
    assert_stopped(node.signing_share(&call(EffectStep::Execute), package).await);
    assert_stopped(node.ceremony_start(&call(EffectStep::Execute), &CeremonyStart::default()).await);
    assert_stopped(node.ceremony_deliver(&call(EffectStep::Execute), &[]).await);
    let commit = CommitEpoch { attempt: 1, epoch_root: hex32(1), staged: vec![] };
    assert_stopped(node.commit_epoch(&call(EffectStep::CommitEpoch), &commit).await);
    let publication = group.generation(&Case::key_create(100, KEY, 3, 2, SUITES[1])).await;
    assert_stopped(node.publish(&call(EffectStep::Publish), &publication).await);
    assert_stopped(node.discard(&call(EffectStep::Discard), &case.discarding()).await);
}

#[tokio::test]
async fn restored_node_that_is_shown_a_missing_receipt_refuses_every_step() {
    let (mut group, case, package, (statement, receipt), head) = restored().await;
    group.package(&case, &[0], 2).await;
    let size = group.nodes[0].log_size();
    assert_eq!(size, receipt.log_index);
    assert_stopped(group.nodes[0].show_receipt(&statement, &receipt).await);
    for _ in 0..2 {
        assert!(group.nodes[0].is_stopped());
        assert_refuses_everything(&group, &case, &package).await;
        assert_stopped(group.nodes[0].show_receipt(&statement, &receipt).await);
        assert_stopped(group.nodes[0].show_head(&head).await);
        // Its log can still be read, and has no new entry.
        assert_eq!(group.nodes[0].log_head().await.unwrap().head.size, size);
        group.restart(0).await;
    }
}

#[tokio::test]
async fn restored_node_that_is_shown_a_larger_head_stops() {
    let (group, case, package, _, head) = restored().await;
    assert_stopped(group.nodes[0].show_head(&head).await);
    assert_refuses_everything(&group, &case, &package).await;
}

/// The node went on before it was shown anything, so its log has the position, with another entry.
/// Its log may have grown past the position of the receipt.
#[tokio::test]
async fn restored_node_that_went_on_stops_when_it_is_shown_its_newest_receipt() {
    for goes_on in [false, true] {
        let (group, case, package, (statement, receipt), _) = restored().await;
        let newest = ShownReceipt { statement, receipt };
        if goes_on {
            let next = group.case(9, asset_action(&[0, 1, 2], 9));
            group.nodes[0].admit(&next.request()).await.unwrap();
            let call = next.call(0, EffectStep::PolicyReceipt, 1, 1);
            let own = group.nodes[0].policy_receipt(&call).await.unwrap().receipt;
            let kind = ReceiptKind::PolicyReceipt((&next.decision()).into());
            let statement = next.chain(0).statement(&kind).unwrap();
            group.nodes[0].show_newest(&ShownReceipt { statement, receipt: own }).await.unwrap();
            assert!(group.nodes[0].log_size() > newest.receipt.log_index);
        }
        assert_stopped(group.nodes[0].show_newest(&newest).await);
        assert_refuses_everything(&group, &case, &package).await;
    }
}

#[tokio::test]
async fn restored_node_with_another_entry_at_the_position_stops() {
    for by_head in [false, true] {
        let (group, case, package, (statement, receipt), head) = restored().await;
        let other = group.case(3, asset_action(&[0, 1, 2], 9));
        let accepted = group.nodes[0].admit(&other.request()).await.unwrap();
        assert_eq!(accepted.log_index, receipt.log_index);
        let show = async || match by_head {
            true => group.nodes[0].show_head(&head).await,
            false => group.nodes[0].show_receipt(&statement, &receipt).await,
        };
        assert_stopped(show().await);
        assert_refuses_everything(&group, &case, &package).await;
        // The readmission covers the entry that was replaced.
        group.nodes[0].readmit(0).await.unwrap();
        show().await.unwrap();
    }
}

#[tokio::test]
async fn later_readmission_does_not_forget_what_an_earlier_one_covered() {
    let (mut group, _, _, (statement, receipt), head) = restored().await;
    assert_stopped(group.nodes[0].show_receipt(&statement, &receipt).await);
    group.nodes[0].readmit(0).await.unwrap();
    group.restart(0).await;
    group.nodes[0].readmit(0).await.unwrap();
    group.nodes[0].show_head(&head).await.unwrap();
}

#[tokio::test]
async fn readmitted_node_that_is_restored_again_stops() {
    for by_head in [false, true] {
        let (mut group, ..) = restored().await;
        group.nodes[0].readmit(0).await.unwrap();
        let copy = backup(&mut group).await;
        group.set_time(NOW + 2);
        let case = decided_later(&group, 4);
        group.admit(&case).await;
        let kind = ReceiptKind::PolicyReceipt((&case.decision()).into());
        let (statement, receipt) = receipt(&group, &case, kind).await;
        let head = group.nodes[0].log_head().await.unwrap();
        restore(&mut group, &copy).await;
        group.admit(&decided_later(&group, 5)).await;
        assert_stopped(match by_head {
            true => group.nodes[0].show_head(&head).await,
            false => group.nodes[0].show_receipt(&statement, &receipt).await,
        });
    }
}

/// Otherwise a caller could stop nodes.
#[tokio::test]
async fn forged_receipts_and_heads_do_not_stop_a_node() {
    let (group, case) = admitted().await;
    let node = &group.nodes[0];
    let ahead = node.log_size() + 5;
    let statement = case.chain(0).statement(&ReceiptKind::Discarded).unwrap();
    let others = case.chain(1).statement(&ReceiptKind::Discarded).unwrap();
    let valid = receipt(&group, &case, ReceiptKind::Admitted).await;
    let (own_head, other_head) = (node.log_head().await.unwrap(), group.nodes[1].log_head().await.unwrap());
    let by_other = group.nodes[1].sign_anything(&statement, ahead);
    let forged = [
        (statement.clone(), NodeReceipt { signature: Signature::new([0; 64]), ..by_other.clone() }),
        (statement, by_other),
        (others.clone(), group.nodes[1].sign_anything(&others, ahead)),
        (valid.0.clone(), NodeReceipt { log_index: ahead, ..valid.1.clone() }),
        (ReceiptStatement { attempt: 2, ..valid.0.clone() }, valid.1.clone()),
    ];
    for (statement, receipt) in forged {
        assert_eq!(code(node.show_receipt(&statement, &receipt).await), Code::ReceiptRefused);
    }
    let alter = |change: fn(&mut LogHead)| {
        let mut altered = own_head.clone();
        change(&mut altered.head);
        altered
    };
    let renamed = |head: &SignedLogHead| {
        let head = LogHead { participant: ParticipantIndex(0), ..head.head };
        SignedLogHead { head, ..other_head.clone() }
    };
    let forged = [
        alter(|head| head.size += 5),
        alter(|head| head.root = hex32(1)),
        renamed(&other_head),
        other_head.clone(),
    ];
    for head in forged {
        assert_eq!(code(node.show_head(&head).await), Code::ReceiptRefused);
    }
    // Its true receipts and heads do not stop it either.
    node.show_receipt(&valid.0, &valid.1).await.unwrap();
    node.show_head(&own_head).await.unwrap();
    assert!(!node.is_stopped());
    group.sign(&case, 1).await;
}

/// The first call of a promotion carries the node's own receipt.
#[tokio::test]
async fn restored_node_stops_at_a_promotion_with_its_own_receipt() {
    let mut group = Group::open(3).await;
    let case = Case::key_create(1, KEY, 3, 2, SUITES[0]);
    group.admit(&case).await;
    let copy = backup(&mut group).await;
    let keys = group.run_keygen(&case, 1).await;
    group.keys = Some(keys);
    let commit = group.promotion(&case, 1, group.epoch().root).await;
    let staged = backup(&mut group).await;
    restore(&mut group, &copy).await;
    let call = case.call(0, EffectStep::CommitEpoch, 1, 1);
    assert_stopped(group.nodes[0].commit_epoch(&call, &commit).await);
    assert!(group.nodes[0].is_stopped());

    // The same for a publication.
    restore(&mut group, &staged).await;
    group.commit_epoch(&case, 1).await;
    let publication = group.generation(&case).await;
    restore(&mut group, &staged).await;
    let call = case.call(0, EffectStep::Publish, 1, 1);
    assert_stopped(group.nodes[0].publish(&call, &publication).await);
}

/// An operation that was decided after the readmission.
fn decided_later(group: &Group, id: u8) -> Case {
    let mut case = group.case(id, asset_action(&[0, 1, 2], id));
    case.decision.not_before_ms = EpochMs(NOW + 1);
    case
}

#[tokio::test]
async fn readmitted_node_continues_above_the_shown_position() {
    let (mut group, _, _, (statement, receipt), head) = restored().await;
    assert_stopped(group.nodes[0].show_receipt(&statement, &receipt).await);
    let lost_from = group.nodes[0].log_size();
    let readmitted = group.nodes[0].readmit(0).await.unwrap();
    assert_eq!(readmitted.head.size, receipt.log_index + 2, "one lost entry and the readmission");
    for _ in 0..2 {
        let logged = group.nodes[0].log_entries(lost_from, 10).await.unwrap();
        let expected = [
            LogEntry::Lost { log_index: lost_from },
            LogEntry::Readmitted {
                log_index: lost_from + 1,
                participant: ParticipantIndex(0),
                lost_from,
                at_ms: EpochMs(NOW),
            },
        ];
        assert_eq!(logged, expected);
        // What it lost is shown again: that is known.
        group.nodes[0].show_receipt(&statement, &receipt).await.unwrap();
        group.nodes[0].show_head(&head).await.unwrap();
        group.restart(0).await;
    }
    group.set_time(NOW + 2);
    let next = decided_later(&group, 4);
    group.admit(&next).await;
    assert_eq!(group.nodes[0].log_size(), readmitted.head.size + 2);
    group.sign(&next, 1).await;
}

/// Each was possibly signed in the part of the log that was lost.
#[tokio::test]
async fn readmitted_node_signs_and_discards_nothing_that_was_decided_before() {
    let (mut group, case, package, (statement, receipt), _) = restored().await;
    let unknown = group.case(6, asset_action(&[0, 1, 2], 6));
    let create = Case::key_create(7, KEY, 3, 2, SUITES[1]).on_key("other");
    group.admit(&create).await;
    assert_stopped(group.nodes[0].show_receipt(&statement, &receipt).await);
    group.nodes[0].readmit(0).await.unwrap();
    for _ in 0..2 {
        let node = &group.nodes[0];
        // A second package for the operation that the lost part signed.
        for attempt in [1, 2] {
            let refused = group.round_one(&case, 0, attempt).await;
            assert_eq!(code(refused), Code::DecidedBeforeReadmission);
            assert!(matches!(
                group.round_two(&case, 0, attempt, &package).await,
                Err(NodeError::Lost { .. })
            ));
        }
        assert_eq!(code(node.admit(&unknown.request()).await), Code::DecidedBeforeReadmission);
        let start = create.call(0, EffectStep::Execute, 1, 1);
        let refused = node.ceremony_start(&start, &CeremonyStart::default()).await;
        assert_eq!(code(refused), Code::DecidedBeforeReadmission);
        // A receipt that it has not signed the operation, and will not, could be false.
        for case in [&case, &unknown] {
            let discard = node.discard(&case.call(0, EffectStep::Discard, 1, 1), &case.discarding()).await;
            assert_eq!(code(discard), Code::DecidedBeforeReadmission);
        }
        group.restart(0).await;
    }
    // An operation that makes shares can be discarded: the receipt states nothing about shares that were lost.
    group.nodes[0].discard(&create.call(0, EffectStep::Discard, 1, 1), &create.discarding()).await.unwrap();
    group.set_time(NOW + 2);
    let next = decided_later(&group, 4);
    group.admit(&next).await;
    group.nodes[0].discard(&next.call(0, EffectStep::Discard, 1, 1), &next.discarding()).await.unwrap();
}

/// Nonces that were made before the readmission, on the same process.
#[tokio::test]
async fn readmission_drops_nonces() {
    let (group, case) = admitted().await;
    let package = group.package(&case, &[0, 1], 1).await;
    group.nodes[0].readmit(0).await.unwrap();
    assert!(matches!(group.round_two(&case, 0, 1, &package).await, Err(NodeError::Lost { .. })));
}

#[tokio::test]
async fn receipt_beyond_the_readmitted_part_stops_the_node_again() {
    let (group, case, package, (statement, receipt), _) = restored().await;
    let head = group.nodes[0].readmit(0).await.unwrap();
    assert_eq!(head.head.size, receipt.log_index + 1, "restored on purpose: nothing was shown");
    assert_stopped(group.nodes[0].show_receipt(&statement, &receipt).await);
    assert_refuses_everything(&group, &case, &package).await;
    let again = group.nodes[0].readmit(0).await.unwrap();
    assert_eq!(again.head.size, head.head.size + 1);
    let entries = group.nodes[0].log_entries(head.head.size, 1).await.unwrap();
    assert!(matches!(entries[0], LogEntry::Readmitted { lost_from, .. } if lost_from == receipt.log_index));
    group.nodes[0].show_receipt(&statement, &receipt).await.unwrap();
    // An operator who knows the newest head skips the whole lost part at once.
    let (group, _, _, (statement, receipt), newest) = restored().await;
    let head = group.nodes[0].readmit(newest.head.size).await.unwrap();
    assert_eq!(head.head.size, newest.head.size + 1);
    group.nodes[0].show_receipt(&statement, &receipt).await.unwrap();
}

#[tokio::test]
async fn readmission_fills_a_limited_number_of_entries() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let node = &group.nodes[0];
    let size = node.log_size();
    let refused = node.readmit(size + READMIT_LOST_MAX + 1).await;
    assert!(matches!(refused, Err(NodeError::Unavailable { .. })), "{refused:?}");
    assert!(matches!(node.readmit(u64::MAX).await, Err(NodeError::Unavailable { .. })));
    assert_eq!(node.log_size(), size);
}

/// The share of an attempt that was stored before the copy was made is the same share.
#[tokio::test]
async fn share_released_before_the_copy_is_returned_after_a_readmission() {
    let (group, case) = admitted().await;
    let package = group.package(&case, &[0, 1], 1).await;
    let first = group.round_two(&case, 0, 1, &package).await.unwrap();
    group.nodes[0].readmit(0).await.unwrap();
    assert_eq!(group.round_two(&case, 0, 1, &package).await.unwrap(), first);
}

#[tokio::test]
async fn publication_of_an_earlier_operation_is_possible_after_a_readmission() {
    let (group, case) = admitted().await;
    let result = Published::Signature(group.sign(&case, 1).await);
    group.nodes[0].readmit(0).await.unwrap();
    let publication = Publication { attempt: 1, result, promoted: vec![] };
    group.nodes[0].publish(&case.call(0, EffectStep::Publish, 1, 1), &publication).await.unwrap();
}

/// A group whose nodes have files with the sizes of their logs, with an admitted operation.
async fn with_size_files() -> (Group, Case) {
    let (mut group, case) = admitted().await;
    group.has_size_files = true;
    group.restart(0).await;
    (group, case)
}

#[tokio::test]
async fn restored_node_stops_by_itself_when_it_starts() {
    let (mut group, case) = with_size_files().await;
    let copy = backup(&mut group).await;
    let package = group.package(&case, &[0, 1], 1).await;
    group.round_two(&case, 0, 1, &package).await.unwrap();
    let size = group.nodes[0].log_size();
    group.restart(0).await;
    assert!(!group.nodes[0].is_stopped(), "the newest database");
    restore(&mut group, &copy).await;
    assert!(group.nodes[0].is_stopped() && group.nodes[0].log_size() < size);
    assert_refuses_everything(&group, &case, &package).await;
    group.restart(0).await;
    assert_refuses_everything(&group, &case, &package).await;
    let head = group.nodes[0].readmit(0).await.unwrap().head;
    assert_eq!(head.size, size + 1, "no position is used twice");
    group.restart(0).await;
    assert!(!group.nodes[0].is_stopped());
    restore(&mut group, &copy).await;
    assert!(group.nodes[0].is_stopped(), "the readmission is known too");
}

/// A power failure may lose the last sizes, and a replaced node has another identity.
#[tokio::test]
async fn size_file_that_is_older_missing_or_of_another_node_stops_nothing() {
    let (mut group, case) = with_size_files().await;
    let before = std::fs::read(group.size_file(0)).unwrap();
    let package = group.package(&case, &[0, 1], 1).await;
    group.round_two(&case, 0, 1, &package).await.unwrap();
    let newest = std::fs::read(group.size_file(0)).unwrap();
    assert!(before < newest, "{before:?} {newest:?}");
    let others = [&[b'0'; 64][..], b" 00000000000000000999\n"].concat();
    for content in [&before[..], &others, b""] {
        group.nodes[0].close().await;
        std::fs::write(group.size_file(0), content).unwrap();
        group.restart(0).await;
        assert!(!group.nodes[0].is_stopped());
        assert_eq!(std::fs::read(group.size_file(0)).unwrap(), newest);
    }
    std::fs::remove_file(group.size_file(0)).unwrap();
    group.restart(0).await;
    assert_eq!(std::fs::read(group.size_file(0)).unwrap(), newest);
}

#[tokio::test]
async fn size_file_that_cannot_be_used_is_named_at_start() {
    let (group, _) = with_size_files().await;
    group.nodes[0].close().await;
    let long = [std::fs::read(group.size_file(0)).unwrap(), vec![b'0']].concat();
    let name = [&[b'0'; 64][..], b" 0000000000000000x999\n"].concat();
    for content in [long, b"5".to_vec(), name, vec![0xff; 86]] {
        std::fs::write(group.size_file(0), content).unwrap();
        let error = Node::open(group.config(0)).await.unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(
            cause.contains("node-0.log-size") && cause.contains("does not have the size"),
            "{error}: {cause}"
        );
    }
    std::fs::remove_file(group.size_file(0)).unwrap();
    std::fs::create_dir(group.size_file(0)).unwrap();
    assert!(Node::open(group.config(0)).await.is_err());
}
