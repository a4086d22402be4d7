//! Key generation among honest participants.

use gateway_threshold::keygen::{self, Params};
use gateway_threshold::{Progress, SignatureProfile, ThresholdError};
use proptest::prelude::*;

use crate::harness::{ED, Key, Network, TR, copy, params, random_roster, rng, subsets, verifies};

fn every_quorum_signs(profile: SignatureProfile, roster: &[u16], threshold: u16) {
    let key = Key::generate(profile, roster, threshold, 1);
    for signers in (usize::from(threshold)..=roster.len()).flat_map(|size| subsets(roster, size)) {
        let signature = key.sign(&signers, b"to be signed", None, 2);
        assert!(verifies(profile, &key.keys.public_key(), b"to be signed", &signature), "{signers:?}");
        assert!(!verifies(profile, &key.keys.public_key(), b"another", &signature));
    }
}

#[test]
fn every_quorum_of_2_of_3_signs() {
    SignatureProfile::ALL.into_iter().for_each(|profile| every_quorum_signs(profile, &[0, 1, 2], 2));
}

#[test]
fn every_quorum_of_3_of_5_signs() {
    SignatureProfile::ALL
        .into_iter()
        .for_each(|profile| every_quorum_signs(profile, &[0, 3, 4, 9, 65534], 3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Messages are delivered in a random order that the seed determines.
    #[test]
    fn any_roster_generates_a_key(size in 2_usize..=16, t in 0_usize..16, tr: bool, seed: u64) {
        let profile = if tr { TR } else { ED };
        let threshold = u16::try_from(2 + t % (size - 1)).unwrap();
        let roster = random_roster(size, seed);
        let key = Key::generate(profile, &roster, threshold, seed);
        let signers = &roster[size - usize::from(threshold)..];
        let signature = key.sign(signers, &seed.to_be_bytes(), None, seed);
        prop_assert!(verifies(profile, &key.keys.public_key(), &seed.to_be_bytes(), &signature));
        prop_assert_eq!(key.keys.verifying_shares().keys().copied().collect::<Vec<_>>(), roster);
    }
}

/// A late message can complete several rounds at once.
#[test]
fn early_messages_are_buffered() {
    for profile in SignatureProfile::ALL {
        let mut network = Network::start(profile, &[0, 1], 2, 5);
        let to_1 = network.in_flight.iter().position(|flight| flight.recipient == 1).unwrap();
        let to_1 = network.in_flight.remove(to_1);
        network.deliver(to_1);
        let round_2 = network.in_flight.pop().unwrap();
        let round_1 = network.in_flight.pop().unwrap();
        assert_eq!((round_1.message.round, round_2.message.round), (1, 2));
        let session = network.sessions.get_mut(&0).unwrap();
        assert!(matches!(session.handle(round_2.message).unwrap(), Progress::Wait));
        match session.handle(round_1.message).unwrap() {
            Progress::Send(messages) => {
                assert_eq!(messages.iter().map(|message| message.round).collect::<Vec<_>>(), [2, 3]);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A participant that waits for one round-1 message finishes when it arrives, and still sends its own later messages.
#[test]
fn session_completes_when_a_round_1_message_arrives_last() {
    let mut network = Network::start(TR, &[0, 1, 2], 2, 6);
    // A replica of 0, with the same secrets because its seed is the same, receives every message and sends rounds 2 and 3,
    // so that 1 and 2 finish while 0 waits.
    let (mut replica_of_0, _) = keygen::start(params(TR, 0, &[0, 1, 2], 2), &mut rng(6)).unwrap();
    let mut late = None;
    while let Some(flight) = network.in_flight.pop() {
        if flight.recipient != 0 {
            network.deliver(flight);
            continue;
        }
        match replica_of_0.handle(copy(&flight.message)).unwrap() {
            Progress::Wait => {}
            Progress::Send(messages) => network.post(messages),
            Progress::Done { send, .. } => network.post(send),
        }
        if (flight.message.from, flight.message.round) == (1, 1) {
            late = Some(flight.message);
        } else {
            let early = network.sessions.get_mut(&0).unwrap().handle(flight.message).unwrap();
            assert!(matches!(early, Progress::Wait));
        }
    }
    match network.sessions.get_mut(&0).unwrap().handle(late.unwrap()).unwrap() {
        Progress::Done { send, output } => {
            let rounds: Vec<_> = send.iter().map(|message| (message.round, message.to)).collect();
            assert_eq!(rounds, [(2, Some(1)), (2, Some(2)), (3, None)]);
            assert_eq!(output.keys, network.outputs[&1].keys);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn invalid_parameters_are_rejected() {
    let start = |params: Params| keygen::start(params, &mut rng(0)).map(drop).unwrap_err();
    for threshold in [0, 1, 4, u16::MAX] {
        let refused = start(params(ED, 0, &[0, 1, 2], threshold));
        assert_eq!(refused, ThresholdError::Threshold { threshold, participants: 3 });
    }
    assert_eq!(start(params(ED, 0, &[0], 2)), ThresholdError::Threshold { threshold: 2, participants: 1 });
    assert_eq!(start(params(ED, 3, &[0, 1, 2], 2)), ThresholdError::NotInRoster { participant: 3 });
    let too_many: Vec<u16> = (0..65).collect();
    assert_eq!(start(params(ED, 0, &too_many, 2)), ThresholdError::TooManyParticipants { participants: 65 });
    let index_without_frost_identifier = start(params(TR, u16::MAX, &[0, 1, u16::MAX], 2));
    assert_eq!(index_without_frost_identifier, ThresholdError::NotInRoster { participant: u16::MAX });
}

#[test]
fn keys_of_two_ceremonies_differ() {
    for profile in SignatureProfile::ALL {
        let one = Key::generate(profile, &[0, 1, 2], 2, 1).keys;
        let two = Key::generate(profile, &[0, 1, 2], 2, 2).keys;
        assert_ne!(one.public_key(), two.public_key());
        assert_ne!(one.chain_code(), two.chain_code());
    }
}
