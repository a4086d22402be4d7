//! Participants that do not know the secret they deal or split, with values that match their commitments.
//!
//! In a redistribution and a repair, participants that join, or have lost everything, get the public keys from others. Here these are invented, with the group key of a
//! real key, and a relay that knows none of its shares plays all the others.

use std::collections::BTreeMap;

use frost_core::{Ciphersuite, Element, Field, Group, Identifier, Scalar};
use gateway_threshold::{
    KeyShare, Message, Output, Progress, Protocol, PublicKeys, Session, SignatureProfile, ThresholdError,
    keygen, redistribute, repair,
};

use crate::harness::{BINDING, CEREMONY, Key, PROOF, copy, h, params, proof, rng, secret, set, with_suite};

type F<C> = <<C as Ciphersuite>::Group as Group>::Field;

fn number<C: Ciphersuite>(number: u16) -> Scalar<C> {
    scalar::<C>(&Identifier::<C>::try_from(number).unwrap().serialize())
}

fn scalar<C: Ciphersuite>(bytes: &[u8]) -> Scalar<C> {
    F::<C>::deserialize(&bytes.try_into().ok().unwrap()).unwrap()
}

fn scalar_bytes<C: Ciphersuite>(scalar: Scalar<C>) -> Vec<u8> {
    F::<C>::serialize(&scalar).as_ref().to_vec()
}

fn point<C: Ciphersuite>(bytes: &[u8]) -> Element<C> {
    C::Group::deserialize(&bytes.try_into().ok().unwrap()).unwrap()
}

fn points_bytes<C: Ciphersuite>(points: &[Element<C>]) -> Vec<u8> {
    points.iter().flat_map(|point| C::Group::serialize(point).unwrap().as_ref().to_vec()).collect()
}

fn times_generator<C: Ciphersuite>(scalar: Scalar<C>) -> Element<C> {
    C::Group::generator() * scalar
}

/// Public keys of these holders with a threshold of 2, and with the group key of a real key: `K + (i + 1)·slope` for each holder.
fn invented<C: Ciphersuite>(real: &PublicKeys, holders: u16, slope: Element<C>) -> PublicKeys {
    let bytes = real.to_bytes();
    let (key, chain_code) = (point::<C>(real.verifying_key()), real.chain_code());
    let mut invented = [&bytes[..4], &holders.to_be_bytes(), real.verifying_key()].concat();
    for holder in 0..holders {
        invented.extend(holder.to_be_bytes());
        invented.extend(points_bytes::<C>(&[key + slope * number::<C>(holder + 1)]));
    }
    PublicKeys::from_bytes(&[invented.as_slice(), chain_code].concat()).unwrap()
}

/// The share of participant 0 with this secret.
fn share_of_0(keys: &PublicKeys, secret: &[u8]) -> KeyShare {
    let head = [1, keys.to_bytes()[1], 0, 0, 0, 2];
    let bytes = [&head, secret, keys.verifying_key()].concat();
    KeyShare::from_secret_bytes(keys.profile(), &bytes).unwrap()
}

fn message(from: u16, to: Option<u16>, round: u8, binding: &[u8], payload: &[u8]) -> Message {
    Message { from, to, round, body: [binding, payload].concat().into() }
}

/// Delivers messages, and then the participant's own echo in the name of all the others: they need not know what is in it.
fn run(
    mut session: Session,
    sent: Vec<Message>,
    others: &[u16],
    last: Vec<Message>,
) -> Result<Output, ThresholdError> {
    let mut echo = None;
    for message in sent {
        if let Progress::Send(mut messages) = session.handle(message)? {
            echo = messages.pop();
        }
    }
    let echo = echo.expect("the participant sends an echo");
    let echoes = others.iter().map(|from| Message { from: *from, ..copy(&echo) });
    for message in echoes.chain(last).collect::<Vec<_>>() {
        if let Progress::Done { output, .. } = session.handle(message)? {
            return Ok(*output);
        }
    }
    panic!("the participant waits")
}

