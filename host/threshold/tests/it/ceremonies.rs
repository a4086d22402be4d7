//! Properties that all protocols have: order and repetition of messages, rejected messages, echoes.

use gateway_threshold::{Message, Progress, SignatureProfile, ThresholdError};

use crate::harness::{BINDING, InFlight, Network, copy, every_protocol};

/// All messages of all protocols, with the protocol's index.
fn all_messages(profile: SignatureProfile) -> Vec<(usize, InFlight)> {
    let mut all = Vec::new();
    for (protocol, mut network) in every_protocol(profile).into_iter().enumerate() {
        network.run(|InFlight { recipient, message }| {
            all.push((protocol, InFlight { recipient: *recipient, message: copy(message) }));
            true
        });
        network.key();
    }
    all
}

#[test]
fn repeated_messages_have_no_effect() {
    for profile in SignatureProfile::ALL {
        for mut network in every_protocol(profile) {
            let mut delivered = Vec::new();
            network.run(|flight| {
                delivered.push(InFlight { recipient: flight.recipient, message: copy(&flight.message) });
                true
            });
            for InFlight { recipient, message } in delivered {
                let progress = network.sessions.get_mut(&recipient).unwrap().handle(message).unwrap();
                assert!(matches!(progress, Progress::Wait));
            }
            network.key();
        }
    }
}

/// Delivers messages in the reverse order, each twice.
#[test]
fn immediate_repeats_have_no_effect() {
    for profile in SignatureProfile::ALL {
        for (mut network, mut repeated) in every_protocol(profile).into_iter().zip(every_protocol(profile)) {
            network.run(|_| true);
            while let Some(flight) = repeated.in_flight.pop() {
                repeated.deliver(InFlight { recipient: flight.recipient, message: copy(&flight.message) });
                let done = repeated.outputs.len();
                let session = repeated.sessions.get_mut(&flight.recipient).unwrap();
                let again = session.handle(flight.message).unwrap();
                assert!(matches!(again, Progress::Wait) && repeated.outputs.len() == done);
            }
            // The result does not depend on the order of delivery.
            let (one, other) = (network.key(), repeated.key());
            assert_eq!((one.keys, one.transcript), (other.keys, other.transcript));
        }
    }
}

#[test]
fn conflicting_message_ends_the_session() {
    for profile in SignatureProfile::ALL {
        for (protocol, InFlight { recipient, message }) in all_messages(profile) {
            // A session that receives no other messages stays open.
            let mut network = every_protocol(profile).into_iter().nth(protocol).unwrap();
            let session = network.sessions.get_mut(&recipient).unwrap();
            let (from, round) = (message.from, message.round);
            let mut other = copy(&message);
            other.body[BINDING] ^= 1;
            session.handle(copy(&message)).unwrap();
            let error = session.handle(other).unwrap_err();
            assert_eq!(error, ThresholdError::ConflictingMessages { from, round });
            assert_eq!(error.culprits(), [from]);
            assert_eq!(session.handle(message).unwrap_err(), ThresholdError::SessionFailed);
        }
    }
}

type Change = (fn(&mut Message), fn(&Message) -> ThresholdError);

/// Changes to each field of a message, and the resulting errors.
const CHANGES: [Change; 10] = [
    (|m| m.from = 77, |_| ThresholdError::UnknownSender { from: 77 }),
    (|m| m.to = Some(77), |m| ThresholdError::WrongRecipient { from: m.from, round: m.round }),
    (
        |m| m.to = if m.to.is_some() { None } else { Some(0) },
        |m| ThresholdError::WrongRecipient { from: m.from, round: m.round },
    ),
    (|m| m.round = 0, |m| ThresholdError::UnknownRound { from: m.from, round: 0 }),
    (|m| m.round = 5, |m| ThresholdError::UnknownRound { from: m.from, round: 5 }),
    (|m| m.body[0] ^= 1, |m| ThresholdError::OtherCeremony { from: m.from, round: m.round }),
    (|m| m.body[BINDING - 1] ^= 1, |m| ThresholdError::OtherCeremony { from: m.from, round: m.round }),
    (
        |m| _ = m.body.pop(),
        |m| ThresholdError::WrongLength { from: m.from, round: m.round, bytes: m.body.len() - 1 },
    ),
    (
        |m| m.body.push(0),
        |m| ThresholdError::WrongLength { from: m.from, round: m.round, bytes: m.body.len() + 1 },
    ),
    (
        |m| m.body.extend([0; 1 << 16]),
        |m| ThresholdError::WrongLength { from: m.from, round: m.round, bytes: m.body.len() + (1 << 16) },
    ),
];

