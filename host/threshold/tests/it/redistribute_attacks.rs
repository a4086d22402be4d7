//! Redistribution with a dishonest participant.

use gateway_threshold::redistribute::{self, Params};
use gateway_threshold::{KeyShare, Message, Progress, PublicKeys, SignatureProfile, ThresholdError};

use crate::harness::{
    BINDING, ED, InFlight, Key, Network, TR, copy, flip, rebind, redistribute_params, rng, secret, set,
};

/// 2 of 3 to 3 of 4: 0 deals and leaves, 1 deals and stays, 2 stays, 3 and 4 join.
fn params(key: &Key, me: u16) -> Params {
    redistribute_params(key, me, &[0, 1], &[1, 2, 3, 4], 3)
}

fn network(profile: SignatureProfile) -> Network {
    let key = Key::generate(profile, &[0, 1, 2], 2, 1);
    Network::redistribute(&key, &params(&key, 0), 1)
}

/// The error of `victim` when `tamper` changes the messages that `liar` sends to it.
fn failure(
    profile: SignatureProfile,
    liar: u16,
    victim: u16,
    round: u8,
    tamper: impl Fn(&mut Message),
) -> ThresholdError {
    network(profile).failure_of(victim, liar, round, tamper)
}

#[test]
fn wrong_sub_share_names_its_dealer() {
    for profile in SignatureProfile::ALL {
        for (liar, victim) in [(0, 1), (0, 3), (1, 2), (1, 4)] {
            let error = failure(profile, liar, victim, 2, |message| flip(profile, message));
            assert_eq!(error, ThresholdError::InvalidSecretShare { from: liar });
            assert_eq!(error.culprits(), [liar]);
        }
    }
}

#[test]
fn undecodable_values_name_their_dealer() {
    for profile in SignatureProfile::ALL {
        for (liar, victim, round) in [(0, 1, 1), (1, 0, 1), (1, 3, 1), (0, 1, 2), (1, 3, 2)] {
            let error = failure(profile, liar, victim, round, |message| message.body[BINDING..].fill(0xff));
            assert_eq!(error, ThresholdError::MalformedMessage { from: liar, round });
            assert_eq!(error.culprits(), [liar]);
        }
    }
}

/// The identity as the last commitment would lower the degree of the polynomial, and so the threshold.
#[test]
fn identity_commitment_is_rejected() {
    let error = failure(ED, 0, 3, 1, |message| {
        let last = BINDING + 2 * 32;
        message.body[last..last + 32].fill(0);
        message.body[last] = 1;
    });
    assert_eq!(error, ThresholdError::MalformedMessage { from: 0, round: 1 });
}

#[test]
fn noncanonical_encoding_of_a_commitment_is_rejected() {
    for commitment in 0..3 {
        let error = failure(TR, 0, 3, 1, |message| {
            message.body[BINDING + 33 * commitment] = 0x05;
        });
        assert_eq!(error, ThresholdError::MalformedMessage { from: 0, round: 1 });
    }
}

/// Runs the redistribution with a dealer 0 that deals its share of the key `dealt`.
fn dealing_another_share(key: &Key, dealt: &Key) -> Network {
    let mut network = Network::redistribute(key, &params(key, 0), 1);
    let binding = network.in_flight[0].message.body[..BINDING].to_vec();
    network.in_flight.retain(|flight| flight.message.from != 0);
    let (_, messages) = redistribute::start(params(dealt, 0), dealt.shares.get(&0), &mut rng(9)).unwrap();
    network.post(rebind(messages, &binding, &dealt.shares[&0]));
    network.run(|_| true);
    network
}

