//! Key generation with a dishonest participant or relay.

use gateway_threshold::keygen;
use gateway_threshold::{Message, Progress, SignatureProfile, ThresholdError};

use crate::harness::{BINDING, ED, InFlight, Network, PROOF, TR, copy, flip, params, rng};

/// The error of participant 0 when `tamper` changes the messages that participant 1 sends to it.
fn failure(profile: SignatureProfile, round: u8, tamper: impl Fn(&mut Message)) -> ThresholdError {
    Network::start(profile, &[0, 1, 2], 2, 1).failure_of(0, 1, round, tamper)
}

#[test]
fn wrong_sub_share_names_its_sender() {
    for profile in SignatureProfile::ALL {
        let error = failure(profile, 2, |message| flip(profile, message));
        assert_eq!(error, ThresholdError::InvalidSecretShare { from: 1 });
        assert_eq!(error.culprits(), [1]);
    }
}

#[test]
fn wrong_proof_of_knowledge_names_its_sender() {
    for profile in SignatureProfile::ALL {
        // Ours is the last, after the one that frost-core verifies.
        for from_end in [PROOF, 2 * PROOF] {
            let error = failure(profile, 1, |message| {
                let low = message.body.len() - from_end + if profile == ED { 32 } else { 63 };
                message.body[low] ^= 1;
            });
            assert_eq!(error, ThresholdError::InvalidProofOfKnowledge { from: 1 });
            assert_eq!(error.culprits(), [1]);
        }
    }
}

/// A copied proof does not verify for another participant: the challenge covers the identifier.
#[test]
fn copied_commitment_is_rejected() {
    for profile in SignatureProfile::ALL {
        let network = Network::start(profile, &[0, 1, 2], 2, 1);
        let of = |from| network.in_flight.iter().find(|flight| flight.message.from == from).unwrap();
        let stolen = of(2).message.body.clone();
        let error = failure(profile, 1, |message| {
            message.body = stolen.clone();
        });
        assert_eq!(error, ThresholdError::InvalidProofOfKnowledge { from: 1 });
    }
}

#[test]
fn undecodable_values_name_their_sender() {
    for profile in SignatureProfile::ALL {
        for round in [1, 2] {
            let error = failure(profile, round, |message| message.body[BINDING..].fill(0xff));
            assert_eq!(error, ThresholdError::MalformedMessage { from: 1, round });
            assert_eq!(error.culprits(), [1]);
        }
    }
}

/// The curve crate also reads 33-byte SEC 1 "compact" points: a second encoding of the same key.
#[test]
fn noncanonical_encoding_of_a_commitment_is_rejected() {
    let error = failure(TR, 1, |message| {
        message.body[BINDING] = 0x05;
    });
    assert_eq!(error, ThresholdError::MalformedMessage { from: 1, round: 1 });
}

/// Participant 0 runs two sessions, and sends the messages of one to participant 1 and those of the other to participant 2.
/// Without the echo round both would finish, with different keys.
#[test]
fn equivocation_is_detected() {
    for profile in SignatureProfile::ALL {
        let roster = [0, 1, 2];
        let mut network = Network::start(profile, &roster, 2, 1);
        let (mut second_session, mut second_messages) =
            keygen::start(params(profile, 0, &roster, 2), &mut rng(99)).unwrap();
        while !network.in_flight.is_empty() || !second_messages.is_empty() {
            for message in second_messages.drain(..).filter(|message| message.to != Some(1)) {
                network.deliver(InFlight { recipient: 2, message });
            }
            if network.in_flight.is_empty() {
                continue;
            }
            // Delivered in the order sent, so that all echoes are sent before the first one is compared.
            let flight = network.in_flight.remove(0);
            if flight.recipient == 2 && flight.message.from == 0 {
                continue;
            }
            if flight.recipient == 0
                && let Ok(Progress::Send(messages)) = second_session.handle(copy(&flight.message))
            {
                second_messages.extend(messages);
            }
            network.deliver(flight);
        }
        assert!(!network.outputs.contains_key(&1) && !network.outputs.contains_key(&2));
        let seen_by_1 = &network.failures[&1];
        assert_eq!(*seen_by_1, ThresholdError::TranscriptMismatch { participants: vec![2] });
        assert_eq!(network.failures[&2], ThresholdError::TranscriptMismatch { participants: vec![1] });
        // The other participant's transcript differs, which does not make it a culprit.
        assert_eq!(seen_by_1.culprits(), Vec::<u16>::new());
    }
}

/// Also if only a parameter differs and the messages have the same length.
#[test]
fn message_of_another_ceremony_is_rejected_and_its_sender_named() {
    for profile in SignatureProfile::ALL {
        let ours = params(profile, 0, &[0, 1, 2], 2);
        let other_id = keygen::Params { ceremony_id: [8; 32], ..params(profile, 1, &[0, 1, 2], 2) };
        let other_roster = params(profile, 1, &[0, 1, 3], 2);
        let larger_roster = params(profile, 1, &[0, 1, 2, 3], 2);
        for other in [other_id, other_roster, larger_roster] {
            let (mut session, _) = keygen::start(ours.clone(), &mut rng(1)).unwrap();
            let (_, mut messages) = keygen::start(other, &mut rng(2)).unwrap();
            let error = session.handle(messages.remove(0)).unwrap_err();
            assert_eq!(error, ThresholdError::OtherCeremony { from: 1, round: 1 });
            assert_eq!(error.culprits(), [1]);
        }
        let (mut session, _) = keygen::start(ours.clone(), &mut rng(1)).unwrap();
        let (_, mut messages) = keygen::start(params(profile, 1, &[0, 1, 2], 3), &mut rng(2)).unwrap();
        let error = session.handle(messages.remove(0)).unwrap_err();
        assert!(matches!(error, ThresholdError::WrongLength { from: 1, round: 1, .. }));
    }
}

/// Round 3 has the same length under both profiles and any threshold; only the binding differs.
#[test]
fn binding_covers_profile_and_threshold() {
    let binding = |profile, threshold| {
        let (_, messages) = keygen::start(params(profile, 1, &[0, 1, 2], threshold), &mut rng(1)).unwrap();
        messages[0].body[..BINDING].to_vec()
    };
    assert_ne!(binding(ED, 2), binding(TR, 2));
    assert_ne!(binding(ED, 2), binding(ED, 3));
    assert_eq!(binding(ED, 2), binding(ED, 2));
}