/// Participant 2 joins in a reshare to 2 and 3; dealer 0 is honest. Dealer 1 knows neither its polynomial nor its value for 3: only the
/// value for 2, to which it fits the commitments. It proves knowledge of `claimed`.
fn join<C: Ciphersuite>(
    keys: &PublicKeys,
    share_0: &KeyShare,
    claimed: &[u8],
) -> Result<Output, ThresholdError> {
    let params = |me| {
        let (keys, dealers, roster) = (keys.clone(), set(&[0, 1]), set(&[2, 3]));
        redistribute::Params { keys, me, dealers, roster, threshold: 2, ceremony_id: CEREMONY }
    };
    let (session, _) = redistribute::start(params(2), None, &mut rng(1)).unwrap();
    let (_, mut sent) = redistribute::start(params(0), Some(share_0), &mut rng(2)).unwrap();
    sent.retain(|message| message.to.is_none_or(|to| to == 2));
    let binding = sent[0].body[..BINDING].to_vec();
    let (constant, value) = (point::<C>(&keys.verifying_shares()[&1]), number::<C>(77));
    let third = F::<C>::invert(&number::<C>(3)).ok().unwrap();
    let commitments = points_bytes::<C>(&[constant, (times_generator::<C>(value) - constant) * third]);
    let proof = proof(keys.profile(), &binding, 1, &commitments, claimed);
    sent.push(message(1, None, 1, &binding, &[commitments, proof].concat()));
    sent.push(message(1, Some(2), 2, &binding, &scalar_bytes::<C>(value)));
    run(session, sent, &[0, 1, 3], vec![])
}

#[test]
fn dealer_that_does_not_know_the_constant_term_is_named() {
    for profile in SignatureProfile::ALL {
        with_suite!(profile, C => {
            // A dealer that knows its share deals in the same way, which the participant accepts.
            let own = Key::generate(profile, &[0, 1], 2, 1);
            let output = join::<C>(&own.keys, &own.shares[&0], &secret(&own.shares[&1])).unwrap();
            assert_eq!(output.keys.verifying_key(), own.keys.verifying_key());

            let real = Key::generate(profile, &[0, 1, 2], 2, 2).keys;
            // The verifying share of dealer 0 is of a secret that the attacker chose, and that of dealer 1 of one that no one knows.
            let known = number::<C>(5);
            let slope = times_generator::<C>(known) - point::<C>(real.verifying_key());
            let keys = invented::<C>(&real, 2, slope);
            let share_0 = share_of_0(&keys, &scalar_bytes::<C>(known));
            let error = join::<C>(&keys, &share_0, &scalar_bytes::<C>(known)).unwrap_err();
            assert_eq!(error, ThresholdError::InvalidProofOfKnowledge { from: 1 });
            assert_eq!(error.culprits(), [1]);
        });
    }
}

/// Participant 2 repairs its share with 0 and 1, who know only what they send: sums that fit all commitments, and a share that fits the
/// public keys. They prove knowledge of the `claimed` secrets.
fn recover<C: Ciphersuite>(
    keys: &PublicKeys,
    restored: &[u8],
    claimed: [&[u8]; 2],
) -> Result<Output, ThresholdError> {
    let case = repair::Case { keys: keys.clone(), target: 2, helpers: set(&[0, 1]), reference: [5; 32] };
    let binding = h("svc/repair/v3", &[CEREMONY.to_vec(), case.hash().to_vec(), vec![]]);
    let params = repair::Params { case, admitted: repair::Admitted::default(), me: 2, ceremony_id: CEREMONY };
    let (session, _) = repair::start(params, None, &mut rng(1)).unwrap();
    let y = |helper| point::<C>(&keys.verifying_shares()[&helper]);
    // The Lagrange coefficients at 3 of 1 and 2 are -1 and 2.
    let sum_0 = number::<C>(7);
    let d_00 = times_generator::<C>(number::<C>(8));
    let d_10 = times_generator::<C>(sum_0) - d_00;
    let rows = [[d_00, C::Group::identity() - y(0) - d_00], [d_10, y(1) + y(1) - d_10]];
    let mut sent = Vec::new();
    for (helper, (row, claimed)) in (0..).zip(rows.iter().zip(claimed)) {
        let commitments = points_bytes::<C>(row);
        let proof = proof(keys.profile(), &binding, helper, &commitments, claimed);
        sent.push(message(helper, None, 1, &binding, &[commitments, proof].concat()));
    }
    let sums = [sum_0, scalar::<C>(restored) - sum_0];
    let sum = |(helper, sum)| message(helper, Some(2), 4, &binding, &scalar_bytes::<C>(sum));
    run(session, sent, &[0, 1], (0..).zip(sums).map(sum).collect())
}

