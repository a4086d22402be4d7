//! Repair with a dishonest helper.

use gateway_threshold::repair::{self, Admitted, Case, Params};
use gateway_threshold::{Message, PublicKeys, SignatureProfile, ThresholdError};

use crate::harness::{BINDING, ED, InFlight, Key, Network, TR, copy, flip, rebind, repair_params, rng, set};

const TARGET: u16 = 3;
const HELPERS: [u16; 3] = [0, 1, 2];

fn key(profile: SignatureProfile) -> Key {
    Key::generate(profile, &[0, 1, 2, 3], 2, 1)
}

/// The error of `victim` when `tamper` changes the messages that helper 0 sends to it.
fn failure(
    profile: SignatureProfile,
    victim: u16,
    round: u8,
    tamper: impl Fn(&mut Message),
) -> ThresholdError {
    Network::repair(&key(profile), TARGET, &HELPERS, 1).failure_of(victim, 0, round, tamper)
}

#[test]
fn wrong_piece_or_sum_names_its_sender() {
    for profile in SignatureProfile::ALL {
        for (victim, round) in [(1, 2), (2, 2), (TARGET, 4)] {
            let error = failure(profile, victim, round, |message| flip(profile, message));
            assert_eq!(error, ThresholdError::InvalidSecretShare { from: 0 });
            assert_eq!(error.culprits(), [0]);
        }
    }
}

#[test]
fn undecodable_values_name_their_sender() {
    for profile in SignatureProfile::ALL {
        for (victim, round) in [(1, 1), (TARGET, 1), (1, 2), (TARGET, 4)] {
            let error = failure(profile, victim, round, |message| message.body[BINDING..].fill(0xff));
            assert_eq!(error, ThresholdError::MalformedMessage { from: 0, round });
            assert_eq!(error.culprits(), [0]);
        }
    }
}

#[test]
fn noncanonical_encoding_of_a_commitment_is_rejected() {
    let error = failure(TR, TARGET, 1, |message| {
        message.body[BINDING] = 0x05;
    });
    assert_eq!(error, ThresholdError::MalformedMessage { from: 0, round: 1 });
}

/// Helper 0 splits another secret than its share of the current epoch, with matching commitments.
#[test]
fn helper_with_an_old_or_foreign_share_is_named_by_all() {
    for profile in SignatureProfile::ALL {
        let old = key(profile);
        let current = old.redistribute(&[0, 1], &[0, 1, 2, 3], 2, 2);
        for split in [old, Key::generate(profile, &[0, 1, 2, 3], 2, 3)] {
            let mut network = Network::repair(&current, TARGET, &HELPERS, 1);
            let binding = network.in_flight[0].message.body[..BINDING].to_vec();
            network.in_flight.retain(|flight| flight.message.from != 0);
            let params = repair_params(&split, 0, TARGET, &HELPERS);
            let (_, messages) = repair::start(params, split.shares.get(&0), &mut rng(5)).unwrap();
            network.post(rebind(messages, &binding, &split.shares[&0]));
            network.run(|_| true);
            for honest in 1..4 {
                let error = &network.failures[&honest];
                assert_eq!(*error, ThresholdError::CommitmentMismatch { from: 0 });
                assert_eq!(error.culprits(), [0]);
            }
            assert!(network.outputs.is_empty());
        }
    }
}

/// What a helper sends in another case with the same members.
fn of_another_case(key: &Key, helper: u16) -> Vec<Message> {
    let mut params = repair_params(key, helper, TARGET, &HELPERS);
    params.case.reference = [9; 32];
    repair::start(params, key.shares.get(&helper), &mut rng(5)).unwrap().1
}

/// Helper 0 sends the target other commitments than the helpers, both to pieces of its share. The sessions report the differing
/// transcripts, and do not name an honest helper for its sum.
#[test]
fn equivocation_is_detected_before_any_helper_is_named() {
    for profile in SignatureProfile::ALL {
        let key = key(profile);
        let mut network = Network::repair(&key, TARGET, &HELPERS, 1);
        network.in_flight.retain(|flight| flight.message.from != 0 || flight.recipient != TARGET);
        let binding = network.in_flight[0].message.body[..BINDING].to_vec();
        let other_dealing = rebind(of_another_case(&key, 0), &binding, &key.shares[&0]);
        let message = other_dealing.into_iter().find(|message| message.round == 1).unwrap();
        network.in_flight.push(InFlight { recipient: TARGET, message });
        network.run_echoes_last();
        assert!(network.outputs.is_empty());
        let differs =
            |participants: &[u16]| ThresholdError::TranscriptMismatch { participants: participants.into() };
        assert_eq!(network.failures[&TARGET], differs(&HELPERS));
        for helper in HELPERS {
            assert_eq!(network.failures[&helper], differs(&[TARGET]));
        }
    }
}

