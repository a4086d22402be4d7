//! Attacks by a relay, a sender or a third node.

use super::seal::seal_from;
use super::*;
use crate::limits::BODY_BYTES_MAX;
use crate::node_key::{Identities, NodeSecret};
use serde_json::{Value, json};
use zeroize::Zeroizing;

const CEREMONY: [u8; 32] = [0xce; 32];
const BODY: &[u8] = b"canary: a share of a secret, 40 bytes...";

fn node(index: u16) -> NodeSecret {
    NodeSecret::from_seed(index, &Zeroizing::new([u8::try_from(index).unwrap() + 1; 32]))
}

fn nodes() -> Identities {
    Identities::new((0..3).map(|index| node(index).identity().clone())).unwrap()
}

fn header(from: u16, to: Option<u16>) -> Header {
    Header { ceremony: CEREMONY, from, to, round: 2 }
}

fn sealed(from: u16, to: Option<u16>) -> Envelope {
    seal(&node(from), &nodes(), header(from, to), BODY).unwrap()
}

fn opened(by: u16, envelope: &Envelope) -> Result<Opened, OpenError> {
    open(&node(by), &nodes(), &CEREMONY, envelope)
}

/// The envelope with one value changed, as a relay could do.
fn changed(envelope: &Envelope, pointer: &str, value: Value) -> Envelope {
    let mut written = serde_json::to_value(envelope).unwrap();
    *written.pointer_mut(pointer).unwrap() = value;
    serde_json::from_value(written).unwrap()
}