#[test]
fn dealer_of_another_secret_or_an_old_share_is_named_by_all() {
    for profile in SignatureProfile::ALL {
        let old = Key::generate(profile, &[0, 1, 2], 2, 1);
        let current = old.redistribute(&[0, 1], &[0, 1, 2], 2, 2);
        for dealt in [old, Key::generate(profile, &[0, 1, 2], 2, 3)] {
            let network = dealing_another_share(&current, &dealt);
            for honest in 1..5 {
                let error = &network.failures[&honest];
                assert_eq!(*error, ThresholdError::CommitmentMismatch { from: 0 });
                assert_eq!(error.culprits(), [0]);
            }
            assert!(network.outputs.is_empty());
        }
    }
}

/// Commitments to a polynomial of another degree have another length and are not decoded.
#[test]
fn polynomial_of_another_degree_is_rejected_and_its_dealer_named() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        for threshold in [2, 4] {
            let mut honest = Network::redistribute(&key, &params(&key, 0), 1);
            let binding = honest.in_flight[0].message.body[..BINDING].to_vec();
            let other = Params { threshold, ..params(&key, 0) };
            let (_, messages) = redistribute::start(other, key.shares.get(&0), &mut rng(1)).unwrap();
            let commitments = rebind(messages, &binding, &key.shares[&0]).remove(0);
            for victim in 1..5 {
                let session = honest.sessions.get_mut(&victim).unwrap();
                let error = session.handle(copy(&commitments)).unwrap_err();
                let bytes = commitments.body.len();
                assert_eq!(error, ThresholdError::WrongLength { from: 0, round: 1, bytes });
                assert_eq!(error.culprits(), [0]);
            }
            honest.run(|_| true);
            honest.key();
        }
    }
}

/// Dealer 0 sends 3 and 4 another polynomial than 1 and 2, both valid for its own share, with matching sub-shares.
/// Without the echo all would finish, with shares of different polynomials.
#[test]
fn equivocation_is_detected() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let mut network = Network::redistribute(&key, &params(&key, 0), 1);
        let deceived = [3, 4];
        network.in_flight.retain(|flight| flight.message.from != 0 || !deceived.contains(&flight.recipient));
        let (_, other_dealing) =
            redistribute::start(params(&key, 0), key.shares.get(&0), &mut rng(99)).unwrap();
        for message in other_dealing {
            for recipient in deceived.into_iter().filter(|to| message.to.is_none_or(|named| named == *to)) {
                network.in_flight.push(InFlight { recipient, message: copy(&message) });
            }
        }
        network.run_echoes_last();
        assert!(network.outputs.is_empty(), "{:?}", network.outputs);
        for (victim, differing) in [(1, [3, 4].as_slice()), (2, &[3, 4]), (3, &[0, 1, 2]), (4, &[0, 1, 2])] {
            let participants = differing.to_vec();
            assert_eq!(network.failures[&victim], ThresholdError::TranscriptMismatch { participants });
        }
    }
}

/// Also if only a parameter differs and the messages have the same length.
#[test]
fn message_of_another_ceremony_is_rejected_and_its_sender_named() {
    for profile in SignatureProfile::ALL {
        let old = Key::generate(profile, &[0, 1, 2], 2, 1);
        let key = old.redistribute(&[0, 1], &[0, 1, 2], 2, 2);
        let ours = params(&key, 3);
        let theirs = params(&key, 0);
        for other in [
            Params { ceremony_id: [8; 32], ..theirs.clone() },
            Params { keys: old.keys.clone(), ..theirs.clone() },
            Params { dealers: set(&[0, 1, 2]), ..theirs.clone() },
            Params { dealers: set(&[0, 2]), ..theirs.clone() },
            Params { roster: set(&[1, 2, 3, 5]), ..theirs.clone() },
            Params { roster: set(&[1, 2, 3]), ..theirs.clone() },
            // The same sequence of numbers, split differently between the two sets.
            Params { dealers: set(&[0, 1, 2]), roster: set(&[2, 3, 4]), ..theirs.clone() },
        ] {
            let share = if other.keys == key.keys { &key.shares[&0] } else { &old.shares[&0] };
            let (_, mut messages) = redistribute::start(other, Some(share), &mut rng(2)).unwrap();
            let (mut session, _) = redistribute::start(ours.clone(), None, &mut rng(1)).unwrap();
            let error = session.handle(messages.remove(0)).unwrap_err();
            assert_eq!(error, ThresholdError::OtherCeremony { from: 0, round: 1 });
            assert_eq!(error.culprits(), [0]);
        }
    }
}

