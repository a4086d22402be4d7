//! A participant that misbehaves in a change of a key is named, the attempt leaves nothing behind, and the key still signs.

use crate::support::{Group, KEY, code, mail};
use gateway_domain::admission::Target;
use gateway_domain::ids::EpochName;
use gateway_domain::intent::Intent;
use gateway_domain::operation::EffectStep;
use gateway_domain::roster::{ParticipantIndex, Threshold};
use gateway_node::testing::{Case, SUITES, asset_action, recover, refresh, roster};
use gateway_node::{CeremonyAnswer, CeremonyStart, Code, Envelope, NodeError, Rejection};

/// A change of the group's key that keeps roster and threshold.
fn changing(group: &Group, intent: Intent) -> Case {
    let (epoch, threshold) = (EpochName("2".into()), Threshold(2));
    let target = Target { key_id: KEY, epoch, participants: roster(&[0, 1, 2]), threshold };
    group.case(1, intent).changing(&roster(&[0, 1, 2]), target)
}

fn start(group: &Group, dealers: &[u16]) -> CeremonyStart {
    CeremonyStart {
        dealers: dealers.iter().copied().map(ParticipantIndex).collect(),
        package: group.keys().to_bytes(),
    }
}

/// Begins the attempt on every node. Returns their first messages.
async fn begin(group: &Group, case: &Case, start: &CeremonyStart, attempt: u32) -> Vec<Envelope> {
    let mut sent = vec![];
    for (node, participant) in group.nodes.iter().zip(0..) {
        let call = case.call(participant, EffectStep::Execute, attempt, attempt);
        match node.ceremony_start(&call, start).await.unwrap() {
            CeremonyAnswer::Send(mail) => sent.extend(mail),
            CeremonyAnswer::Staged { keys, .. } => panic!("{keys:?}"),
        }
    }
    sent
}

/// Relays messages until all nodes are done, or returns the first rejection.
async fn relay(
    group: &Group,
    case: &Case,
    attempt: u32,
    mut sent: Vec<Envelope>,
) -> Result<(), Box<Rejection>> {
    while !sent.is_empty() {
        let mut next = vec![];
        for (node, participant) in group.nodes.iter().zip(0..) {
            let call = case.call(participant, EffectStep::Execute, attempt, attempt);
            match node.ceremony_deliver(&call, &mail(&sent, participant)).await {
                Ok(CeremonyAnswer::Send(mail)) => next.extend(mail),
                Ok(CeremonyAnswer::Staged { .. }) => {}
                Err(NodeError::Rejected(rejection)) => return Err(Box::new(rejection)),
                Err(other) => panic!("{other:?}"),
            }
        }
        sent = next;
    }
    Ok(())
}

/// Forges one message of a participant: the participant is named, the key still signs, and the next attempt succeeds.
async fn check_forged_message(suite: &str, intent: Intent, dealers: &[u16], culprit: u16, is_private: bool) {
    let group = Group::with_key(3, 2, suite).await;
    let case = changing(&group, intent);
    group.admit(&case).await;
    let start = start(&group, dealers);
    let mut sent = begin(&group, &case, &start, 1).await;
    let forged = sent
        .iter()
        .position(|envelope| {
            envelope.header().from == culprit && envelope.header().to.is_some() == is_private
        })
        .unwrap();
    // The lowest bit of a scalar or of a point's coordinate: the result is often still well formed.
    sent[forged] = group
        .forge(&sent[forged], |body| {
            let last = body.len() - 1;
            body[last] ^= 1;
        })
        .await;
    let rejection = relay(&group, &case, 1, sent).await.unwrap_err();
    assert_eq!(rejection.code, Code::CeremonyMisbehaviour, "{rejection}");
    assert_eq!(rejection.culprits, [ParticipantIndex(culprit)], "{rejection}");
    let signing = group.case(2, asset_action(&[0, 1, 2], 7));
    group.admit(&signing).await;
    group.sign(&signing, 1).await;
    let sent = begin(&group, &case, &start, 2).await;
    relay(&group, &case, 2, sent).await.unwrap();
}

#[tokio::test]
async fn dealer_of_a_wrong_point_is_named() {
    for suite in SUITES {
        check_forged_message(suite, refresh("2"), &[0, 1], 1, true).await;
    }
}

#[tokio::test]
async fn dealer_with_a_wrong_commitment_is_named() {
    for suite in SUITES {
        check_forged_message(suite, refresh("2"), &[0, 1], 1, false).await;
    }
}

#[tokio::test]
async fn helper_with_a_wrong_contribution_is_named() {
    for suite in SUITES {
        check_forged_message(suite, recover("2", 2, &[0, 1]), &[], 1, true).await;
        check_forged_message(suite, recover("2", 2, &[0, 1]), &[], 1, false).await;
    }
}

#[tokio::test]
async fn wrong_dealers_or_public_keys_are_refused() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let other = Group::with_key(3, 2, SUITES[0]).await;
    let case = changing(&group, refresh("2"));
    group.admit(&case).await;
    let refused = async |start: &CeremonyStart| {
        let call = case.call(0, EffectStep::Execute, 1, 1);
        code(group.nodes[0].ceremony_start(&call, start).await)
    };
    let sound = start(&group, &[0, 1]);
    let foreign = CeremonyStart { package: other.keys().to_bytes(), ..sound.clone() };
    assert_eq!(refused(&foreign).await, Code::PackageRefused, "another key's public package");
    for dealers in [&[0][..], &[0, 3], &[]] {
        assert_eq!(refused(&start(&group, dealers)).await, Code::PackageRefused, "{dealers:?}");
    }
    // The refusals did not use up the attempt.
    let sent = begin(&group, &case, &sound, 1).await;
    relay(&group, &case, 1, sent).await.unwrap();
}