#[test]
fn message_of_another_ceremony_is_rejected_and_its_sender_named() {
    for profile in SignatureProfile::ALL {
        let old = key(profile);
        let current = old.redistribute(&[0, 1], &[0, 1, 2, 3], 2, 2);
        let ours = repair_params(&current, 1, 3, &[0, 1, 2]);
        let theirs = Params { me: 0, ..ours.clone() };
        for other in [
            Params { ceremony_id: [8; 32], ..theirs.clone() },
            Params { case: Case { keys: old.keys.clone(), ..theirs.case.clone() }, ..theirs.clone() },
            Params {
                case: Case { target: 2, helpers: set(&[0, 1, 3]), ..theirs.case.clone() },
                ..theirs.clone()
            },
            Params { case: Case { reference: [8; 32], ..theirs.case.clone() }, ..theirs.clone() },
            Params { admitted: Admitted { root: Some([8; 32]), ..Admitted::default() }, ..theirs.clone() },
        ] {
            let share = if other.case.keys == current.keys { &current.shares[&0] } else { &old.shares[&0] };
            let (_, mut messages) = repair::start(other, Some(share), &mut rng(5)).unwrap();
            let (mut session, _) = repair::start(ours.clone(), current.shares.get(&1), &mut rng(5)).unwrap();
            let error = session.handle(messages.remove(0)).unwrap_err();
            assert_eq!(error, ThresholdError::OtherCeremony { from: 0, round: 1 });
            assert_eq!(error.culprits(), [0]);
        }
        let fewer = Params { case: Case { helpers: set(&[0, 1]), ..theirs.case.clone() }, ..theirs };
        let (_, mut messages) = repair::start(fewer, current.shares.get(&0), &mut rng(5)).unwrap();
        let (mut session, _) = repair::start(ours, current.shares.get(&1), &mut rng(5)).unwrap();
        let error = session.handle(messages.remove(0)).unwrap_err();
        assert!(matches!(error, ThresholdError::WrongLength { from: 0, round: 1, .. }));
    }
}

/// Only helpers send round 1, and sums are for the target alone.
#[test]
fn message_from_a_participant_with_none_to_send_is_rejected() {
    let mut network = Network::repair(&key(ED), TARGET, &HELPERS, 1);
    let of = |round| network.in_flight.iter().find(|flight| flight.message.round == round).unwrap();
    let (mut commitments, mut delta) = (copy(&of(1).message), copy(&of(2).message));
    commitments.from = TARGET;
    let error = network.sessions.get_mut(&1).unwrap().handle(commitments).unwrap_err();
    assert_eq!(error, ThresholdError::UnknownRound { from: TARGET, round: 1 });
    (delta.from, delta.to) = (0, Some(TARGET));
    let error = network.sessions.get_mut(&TARGET).unwrap().handle(copy(&delta)).unwrap_err();
    assert_eq!(error, ThresholdError::UnknownRound { from: 0, round: 2 });
    (delta.round, delta.to) = (4, Some(1));
    let error = network.sessions.get_mut(&1).unwrap().handle(delta).unwrap_err();
    assert_eq!(error, ThresholdError::UnknownRound { from: 0, round: 4 });
    network.run(|_| true);
    network.key();
}

/// Public keys with another verifying share for the target: the sums verify, but the share does not belong to them.
#[test]
fn inconsistent_public_keys_are_detected() {
    for profile in SignatureProfile::ALL {
        let mut key = key(profile);
        let point = key.keys.verifying_key().len();
        let mut keys = key.keys.to_bytes();
        let at = |participant: usize| 6 + point + participant * (2 + point) + 2;
        keys.copy_within(at(0)..at(0) + point, at(3));
        key.keys = PublicKeys::from_bytes(&keys).unwrap();
        let mut network = Network::repair(&key, TARGET, &HELPERS, 1);
        network.run(|_| true);
        assert!(!network.outputs.contains_key(&TARGET));
        let error = ThresholdError::ShareMismatch { participant: TARGET };
        assert_eq!(network.failures[&TARGET], error);
    }
}
