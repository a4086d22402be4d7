//! Rows 9, 10, 14, 15, 23 and 24 of the table: what a node checks while new shares are made, promoted and published.

use super::victims::{SUITE, Victims, assert_refused, mail, messages, receipt_of};
use gateway_domain::contribution::{HelperAdmission, RecoveryCase};
use gateway_domain::ids::{Hex32, KeyId};
use gateway_domain::intent::Intent;
use gateway_domain::receipt::{NodeReceipt, PAYLOAD_TYPE, ReceiptKind, Signature};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::testing::{Case, hex32, roster};
use gateway_node::{CeremonyStart, CommitEpoch, Envelope, Header, Publication, public_case};
use gateway_seal::node_key::{Identities, NodeSecret};
use gateway_seal::relay::{self, Complaint};
use gateway_threshold::{Message, PublicKeys, keygen};
use rand_core::OsRng;
use serde_json::{Value, json};
use zeroize::Zeroizing;

/// A key pair of the attacker for this participant, which no operator pinned.
fn unpinned(participant: u16) -> NodeSecret {
    NodeSecret::from_seed(participant, &Zeroizing::new([66; 32]))
}

/// Receipts of this kind by all participants, the third signed with the attacker's key.
fn receipts_by(case: &Case, valid: &[NodeReceipt], kind: &ReceiptKind) -> Vec<NodeReceipt> {
    let statement = case.chain(2).statement(kind).unwrap();
    let signature = unpinned(2).sign_statement(PAYLOAD_TYPE, &statement.payload(0).unwrap());
    let forged = NodeReceipt {
        participant: ParticipantIndex(2),
        transition_hash: statement.transition_hash,
        log_index: 0,
        signature: Signature::new(signature),
    };
    [&valid[..2], &[forged]].concat()
}

/// The answer to a wrong value has the value with its sender's signature, so that the caller need not believe who is accused.
#[tokio::test]
async fn refusal_of_a_wrong_value_proves_who_signed_it() {
    let victims = Victims::with_key().await;
    let (refresh, start) = victims.refresh(3);
    victims.admit_all(&refresh).await;
    victims.nodes[1].replace_mail(|message| {
        let Message { from, to, round, ref body } = *message;
        let mut body = Zeroizing::new(body.to_vec());
        if to == Some(0) {
            body[63] ^= 1;
        }
        vec![Message { from, to, round, body }]
    });
    let sent = victims.start_all(&refresh, 1, &start).await;
    let wrong = sent.iter().find(|it| it.header().from == 1 && it.header().to == Some(0)).unwrap();
    let refused = victims.deliver(0, &refresh, 1, mail(&sent, 0)).await.unwrap_err();
    assert_eq!((refused.error.as_str(), &refused.culprits), ("ceremony_misbehaviour", &json!([1])));
    let complaint: Complaint = serde_json::from_value(refused.complaint).unwrap();
    let (header, _) = relay::verify_complaint(victims.nodes[1].identity(), &complaint).unwrap();
    assert_eq!(header, *wrong.header());
    assert!(relay::verify_complaint(victims.nodes[2].identity(), &complaint).is_err());
}