/// A participant that only receives does not deal, and a dealer that leaves receives no sub-share.
#[test]
fn message_from_a_participant_with_none_to_send_is_rejected() {
    for profile in SignatureProfile::ALL {
        let mut network = network(profile);
        let of = |round| network.in_flight.iter().find(|flight| flight.message.round == round).unwrap();
        let (mut commitments, mut sub_share) = (copy(&of(1).message), copy(&of(2).message));
        commitments.from = 2;
        let error = network.sessions.get_mut(&1).unwrap().handle(copy(&commitments)).unwrap_err();
        assert_eq!(error, ThresholdError::UnknownRound { from: 2, round: 1 });
        (sub_share.from, sub_share.to) = (1, Some(0));
        let error = network.sessions.get_mut(&0).unwrap().handle(sub_share).unwrap_err();
        assert_eq!(error, ThresholdError::UnknownRound { from: 1, round: 2 });
        network.run(|_| true);
        network.key();
    }
}

/// Public keys with the group key of another key: the dealers' commitments match their verifying shares, but do not sum to the
/// group key.
#[test]
fn inconsistent_public_keys_are_detected() {
    for profile in SignatureProfile::ALL {
        let mut key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let other = Key::generate(profile, &[0, 1, 2], 2, 2).keys;
        let point = other.verifying_key().len();
        let mut keys = key.keys.to_bytes();
        keys[6..6 + point].copy_from_slice(other.verifying_key());
        key.keys = PublicKeys::from_bytes(&keys).unwrap();
        for share in key.shares.values_mut() {
            let mut bytes = share.to_secret_bytes();
            bytes[38..].copy_from_slice(other.verifying_key());
            *share = KeyShare::from_secret_bytes(profile, &bytes).unwrap();
        }
        let mut network = Network::redistribute(&key, &params(&key, 0), 1);
        network.run(|_| true);
        assert!(network.outputs.is_empty());
        let error = ThresholdError::MalformedMaterial { what: "public keys" };
        assert!((0..5).all(|participant| network.failures[&participant] == error));
    }
}

/// No message, public or private, contains a dealer's old share or a new share.
#[test]
fn no_message_contains_a_share() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let mut network = Network::redistribute(&key, &params(&key, 0), 1);
        let mut sent = Vec::new();
        network.run(|flight| {
            sent.push(flight.message.body.to_vec());
            true
        });
        let new = network.key();
        for share in key.shares.values().chain(new.shares.values()) {
            let held = secret(share);
            assert!(!sent.iter().any(|body| body.windows(32).any(|window| window == held)));
        }
    }
}

/// A participant keeps sub-shares that arrive before commitments.
#[test]
fn session_completes_whichever_message_arrives_last() {
    let mut all = Vec::new();
    network(ED).run(|flight| {
        all.push(InFlight { recipient: flight.recipient, message: copy(&flight.message) });
        true
    });
    let to_3: Vec<Message> =
        all.into_iter().filter(|flight| flight.recipient == 3).map(|flight| flight.message).collect();
    assert_eq!(to_3.len(), 2 + 2 + 4);
    for last in 0..to_3.len() {
        let key = Key::generate(ED, &[0, 1, 2], 2, 1);
        let (mut session, _) = redistribute::start(params(&key, 3), None, &mut rng(1)).unwrap();
        for (_, message) in to_3.iter().enumerate().filter(|(i, _)| *i != last) {
            assert!(!matches!(session.handle(copy(message)).unwrap(), Progress::Done { .. }));
        }
        assert!(matches!(session.handle(copy(&to_3[last])).unwrap(), Progress::Done { .. }));
    }
}