#[test]
fn message_opens_as_it_was_sent() {
    for to in [None, Some(1)] {
        let text = serde_json::to_string(&sealed(0, to)).unwrap();
        let message = opened(1, &serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!((message.header, message.body.as_slice()), (header(0, to), BODY));
        assert_eq!(message.complaint().is_some(), to.is_some());
    }
    assert!(opened(2, &sealed(0, None)).is_ok());
    for bytes in [0, 1, BODY_BYTES_MAX] {
        let envelope = seal(&node(0), &nodes(), header(0, Some(1)), &vec![7; bytes]).unwrap();
        assert_eq!(*opened(1, &envelope).unwrap().body, vec![7; bytes]);
    }
}

#[test]
fn every_flipped_bit_of_an_envelope_is_detected() {
    for to in [None, Some(1)] {
        let text = serde_json::to_vec(&sealed(0, to)).unwrap();
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut other = text.clone();
                other[at] ^= 1 << bit;
                let read = serde_json::from_slice::<Envelope>(&other);
                assert!(read.is_err() || opened(1, &read.unwrap()).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn changed_header_is_detected_and_names_no_culprit() {
    let envelope = sealed(0, Some(1));
    let forged = OpenError::Forged { from: 0 };
    let other = hex::encode([0; 32]);
    assert_eq!(opened(1, &changed(&envelope, "/header/ceremony", json!(other))).unwrap_err(), forged);
    assert_eq!(opened(1, &changed(&envelope, "/header/round", json!(1))).unwrap_err(), forged);
    assert_eq!(opened(1, &changed(&envelope, "/header/to", json!(null))).unwrap_err(), forged);
    assert_eq!(opened(2, &changed(&envelope, "/header/to", json!(2))).unwrap_err(), forged);
    let taken_over = opened(1, &changed(&envelope, "/header/from", json!(2))).unwrap_err();
    assert_eq!((taken_over, taken_over.culprit()), (OpenError::Forged { from: 2 }, None));
    let version = OpenError::Version { from: 0, version: 2 };
    assert_eq!(opened(1, &changed(&envelope, "/v", json!(2))).unwrap_err(), version);
    let unknown = OpenError::UnknownSender { from: 9 };
    assert_eq!(opened(1, &changed(&envelope, "/header/from", json!(9))).unwrap_err(), unknown);
}

#[test]
fn genuine_message_is_accepted_only_by_its_recipient_and_ceremony() {
    let (private, public) = (sealed(0, Some(1)), sealed(0, None));
    assert_eq!(opened(2, &private).unwrap_err(), OpenError::NotForUs { from: 0, to: 1 });
    for envelope in [&private, &public] {
        assert_eq!(opened(0, envelope).unwrap_err(), OpenError::Reflected { from: 0 });
        let elsewhere = open(&node(1), &nodes(), &[0; 32], envelope).unwrap_err();
        assert_eq!((elsewhere, elsewhere.culprit()), (OpenError::OtherCeremony { from: 0 }, None));
    }
    let without_sender = Identities::new([node(1).identity().clone()]).unwrap();
    let unknown = open(&node(1), &without_sender, &CEREMONY, &public).unwrap_err();
    assert_eq!(unknown, OpenError::UnknownSender { from: 0 });
    // An impostor with the index of node 0 and another key.
    let impostor = NodeSecret::from_seed(0, &Zeroizing::new([99; 32]));
    let forged = seal(&impostor, &nodes(), header(0, Some(1)), BODY).unwrap();
    assert_eq!(opened(1, &forged).unwrap_err(), OpenError::Forged { from: 0 });
}

#[test]
fn moved_ciphertext_does_not_open_and_its_signer_is_the_culprit() {
    let body = sealed(0, Some(1)).body().to_vec();
    let moved = |from: u16, header: Header| Envelope::sign(&node(from), header, body.clone());
    assert!(opened(1, &moved(0, header(0, Some(1)))).is_ok());
    let culprit = |from: u16| (OpenError::Unopenable { from }, Some(from));
    let check = |by: u16, ceremony: &[u8; 32], envelope: &Envelope| {
        let error = open(&node(by), &nodes(), ceremony, envelope).unwrap_err();
        (error, error.culprit())
    };
    assert_eq!(check(1, &CEREMONY, &moved(2, header(2, Some(1)))), culprit(2));
    assert_eq!(check(2, &CEREMONY, &moved(0, header(0, Some(2)))), culprit(0));
    assert_eq!(check(1, &CEREMONY, &moved(0, Header { round: 3, ..header(0, Some(1)) })), culprit(0));
    let later = Header { ceremony: [1; 32], ..header(0, Some(1)) };
    assert_eq!(check(1, &[1; 32], &moved(0, later)), culprit(0));
    for bytes in [0, 31, 32, 47, 48, 111] {
        let cut = Envelope::sign(&node(0), header(0, Some(1)), body[..bytes].to_vec());
        assert_eq!(check(1, &CEREMONY, &cut), culprit(0));
    }
}

/// Each of `info` and `aad` is enough to reject a ciphertext by itself.
#[test]
fn ciphertext_is_bound_to_ceremony_and_to_header() {
    use super::hybrid::{Binding, decrypt, encrypt};
    use crate::random::Stream;
    let binding = Binding::of(&header(0, Some(1)));
    let to = nodes().get(1).unwrap().sealing().clone();
    let rng = &mut Stream::new(Zeroizing::new([1; 32]));
    let sealed = encrypt(&to, &binding, BODY, rng).unwrap();
    assert!(decrypt(node(1).sealing(), &binding, &sealed).is_some());
    let info =
        Binding { info: Binding::of(&Header { ceremony: [1; 32], ..header(0, Some(1)) }).info, ..binding };
    assert!(decrypt(node(1).sealing(), &info, &sealed).is_none());
    let aad = Binding { aad: Binding::of(&header(2, Some(1))).aad, ..Binding::of(&header(0, Some(1))) };
    assert!(decrypt(node(1).sealing(), &aad, &sealed).is_none());
}

#[test]
fn message_without_a_valid_inner_signature_is_rejected() {
    use super::hybrid::{Binding, encrypt};
    use crate::random::Stream;
    let header = header(0, Some(1));
    let inner = |signature: [u8; 64]| {
        let plaintext = [signature.as_slice(), BODY].concat();
        let to = nodes().get(1).unwrap().sealing().clone();
        let rng = &mut Stream::new(Zeroizing::new([1; 32]));
        encrypt(&to, &Binding::of(&header), &plaintext, rng).unwrap()
    };
    let right = node(0).sign(&complaint::inner_digest(&header, BODY));
    assert!(opened(1, &Envelope::sign(&node(0), header, inner(right))).is_ok());
    let other_body = node(0).sign(&complaint::inner_digest(&header, b"another"));
    for wrong in [[0; 64], other_body] {
        let envelope = Envelope::sign(&node(0), header, inner(wrong));
        assert_eq!(opened(1, &envelope).unwrap_err(), OpenError::Unopenable { from: 0 });
    }
}

#[test]
fn complaint_proves_exactly_the_message_that_was_signed() {
    let complaint = opened(1, &sealed(0, Some(1))).unwrap().complaint().unwrap();
    let written = serde_json::to_value(&complaint).unwrap();
    let read: Complaint = serde_json::from_value(written.clone()).unwrap();
    let nodes = nodes();
    let accused = nodes.get(0).unwrap();
    assert_eq!(verify_complaint(accused, &read), Ok((header(0, Some(1)), BODY)));
    let other = verify_complaint(nodes.get(2).unwrap(), &complaint);
    assert_eq!(other, Err(ComplaintError::OtherNode { from: 0 }));
    let check = |pointer: &str, value: Value| {
        let mut changed = written.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        verify_complaint(accused, &serde_json::from_value(changed).unwrap()).map(|_| ())
    };
    let not_signed = Err(ComplaintError::NotSigned { from: 0 });
    assert_eq!(check("/header/ceremony", json!(hex::encode([1; 32]))), not_signed);
    assert_eq!(check("/header/to", json!(2)), not_signed);
    assert_eq!(check("/header/round", json!(3)), not_signed);
    assert_eq!(check("/body", json!("AAAA")), not_signed);
    assert_eq!(check("/signature", json!(hex::encode([0; 64]))), not_signed);
    // The signature of an envelope is not valid in a complaint.
    let outer = serde_json::to_value(sealed(0, Some(1))).unwrap()["signature"].clone();
    assert_eq!(check("/signature", outer), not_signed);
    assert_eq!(check("/header/to", json!(null)), Err(ComplaintError::NotPrivate));
}

#[test]
fn wrong_sender_unknown_recipient_and_oversized_body_are_rejected() {
    let check = |header: Header, bytes: usize| seal(&node(0), &nodes(), header, &vec![0; bytes]).err();
    assert_eq!(check(header(1, None), 1), Some(SealError::NotOurs { from: 1 }));
    assert_eq!(check(header(0, Some(9)), 1), Some(SealError::UnknownRecipient { to: 9 }));
    assert_eq!(check(header(0, Some(0)), 1), Some(SealError::UnknownRecipient { to: 0 }));
    let bytes = BODY_BYTES_MAX + 1;
    assert_eq!(check(header(0, None), bytes), Some(SealError::Oversize { bytes }));
    let bytes = BODY_BYTES_MAX + 113;
    let large = Envelope::sign(&node(0), header(0, None), vec![0; bytes]);
    assert_eq!(opened(1, &large).unwrap_err(), OpenError::Oversize { from: 0, bytes });
}

#[test]
fn relay_sees_only_ciphertext_and_every_ciphertext_differs() {
    let texts: Vec<_> = (0..2).map(|_| serde_json::to_string(&sealed(0, Some(1))).unwrap()).collect();
    assert_ne!(texts[0], texts[1]);
    let bodies = [sealed(0, Some(1)).body().to_vec(), sealed(0, Some(1)).body().to_vec()];
    assert_ne!(bodies[0][..32], bodies[1][..32], "an ephemeral key was used twice");
    let inner = node(0).sign(&complaint::inner_digest(&header(0, Some(1)), BODY));
    for body in &bodies {
        assert!(body.windows(8).all(|part| BODY.windows(8).all(|secret| part != secret)));
        assert!(body.windows(8).all(|part| inner.windows(8).all(|secret| part != secret)));
    }
    for text in &texts {
        assert!(!text.contains(&hex::encode(BODY)) && !text.contains("canary"));
    }
    let public = sealed(0, None);
    assert_eq!(public.body(), BODY);
}

#[test]
fn debug_output_contains_no_secret() {
    let message = opened(1, &sealed(0, Some(1))).unwrap();
    let complaint = message.complaint().unwrap();
    let shown = format!("{:?} {message:?} {complaint:?} {:?}", node(0), sealed(0, None));
    let bytes = format!("{:?}", BODY);
    let list = bytes.trim_matches(['[', ']']);
    assert!(!shown.contains("canary") && !shown.contains(list) && !shown.contains(&hex::encode(BODY)));
    assert!(!shown.contains(&hex::encode([1; 32])) && !shown.contains("1, 1, 1"));
    assert_eq!(format!("{:?}", node(0)), "NodeSecret { index: 0, .. }");
}

/// A change here changes the bytes that are signed and sent.
#[test]
fn formats_are_pinned() {
    let pinned: Value = serde_json::from_str(include_str!("../../vectors/formats.json")).unwrap();
    let envelope = |to| seal_from(Zeroizing::new([7; 32]), &node(0), &nodes(), header(0, to), BODY).unwrap();
    let complaint = opened(1, &envelope(Some(1))).unwrap().complaint();
    let made = json!({
        "identity": node(0).identity(),
        "fingerprint": node(0).identity().fingerprint(),
        "broadcast": envelope(None),
        "private": envelope(Some(1)),
        "complaint": complaint,
    });
    assert_eq!(made, pinned["relay"], "{made:#}");
    let private: Envelope = serde_json::from_value(pinned["relay"]["private"].clone()).unwrap();
    assert_eq!(opened(1, &private).unwrap().body.as_slice(), BODY);
}