/// Row 9.
#[tokio::test]
async fn identity_that_no_operator_pinned_is_not_trusted() {
    let mut victims = Victims::open().await;
    let case = victims.key_creation(1);
    victims.admit_all(&case).await;
    let sent = victims.start_all(&case, 1, &CeremonyStart::default()).await;
    // The attacker takes part as participant 2, with an identity of its own.
    let ceremony_id = sent[0].header().ceremony;
    let params = keygen::Params {
        profile: SUITE.parse().unwrap(),
        me: 2,
        roster: [0, 1, 2].into(),
        threshold: 2,
        ceremony_id,
    };
    let (_session, first) = keygen::start(params, &mut OsRng).unwrap();
    let pinned = victims.nodes[..2].iter().map(|node| node.identity().clone());
    let all = Identities::new(pinned.chain([unpinned(2).identity().clone()])).unwrap();
    let header = Header { ceremony: ceremony_id, from: 2, to: None, round: 1 };
    let forged = relay::seal(&unpinned(2), &all, header, &first[0].body).unwrap();
    let answer = victims.deliver(0, &case, 1, vec![forged]).await;
    assert_refused("a message", answer, "relay_misbehaviour", "");
    let staged = victims.run_ceremony(&case, 2, &CeremonyStart::default()).await;
    let promotion = victims.promotion(&case, 2, staged.clone());
    let kind = ReceiptKind::Staged { attempt: 2, epoch_root: promotion.epoch_root };
    let forged = CommitEpoch { staged: receipts_by(&case, &staged, &kind), ..promotion };
    let answer = victims.promote(0, &case, &forged).await;
    assert_refused("a receipt", answer, "receipt_refused", "participant 2");
    victims.promote_and_publish(&case, 2, &staged).await;
}

fn flip(text: &mut Value) {
    let Value::String(digits) = text else { panic!("{text}") };
    let flipped = if digits.starts_with('0') { "1" } else { "0" };
    digits.replace_range(..1, flipped);
}

fn changed(envelope: &Envelope, change: impl FnOnce(&mut Value)) -> Envelope {
    let mut value = serde_json::to_value(envelope).unwrap();
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

/// Row 10.
#[tokio::test]
async fn relayed_messages_count_only_unaltered_in_their_ceremony_for_their_recipient() {
    let mut victims = Victims::open().await;
    let case = victims.key_creation(1);
    victims.admit_all(&case).await;
    let start = CeremonyStart::default();
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 6] = [
        ("body", |it| flip(&mut it["body"])),
        ("signature", |it| flip(&mut it["signature"])),
        ("a round that the ceremony does not have", |it| it["header"]["round"] = 9.into()),
        ("sender", |it| it["header"]["from"] = 2.into()),
        ("round", |it| it["header"]["round"] = 2.into()),
        ("ceremony", |it| it["header"]["ceremony"] = "11".repeat(32).into()),
    ];
    let mut earlier = vec![];
    for (attempt, (what, change)) in (1..).zip(changes) {
        let sent = victims.start_all(&case, attempt, &start).await;
        if !earlier.is_empty() {
            let answer = victims.deliver(1, &case, attempt, mail(&earlier, 1)).await;
            assert_refused("messages of an earlier attempt", answer, "relay_misbehaviour", "");
        }
        let altered = changed(sent.iter().find(|it| it.header().from == 1).unwrap(), change);
        let answer = victims.deliver(0, &case, attempt, vec![altered]).await;
        let Err(answer) = answer else { panic!("{what}: {answer:?}") };
        assert_eq!(answer.error, "relay_misbehaviour", "{what}: {answer:?}");
        assert!(answer.culprits.as_array().is_none_or(Vec::is_empty), "no participant is blamed: {answer:?}");
        // The ceremony is over at the node.
        let answer = victims.deliver(0, &case, attempt, mail(&sent, 0)).await;
        assert_refused(what, answer, "attempt_lost", "");
        earlier = sent;
    }
    // A private message that is delivered to another node.
    let sent = victims.start_all(&case, 9, &start).await;
    let mut points = vec![];
    for participant in 0..3 {
        let answer = victims.deliver(participant, &case, 9, mail(&sent, participant)).await.unwrap();
        points.extend(messages(&answer));
    }
    let for_1 = points.iter().find(|it| it.header().from == 2 && it.header().to == Some(1)).unwrap();
    let answer = victims.deliver(0, &case, 9, vec![for_1.clone()]).await;
    assert_refused("a message to another node", answer, "relay_misbehaviour", "");
    // Without the echoes of all, no node has a share.
    for participant in 1..3 {
        let mut answer = victims.deliver(participant, &case, 9, mail(&points, participant)).await.unwrap();
        let echoes = messages(&answer);
        assert!(!echoes.is_empty() || answer["type"] == "messages", "{answer}");
        answer = victims.deliver(participant, &case, 9, vec![]).await.unwrap();
        assert_eq!(answer["type"], "messages", "{answer}");
    }
    let staged = victims.run_ceremony(&case, 10, &start).await;
    victims.promote_and_publish(&case, 10, &staged).await;
    victims.assert_still_sign(2).await;
}

