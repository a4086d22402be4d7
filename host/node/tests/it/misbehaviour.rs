//! A participant that misbehaves in a change of a key is named, the attempt leaves nothing behind, and the key still signs.

use crate::support::{Group, code};
use gateway_domain::intent::Intent;
use gateway_domain::operation::EffectStep;
use gateway_domain::roster::ParticipantIndex;
use gateway_node::testing::{SUITES, asset_action, recover, refresh};
use gateway_node::{CeremonyStart, Code, Envelope};
use gateway_seal::relay::verify_complaint;

fn start(group: &Group, dealers: &[u16]) -> CeremonyStart {
    CeremonyStart {
        dealers: dealers.iter().copied().map(ParticipantIndex).collect(),
        package: group.keys().to_bytes(),
        discarded: vec![],
    }
}

/// Forges one message of a participant. Checks that the participant is named, that the key still signs, and that the next attempt
/// succeeds.
async fn check_forged_message(suite: &str, intent: Intent, dealers: &[u16], culprit: u16, is_private: bool) {
    let group = Group::with_key(3, 2, suite).await;
    let case = group.key_change(intent, "2", &[0, 1, 2], 2);
    group.admit(&case).await;
    let start = start(&group, dealers);
    let mut sent = group.start_with(&case, 1, &start).await;
    let forged = sent
        .iter()
        .position(|envelope| {
            envelope.header().from == culprit && envelope.header().to.is_some() == is_private
        })
        .unwrap();
    // Flips the lowest bit of a scalar or of a point's coordinate, which often still decodes.
    sent[forged] = group
        .forge(&sent[forged], |body| {
            let last = body.len() - 1;
            body[last] ^= 1;
        })
        .await;
    let rejection = group.relay(&case, 1, sent.clone()).await.unwrap_err();
    assert_eq!(rejection.code, Code::CeremonyMisbehaviour, "{rejection}");
    assert_eq!(rejection.culprits, [ParticipantIndex(culprit)], "{rejection}");
    if is_private {
        let accused = group.nodes[usize::from(culprit)].identity();
        let (header, _) = verify_complaint(accused, rejection.complaint.as_ref().unwrap()).unwrap();
        assert_eq!(header, *sent[forged].header());
    }
    let signing = group.case(2, asset_action(&[0, 1, 2], 7));
    group.admit(&signing).await;
    group.sign(&signing, 1).await;
    let sent = group.start_with(&case, 2, &start).await;
    group.relay(&case, 2, sent).await.unwrap();
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

/// A broadcast that is wrong by itself proves the fault: the value that came with it is not revealed.
#[tokio::test]
async fn value_is_not_revealed_when_the_broadcast_is_proof() {
    for suite in SUITES {
        let group = Group::with_key(3, 2, suite).await;
        let case = group.key_change(refresh("2"), "2", &[0, 1, 2], 2);
        group.admit(&case).await;
        let mut sent = group.start_with(&case, 1, &start(&group, &[0, 1])).await;
        // The values arrive before the broadcasts.
        sent.sort_by_key(|envelope| envelope.header().to.is_none());
        let is_broadcast = |it: &Envelope| it.header().from == 1 && it.header().to.is_none();
        let forged = sent.iter().position(is_broadcast).unwrap();
        // In the first commitment, which is the dealer's share times the generator.
        sent[forged] = group.forge(&sent[forged], |body| body[40] ^= 1).await;
        let rejection = group.relay(&case, 1, sent).await.unwrap_err();
        assert_eq!(rejection.culprits, [ParticipantIndex(1)], "{rejection}");
        assert_eq!(rejection.complaint, None, "{rejection}");
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
    let case = group.key_change(refresh("2"), "2", &[0, 1, 2], 2);
    group.admit(&case).await;
    let refused = async |start: &CeremonyStart| {
        let call = case.call(0, EffectStep::Execute, 1, 1);
        code(group.nodes[0].ceremony_start(&call, start).await)
    };
    let valid = start(&group, &[0, 1]);
    let wrong_package = CeremonyStart { package: other.keys().to_bytes(), ..valid.clone() };
    assert_eq!(refused(&wrong_package).await, Code::PackageRefused, "another key's public keys");
    for dealers in [&[0][..], &[0, 3], &[]] {
        assert_eq!(refused(&start(&group, dealers)).await, Code::PackageRefused, "{dealers:?}");
    }
    // The refusals did not use up the attempt.
    let sent = group.start_with(&case, 1, &valid).await;
    group.relay(&case, 1, sent).await.unwrap();
}