#[test]
fn helper_that_does_not_know_its_share_is_named() {
    for profile in SignatureProfile::ALL {
        with_suite!(profile, C => {
            let own = Key::generate(profile, &[0, 1, 2], 2, 1);
            let secrets = [0, 1, 2].map(|participant| secret(&own.shares[&participant]));
            let output = recover::<C>(&own.keys, &secrets[2], [&secrets[0], &secrets[1]]).unwrap();
            assert_eq!(secret(&output.share.unwrap()), secrets[2]);

            let real = Key::generate(profile, &[0, 1, 2], 2, 2).keys;
            // The attacker chose the target's share, and no one knows those of the helpers.
            let chosen = number::<C>(5);
            let third = F::<C>::invert(&number::<C>(3)).ok().unwrap();
            let slope = (times_generator::<C>(chosen) - point::<C>(real.verifying_key())) * third;
            let keys = invented::<C>(&real, 3, slope);
            let chosen = scalar_bytes::<C>(chosen);
            let error = recover::<C>(&keys, &chosen, [&chosen, &chosen]).unwrap_err();
            assert_eq!(error, ThresholdError::InvalidProofOfKnowledge { from: 0 });
            assert_eq!(error.culprits(), [0]);
        });
    }
}

/// The constant term and the proof for frost-core, which covers no ceremony, are of another key generation with the same index. The other
/// commitment fits one value.
#[test]
fn commitment_and_proof_of_another_key_generation_name_their_sender() {
    for profile in SignatureProfile::ALL {
        with_suite!(profile, C => {
            let params = |me, ceremony_id| keygen::Params { ceremony_id, ..params(profile, me, &[0, 1], 2) };
            let (_, other) = keygen::start(params(1, [8; 32]), &mut rng(1)).unwrap();
            let (session, own) = keygen::start(params(0, CEREMONY), &mut rng(2)).unwrap();
            let binding = &own[0].body[..BINDING];
            let copied = &other[0].body[BINDING..];
            let point_bytes = (copied.len() - 2 * PROOF) / 2;
            let (constant, value) = (point::<C>(&copied[..point_bytes]), number::<C>(77));
            let commitments = points_bytes::<C>(&[constant, times_generator::<C>(value) - constant]);
            let payload = [&commitments, &copied[2 * point_bytes..]].concat();
            let sent = vec![
                message(1, None, 1, binding, &payload),
                message(1, Some(0), 2, binding, &scalar_bytes::<C>(value)),
            ];
            let error = run(session, sent, &[1], vec![]).unwrap_err();
            assert_eq!(error, ThresholdError::InvalidProofOfKnowledge { from: 1 });
            assert_eq!(error.culprits(), [1]);
        });
    }
}

/// A valid proof that is bound to the ceremony does not replace the one that frost-core verifies.
#[test]
fn proof_for_frost_core_of_another_constant_term_names_its_sender() {
    for profile in SignatureProfile::ALL {
        with_suite!(profile, C => {
            let (_, other) = keygen::start(params(profile, 1, &[0, 1], 2), &mut rng(1)).unwrap();
            let (mut session, _) = keygen::start(params(profile, 0, &[0, 1], 2), &mut rng(2)).unwrap();
            let (binding, rest) = other[0].body.split_at(BINDING);
            let (commitments, proofs) = rest.split_at(rest.len() - 2 * PROOF);
            let constant = number::<C>(5);
            let first = points_bytes::<C>(&[times_generator::<C>(constant)]);
            let signed = [&first, &commitments[first.len()..], &proofs[..PROOF]].concat();
            let proof = proof(profile, binding, 1, &signed, &scalar_bytes::<C>(constant));
            let wrong = message(1, None, 1, binding, &[signed, proof].concat());
            let named = ThresholdError::InvalidProofOfKnowledge { from: 1 };
            let observed = Protocol::KeyGeneration(params(profile, 0, &[0, 1], 2));
            assert_eq!(observed.deviation(&wrong, &BTreeMap::new()), Some(named.clone()));
            assert_eq!(session.handle(wrong).unwrap_err(), named);
        });
    }
}