/// Lists of receipts that do not prove that each of the three nodes made this step.
fn insufficient(
    victims: &Victims,
    case: &Case,
    valid: &[NodeReceipt],
    wrong: &ReceiptKind,
) -> Vec<Vec<NodeReceipt>> {
    let false_ones = |case: &Case| {
        let sign = |participant: u16| {
            let statement = case.chain(participant).statement(wrong).unwrap();
            victims.nodes[usize::from(participant)].sign_anything(&statement, 0)
        };
        (0..3).map(sign).collect::<Vec<_>>()
    };
    let mut repeated = valid.to_vec();
    repeated[2] = valid[1].clone();
    let mut renamed = valid.to_vec();
    renamed[2] = NodeReceipt { participant: ParticipantIndex(2), ..valid[1].clone() };
    let mut moved = valid.to_vec();
    moved[2].log_index += 1;
    let other = victims.key_creation(77);
    vec![vec![], valid[..2].to_vec(), repeated, renamed, moved, false_ones(case), false_ones(&other)]
}

/// Row 14: at a key creation, where the promotion makes the first share active, and at a refresh, where it retires the old one.
#[tokio::test]
async fn promotion_needs_staged_receipts_of_all_receivers_for_its_root() {
    let mut victims = Victims::open().await;
    let creation = victims.key_creation(100);
    let staged = victims.make_shares(&creation, 1, &CeremonyStart::default()).await;
    assert_only_complete(&victims, &creation, &staged).await;
    let promoted = promote_others(&victims, &creation, &staged).await;
    for participant in 0..3 {
        let publication = victims.publication(&creation, 1, promoted.clone());
        victims.publish(participant, &creation, &publication).await.unwrap();
    }
    victims.assert_still_sign(2).await;
    let (refresh, start) = victims.refresh(3);
    let before = victims.payment(4);
    let staged = victims.make_shares(&refresh, 1, &start).await;
    for participant in 0..2 {
        // The old share still signs: nothing was retired.
        victims.admit(participant, &before).await.unwrap();
        victims.receipt(participant, &before).await.unwrap();
    }
    assert_only_complete(&victims, &refresh, &staged).await;
    promote_others(&victims, &refresh, &staged).await;
}

/// Checks that node 0 promotes only with all receipts. Afterwards it has.
async fn assert_only_complete(victims: &Victims, case: &Case, staged: &[NodeReceipt]) {
    let valid = victims.promotion(case, 1, staged.to_vec());
    let wrong = ReceiptKind::Staged { attempt: 1, epoch_root: hex32(1) };
    for staged in insufficient(victims, case, staged, &wrong) {
        let forged = CommitEpoch { staged, ..valid.clone() };
        assert_refused("receipts", victims.promote(0, case, &forged).await, "receipt_refused", "");
    }
    let other = CommitEpoch { epoch_root: hex32(1), ..valid.clone() };
    assert_refused("another root", victims.promote(0, case, &other).await, "epoch_conflict", "");
    victims.promote(0, case, &valid).await.unwrap();
}

/// A key of the attacker that participants 0 and 1 hold, to whose shares node 2 is to be made a joiner.
async fn attackers_key() -> PublicKeys {
    let attackers = Victims::with_key().await;
    let (mut bytes, point) = (attackers.keys().to_bytes(), attackers.keys().verifying_key().len());
    let share = 2 + point;
    let third = 6 + point + 2 * share;
    bytes.drain(third..third + share);
    bytes[5] = 2;
    PublicKeys::from_bytes(&bytes).unwrap()
}

