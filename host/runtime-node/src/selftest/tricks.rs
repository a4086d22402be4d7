//! What the attacker does with its messages in a ceremony, and how each trick must end.

use super::attacker::{Ending, Tamper, View, copy};
use super::deployment::HONEST;
use gateway_threshold::{Message, SignatureProfile};

/// Bytes of the binding to the ceremony, with which every body begins.
const BINDING: usize = 32;

/// A trick of the attacker, with the ending that it must have.
pub(crate) type Trick = (&'static str, Tamper, Ending);

/// Tricks with the commitments of round 1, which both honest nodes get.
pub(crate) const COMMITMENTS: [Trick; 8] = [
    ("commitments to a longer polynomial", |view, it| edit(it, 1, |body| longer(view, body)), NAMED),
    ("commitments to a shorter polynomial", |view, it| edit(it, 1, |body| shorter(view, body)), NAMED),
    ("the identity as a commitment", |view, it| edit(it, 1, |body| put(body, identity(view))), NAMED),
    (
        "a commitment of low order, or off the curve",
        |view, it| edit(it, 1, |body| put(body, bad(view))),
        NAMED,
    ),
    ("a second encoding of a point", |view, it| edit(it, 1, |body| encode_otherwise(view, body)), NAMED),
    ("undecodable commitments", |_, it| edit(it, 1, |body| fill(body)), NAMED),
    ("commitments bound to another ceremony", |_, it| edit(it, 1, |body| rebind_to_none(body)), NAMED),
    ("two different commitments to one node", |_, it| twice(it), NAMED),
];

pub(crate) const NAMED: Ending = Ending::Named(&HONEST);

/// Tricks with the secret values of round 2, of which one is for participant 0.
pub(crate) const SECRETS: [Trick; 3] = [
    ("a wrong secret value", |view, it| edit(it, 2, |body| flip(view, body)), Ending::Named(&[0])),
    ("an undecodable secret value", |_, it| edit(it, 2, |body| fill(body)), Ending::Named(&[0])),
    ("no secret value", |_, it| if it.round == 2 { vec![] } else { vec![it] }, Ending::NoShare),
];

/// Tricks with the echo of round 3.
pub(crate) const ECHO: [Trick; 2] = [
    ("a false echo", |_, it| edit(it, 3, |body| fill(body)), Ending::Unattributed(&HONEST)),
    ("no echo", |_, it| if it.round == 3 { vec![] } else { vec![it] }, Ending::NoShare),
];

/// Tricks with the proof of possession in round 1.
pub(crate) const PROOFS: [Trick; 4] = [
    ("no proof of possession", |_, it| edit(it, 1, |body| body.truncate(proof_at(body))), NAMED),
    ("a false proof of possession", |view, it| edit(it, 1, |body| flip_proof(view, body)), NAMED),
    ("the proof of another participant", |view, it| copied(view, it, proof_at), NAMED),
    ("commitments and proof of another participant", |view, it| copied(view, it, |_| 0), NAMED),
];

pub(crate) const UNCHANGED: Tamper = |_, message| vec![message];

/// Every message twice.
pub(crate) const REPEATED: Trick = ("every message twice", |_, it| vec![copy(&it), it], Ending::Completes);

/// Changes the body of a message of this round.
pub(crate) fn edit(mut message: Message, round: u8, change: impl FnOnce(&mut Vec<u8>)) -> Vec<Message> {
    if message.round == round {
        change(&mut message.body);
    }
    vec![message]
}

fn point_bytes(profile: SignatureProfile) -> usize {
    match profile {
        SignatureProfile::FrostEd25519Sha512 => 32,
        SignatureProfile::FrostSecp256k1Sha256Tr => 33,
    }
}

/// The place of the proof of possession: its 64 bytes are the last.
fn proof_at(body: &[u8]) -> usize {
    body.len().saturating_sub(64)
}

/// Writes the point over the second commitment: for a threshold of 2, the coefficient that makes it 2.
fn put(body: &mut Vec<u8>, point: Vec<u8>) {
    let at = BINDING + point.len();
    body.splice(at..at + point.len(), point);
}

fn longer(view: &View<'_>, body: &mut Vec<u8>) {
    let first = body.get(BINDING..BINDING + point_bytes(view.profile)).unwrap_or_default().to_vec();
    body.splice(BINDING..BINDING, first);
}

fn shorter(view: &View<'_>, body: &mut Vec<u8>) {
    body.drain(BINDING..BINDING + point_bytes(view.profile));
}

/// The neutral element. On secp256k1 it has no encoding of 33 bytes, and some decoders read zeros as it.
fn identity(view: &View<'_>) -> Vec<u8> {
    let mut point = vec![0; point_bytes(view.profile)];
    if view.profile == SignatureProfile::FrostEd25519Sha512
        && let Some(first) = point.first_mut()
    {
        *first = 1;
    }
    point
}

/// A point of order 8 of Ed25519's curve, or an x without a point of secp256k1 (test vector 5 of BIP-340).
fn bad(view: &View<'_>) -> Vec<u8> {
    let text = match view.profile {
        SignatureProfile::FrostEd25519Sha512 => {
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"
        }
        SignatureProfile::FrostSecp256k1Sha256Tr => {
            "02eefdea4cdb677750a420fee807eacf21eb9898ae79b9768766e4faa04a2d4a34"
        }
    };
    hex::decode(text).unwrap_or_default()
}

/// A second encoding of a point: a coordinate that is 3 more than the order of Ed25519's field, or the form of SEC 1 that curve
/// libraries call compact, which is not ours, of the same point of secp256k1.
fn encode_otherwise(view: &View<'_>, body: &mut Vec<u8>) {
    match view.profile {
        SignatureProfile::FrostEd25519Sha512 => {
            put(body, [vec![0xf0], vec![0xff; 30], vec![0x7f]].concat());
        }
        SignatureProfile::FrostSecp256k1Sha256Tr => {
            let second = BINDING + point_bytes(view.profile);
            body.iter_mut().skip(second).take(1).for_each(|prefix| *prefix = 0x05);
        }
    }
}

fn fill(body: &mut [u8]) {
    body.iter_mut().skip(BINDING).for_each(|byte| *byte = 0xff);
}

fn rebind_to_none(body: &mut [u8]) {
    body.iter_mut().take(BINDING).for_each(|byte| *byte ^= 1);
}

/// Changes the scalar of a private message in its least significant byte, so that it stays below the order.
pub(crate) fn flip(view: &View<'_>, body: &mut [u8]) {
    let low = match view.profile {
        SignatureProfile::FrostEd25519Sha512 => BINDING,
        SignatureProfile::FrostSecp256k1Sha256Tr => BINDING + 31,
    };
    body.iter_mut().skip(low).take(1).for_each(|byte| *byte ^= 1);
}

/// Changes the scalar of the proof in its least significant byte.
fn flip_proof(view: &View<'_>, body: &mut [u8]) {
    let from_end = match view.profile {
        SignatureProfile::FrostEd25519Sha512 => 31,
        SignatureProfile::FrostSecp256k1Sha256Tr => 0,
    };
    body.iter_mut().rev().skip(from_end).take(1).for_each(|byte| *byte ^= 1);
}

/// In round 1 the body of another participant from this place on: its proof is valid for its own identifier.
fn copied(view: &View<'_>, mut message: Message, place: fn(&[u8]) -> usize) -> Vec<Message> {
    if let Some(seen) = view.seen.iter().find(|seen| seen.round == 1).filter(|_| message.round == 1) {
        let at = place(&message.body);
        message.body.truncate(at);
        message.body.extend(seen.body.iter().skip(at));
    }
    vec![message]
}

/// In round 1 the message, and another one after it.
fn twice(message: Message) -> Vec<Message> {
    if message.round != 1 {
        return vec![message];
    }
    let mut other = copy(&message);
    other.body.iter_mut().skip(BINDING + 4).take(1).for_each(|byte| *byte ^= 1);
    vec![message, other]
}

/// The binding of the honest nodes, in place of the one of the attacker's own parameters.
pub(crate) fn rebound(view: &View<'_>, mut message: Message) -> Vec<Message> {
    if let Some(honest) = view.seen.first().and_then(|seen| seen.body.get(..BINDING)) {
        message.body.splice(..BINDING, honest.iter().copied());
    }
    vec![message]
}
