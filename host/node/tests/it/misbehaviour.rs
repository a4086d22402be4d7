//! A participant that lies in a change of a key is named, nothing of the attempt is kept, and the key signs on.

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

/// The first word of every participant.
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

/// Turns until everybody is done, or the first that refuses.
async fn go_on(
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

/// The lie is found and its teller named; the key signs as before; the next attempt, without a lie, succeeds.
async fn lie_is_named(suite: &str, intent: Intent, dealers: &[u16], liar: u16, is_private: bool) {
    let group = Group::with_key(3, 2, suite).await;
    let case = changing(&group, intent);
    group.admit(&case).await;
    let start = start(&group, dealers);
    let mut sent = begin(&group, &case, &start, 1).await;
    let lie = sent
        .iter()
        .position(|envelope| envelope.header().from == liar && envelope.header().to.is_some() == is_private)
        .unwrap();
    // The lowest bit of a scalar, and of a point's coordinate: still well formed as often as not.
    sent[lie] = group
        .lie(&sent[lie], |body| {
            let last = body.len() - 1;
            body[last] ^= 1;
        })
        .await;
    let rejection = go_on(&group, &case, 1, sent).await.unwrap_err();
    assert_eq!(rejection.code, Code::CeremonyMisbehaviour, "{rejection}");
    assert_eq!(rejection.culprits, [ParticipantIndex(liar)], "{rejection}");
    let signing = group.case(2, asset_action(&[0, 1, 2], 7));
    group.admit(&signing).await;
    group.sign(&signing, 1).await;
    let sent = begin(&group, &case, &start, 2).await;
    go_on(&group, &case, 2, sent).await.unwrap();
}

#[tokio::test]
async fn a_dealer_that_deals_a_wrong_point_is_named() {
    for suite in SUITES {
        lie_is_named(suite, refresh("2"), &[0, 1], 1, true).await;
    }
}

#[tokio::test]
async fn a_dealer_that_commits_to_something_else_is_named() {
    for suite in SUITES {
        lie_is_named(suite, refresh("2"), &[0, 1], 1, false).await;
    }
}

#[tokio::test]
async fn a_helper_that_helps_wrongly_is_named() {
    for suite in SUITES {
        lie_is_named(suite, recover("2", 2, &[0, 1]), &[], 1, true).await;
        lie_is_named(suite, recover("2", 2, &[0, 1]), &[], 1, false).await;
    }
}

#[tokio::test]
async fn dealers_and_public_keys_are_what_was_admitted() {
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
    // Nothing of that used the attempt up.
    let sent = begin(&group, &case, &sound, 1).await;
    go_on(&group, &case, 1, sent).await.unwrap();
}