/// Row 24. Gateway and authority lie together about the old key: the decision names the root of the attacker's. A node without a share
/// knows the old key only from them, and from what the approvers signed.
#[tokio::test]
async fn joiner_refuses_a_key_that_approvers_did_not_sign() {
    let victims = Victims::open().await;
    let keys = attackers_key().await;
    let start = CeremonyStart {
        dealers: [0, 1].map(ParticipantIndex).into(),
        package: keys.to_bytes(),
        discarded: vec![],
    };
    let named = |public_key: &[u8]| Some(format!("{SUITE}:{}", hex::encode(public_key)));
    let cases = [
        (named(&[17; 32]), Some("names another public key")),
        (None, Some("does not name the key's public key")),
        (named(&keys.public_key()), None),
    ];
    for (id, (named, refusal)) in (1..).zip(cases) {
        let case = victims.joining(id, &keys, named);
        victims.admit(2, &case).await.unwrap();
        victims.receipt(2, &case).await.unwrap();
        let answer = victims.start(2, &case, 1, &start).await;
        match refusal {
            Some(part) => {
                assert!(answer.as_ref().is_err_and(|refused| refused.message.contains(part)), "{answer:?}")
            }
            None => _ = answer.unwrap(),
        }
    }
}

async fn promote_others(victims: &Victims, case: &Case, staged: &[NodeReceipt]) -> Vec<NodeReceipt> {
    let commit = victims.promotion(case, 1, staged.to_vec());
    let mut promoted = vec![];
    for participant in 0..3 {
        promoted.push(receipt_of(&victims.promote(participant, case, &commit).await.unwrap()));
    }
    promoted
}

/// Row 17. All three have staged their shares, so that any of them may be promoted.
#[tokio::test]
async fn staged_share_of_a_key_in_use_is_not_discarded_on_request() {
    let mut victims = Victims::with_key().await;
    let (refresh, start) = victims.refresh(3);
    let staged = victims.make_shares(&refresh, 1, &start).await;
    for receipts in [vec![], staged] {
        let answer = victims.discard(0, &refresh, &receipts).await;
        assert_refused("a discard", answer, "attempt_not_discarded", "completed attempt 1");
    }
    for participant in 1..3 {
        let answer = victims.discard_attempt(participant, &refresh, 1).await.map(|receipt| json!(receipt));
        assert_refused("the attempt", answer, "step_out_of_order", "completed the attempt");
    }
}

/// Row 23. A helper that sends another contribution than it stated is in `runtime-node selftest`.
#[tokio::test]
async fn recovery_is_executed_with_the_admitted_contributions_of_its_helpers_only() {
    let mut victims = Victims::with_key().await;
    let (plain, _) = victims.recovery(3, &[], None);
    let Intent::Recover(recover) = &plain.intent else { panic!("{:?}", plain.intent) };
    let case = RecoveryCase::new(plain.decision.key_id, plain.decision.epoch_root, recover);
    let mut cids = vec![];
    for helper in [0, 1] {
        let stated = victims.contribution(helper, &case).await.unwrap();
        assert_eq!(stated, victims.contribution(helper, &case).await.unwrap());
        let admission: HelperAdmission = serde_json::from_value(stated).unwrap();
        let node = victims.nodes[usize::from(helper)].identity();
        assert!(admission.participant.0 == helper && admission.is_signed(&case, &node.signing_key()));
        cids.push(admission.cid.to_string());
    }
    let by_helper: Vec<_> = cids.iter().map(|cid| *cid.parse::<Hex32>().unwrap().as_bytes()).collect();
    let root = Hex32::new(public_case(&case, victims.keys().clone()).unwrap().root(&by_helper)).to_string();
    let other = "ab".repeat(32);
    let fixed = [
        (vec![other.clone(), cids[1].clone()], None),
        (vec![cids[1].clone(), cids[0].clone()], None),
        (vec![cids[0].clone()], None),
        (cids.clone(), Some(other)),
    ];
    for (id, (cids, root)) in (10..).zip(fixed) {
        let (case, start) = victims.recovery(id, &cids, root);
        victims.admit_all(&case).await;
        let answer = victims.start(0, &case, 1, &start).await;
        assert_refused("other contributions", answer, "package_refused", "not the admitted ones");
    }
    let (refused, start) = victims.recovery(20, &[], Some("ab".repeat(32)));
    victims.admit_all(&refused).await;
    let sent = victims.start_all(&refused, 1, &start).await;
    for participant in 0..3 {
        let answer = victims.deliver(participant, &refused, 1, mail(&sent, participant)).await;
        assert_refused("another root", answer, "package_refused", "not the admitted ones");
    }
    let (recovery, start) = victims.recovery(30, &cids, Some(root));
    let staged = victims.make_shares(&recovery, 1, &start).await;
    victims.promote_and_publish(&recovery, 1, &staged).await;
    let answer = victims.contribution(0, &case).await;
    assert_refused("a case of a former epoch", answer, "epoch_conflict", "in this epoch");
}