/// The session rejects the changed messages, then completes with the original ones.
#[test]
fn changing_any_field_of_a_message_is_rejected_and_the_ceremony_continues() {
    for profile in SignatureProfile::ALL {
        for mut network in every_protocol(profile) {
            while let Some(InFlight { recipient, message }) = network.in_flight.pop() {
                let session = network.sessions.get_mut(&recipient).unwrap();
                for (change, expected) in CHANGES {
                    let mut changed = copy(&message);
                    change(&mut changed);
                    assert_eq!(session.handle(changed).unwrap_err(), expected(&message));
                }
                let mut own = copy(&message);
                own.from = recipient;
                let error = session.handle(own).unwrap_err();
                assert_eq!(error, ThresholdError::UnknownSender { from: recipient });
                network.deliver(InFlight { recipient, message });
            }
            network.key();
        }
    }
}

/// In another round the message has the wrong length or address, or is not expected.
#[test]
fn message_of_one_round_is_rejected_in_another() {
    for profile in SignatureProfile::ALL {
        for mut network in every_protocol(profile) {
            while let Some(flight) = network.in_flight.pop() {
                for round in (1..=4).filter(|round| *round != flight.message.round) {
                    let mut message = copy(&flight.message);
                    message.round = round;
                    let session = network.sessions.get_mut(&flight.recipient).unwrap();
                    assert!(session.handle(message).is_err());
                }
                network.deliver(flight);
            }
            network.key();
        }
    }
}

/// Every message of one ceremony has the same binding, which no other protocol has.
#[test]
fn bindings_of_different_protocols_differ() {
    for profile in SignatureProfile::ALL {
        let bindings = every_protocol(profile).map(|network| {
            let mut bindings: Vec<_> =
                network.in_flight.iter().map(|flight| flight.message.body[..BINDING].to_vec()).collect();
            bindings.dedup();
            assert_eq!(bindings.len(), 1);
            bindings.remove(0)
        });
        assert!(bindings[0] != bindings[1] && bindings[1] != bindings[2] && bindings[0] != bindings[2]);
    }
}

/// Runs each protocol once for each of its echoes, with `tap` applied to that echo. Passes its sender, its recipient and the
/// network to `check` afterwards.
fn for_each_echo(
    profile: SignatureProfile,
    tap: impl Fn(&mut Message) -> bool,
    check: impl Fn(u16, u16, Network),
) {
    for (protocol, echo) in all_messages(profile).into_iter().filter(|(_, flight)| flight.message.round == 3)
    {
        let mut network = every_protocol(profile).into_iter().nth(protocol).unwrap();
        let (from, to) = (echo.message.from, echo.recipient);
        network.run(|InFlight { recipient, message }| {
            (*recipient, message.from, message.round) != (to, from, 3) || tap(message)
        });
        check(from, to, network);
    }
}

#[test]
fn no_participant_is_done_before_every_echo_arrives() {
    for profile in SignatureProfile::ALL {
        for_each_echo(
            profile,
            |_| false,
            |_, to, network| {
                assert!(network.failures.is_empty());
                let done = network.outputs.keys().copied();
                assert!(
                    done.eq(network.participants.iter().copied().filter(|participant| *participant != to))
                );
            },
        );
    }
}

#[test]
fn differing_echo_names_its_sender() {
    for profile in SignatureProfile::ALL {
        for byte in [BINDING, BINDING + 31] {
            for_each_echo(
                profile,
                |message| {
                    message.body[byte] ^= 0x80;
                    true
                },
                |from, to, mut network| {
                    assert!(!network.outputs.contains_key(&to));
                    let error = network.failures.remove(&to).unwrap();
                    assert_eq!(error, ThresholdError::TranscriptMismatch { participants: vec![from] });
                    assert!(error.culprits().is_empty());
                },
            );
        }
    }
}