#[tokio::test]
async fn contribution_is_stated_by_the_helpers_of_a_case_only() {
    let victims = Victims::with_key().await;
    let (plain, _) = victims.recovery(3, &[], None);
    let Intent::Recover(recover) = &plain.intent else { panic!("{:?}", plain.intent) };
    let valid = RecoveryCase::new(plain.decision.key_id, plain.decision.epoch_root, recover);
    let refused = [
        (2, valid.clone(), "package_refused", "participant 2 is not in the roster"),
        (0, RecoveryCase { helper_participants: roster(&[0, 9]), ..valid.clone() }, "package_refused", ""),
        (
            0,
            RecoveryCase { recovering_participant: ParticipantIndex(1), ..valid.clone() },
            "package_refused",
            "",
        ),
        (0, RecoveryCase { epoch_root: hex32(1), ..valid.clone() }, "epoch_conflict", ""),
        (0, RecoveryCase { key_id: KeyId(hex32(1)), ..valid }, "epoch_conflict", ""),
    ];
    for (participant, case, error, part) in refused {
        assert_refused("a case", victims.contribution(participant, &case).await, error, part);
    }
}

/// Row 15. With the receipts of so many receivers that the key signs a publication is recorded, but erases nothing.
#[tokio::test]
async fn erasure_needs_promoted_receipts_of_all_receivers() {
    let mut victims = Victims::with_key().await;
    let (refresh, start) = victims.refresh(3);
    let staged = victims.make_shares(&refresh, 1, &start).await;
    let promoted = promote_others(&victims, &refresh, &staged).await;
    let valid = victims.publication(&refresh, 1, promoted.clone());
    // The receipts for the promotion prove that the shares were staged, not that they were promoted.
    let commit = victims.promotion(&refresh, 1, staged);
    let wrong = ReceiptKind::Staged { attempt: 1, epoch_root: commit.epoch_root };
    let [none, two, repeated, renamed, moved, false_ones, of_another] =
        insufficient(&victims, &refresh, &promoted, &wrong).try_into().unwrap();
    for promoted in [none, false_ones, of_another, vec![promoted[1].clone(); 3]] {
        let forged = Publication { promoted, ..valid.clone() };
        assert_refused("receipts", victims.publish(0, &refresh, &forged).await, "receipt_refused", "");
    }
    for (participant, promoted) in (0..3).zip([two, repeated, moved]) {
        let partial = Publication { promoted, ..valid.clone() };
        victims.publish(participant, &refresh, &partial).await.unwrap();
        assert_eq!(victims.n_retired(participant).await, 1, "node {participant} erased its old share");
    }
    let partial = Publication { promoted: renamed, ..valid };
    assert_refused("receipts", victims.publish(0, &refresh, &partial).await, "effect_conflict", "");
}
