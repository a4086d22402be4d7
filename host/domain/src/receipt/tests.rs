//! Receipts by keys that tests know, and what becomes of altered ones.

use super::*;
use crate::intent::OperationType;
use crate::operation::Operation;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use std::cell::RefCell;
use std::collections::BTreeMap;

fn key(participant: ParticipantIndex) -> SigningKey {
    SigningKey::from_bytes(&[participant.0.to_le_bytes()[0] + 1; 32])
}

fn public(participant: u16) -> [u8; 32] {
    key(ParticipantIndex(participant)).verifying_key().to_bytes()
}

fn sign_by(key: &SigningKey, statement: &ReceiptStatement) -> NodeReceipt {
    let signed = pre_authentication_encoding(PAYLOAD_TYPE, &statement.payload().unwrap());
    NodeReceipt {
        participant: statement.participant,
        transition_hash: statement.transition_hash,
        signature: Signature::new(key.sign(&signed).to_bytes()),
    }
}

thread_local! {
    /// Thousands of lives state the same: signing and checking each once is enough.
    static SIGNED: RefCell<BTreeMap<Vec<u8>, NodeReceipt>> = RefCell::default();
}

/// The honest receipt over a statement, checked when it is made.
fn honest(statement: &ReceiptStatement) -> NodeReceipt {
    let sign = || {
        let receipt = sign_by(&key(statement.participant), statement);
        receipt.verify(statement, &public(statement.participant.0)).unwrap();
        receipt
    };
    let payload = statement.payload().unwrap();
    SIGNED.with_borrow_mut(|signed| signed.entry(payload).or_insert_with(sign).clone())
}

/// The word of these nodes that they have done this.
pub(crate) fn receipts(
    operation: &Operation,
    deed: ReceiptKind,
    nodes: impl Iterator<Item = ParticipantIndex>,
) -> Vec<NodeReceipt> {
    let receipt = |node| honest(&operation.receipt_chain(node).unwrap().statement(&deed).unwrap());
    nodes.map(receipt).collect()
}

/// Each is that of its node, over what the operation says of it.
#[track_caller]
pub(crate) fn check_receipts(operation: &Operation, deed: &ReceiptKind, receipts: &[NodeReceipt]) {
    for receipt in receipts {
        let statement = operation.receipt_chain(receipt.participant).unwrap().statement(deed).unwrap();
        assert_eq!(*receipt, honest(&statement), "{deed:?}");
    }
}

fn hex32(byte: u8) -> Hex32 {
    Hex32::new([byte; 32])
}

fn chain(participant: u16) -> Chain {
    let participant = ParticipantIndex(participant);
    Chain { admission_hash: hex32(11), operation_id: OperationId(hex32(1)), participant }
}

/// One deed of each kind, and a neighbour of each that differs in one thing.
fn deeds() -> Vec<ReceiptKind> {
    let basis = PolicyBasis {
        bundle_hash: hex32(3),
        policy_input_hash: hex32(4),
        policy_output_hash: hex32(5),
        approvals_root: hex32(6),
    };
    let signed = |attempt, digest, package| ReceiptKind::Signed {
        attempt,
        signed_digest: hex32(digest),
        package_hash: hex32(package),
    };
    let published = |operation_type, result| ReceiptKind::Published {
        attempt: 1,
        operation_type,
        result_ref: hex32(result),
    };
    vec![
        ReceiptKind::Admitted,
        ReceiptKind::Discarded,
        ReceiptKind::PolicyReceipt(basis),
        ReceiptKind::PolicyReceipt(PolicyBasis { bundle_hash: hex32(9), ..basis }),
        ReceiptKind::PolicyReceipt(PolicyBasis { policy_input_hash: hex32(9), ..basis }),
        ReceiptKind::PolicyReceipt(PolicyBasis { policy_output_hash: hex32(9), ..basis }),
        ReceiptKind::PolicyReceipt(PolicyBasis { approvals_root: hex32(9), ..basis }),
        signed(1, 7, 8),
        signed(2, 7, 8),
        signed(1, 9, 8),
        signed(1, 7, 9),
        ReceiptKind::Staged { attempt: 1, epoch_root: hex32(7) },
        ReceiptKind::Staged { attempt: 1, epoch_root: hex32(8) },
        ReceiptKind::Promoted { attempt: 1, epoch_root: hex32(7) },
        ReceiptKind::Promoted { attempt: 2, epoch_root: hex32(7) },
        ReceiptKind::Promoted { attempt: 1, epoch_root: hex32(8) },
        published(OperationType::Sign, 7),
        published(OperationType::Sign, 8),
        published(OperationType::Refresh, 7),
    ]
}

#[test]
fn a_receipt_is_for_one_deed_of_one_node() {
    for (one, deed) in deeds().iter().enumerate() {
        let receipt = honest(&chain(0).statement(deed).unwrap());
        for (other, other_deed) in deeds().iter().enumerate() {
            let verified = receipt.verify(&chain(0).statement(other_deed).unwrap(), &public(0));
            assert_eq!(verified.is_ok(), one == other, "{deed:?} as {other_deed:?}");
        }
        let statement = chain(0).statement(deed).unwrap();
        assert!(matches!(receipt.verify(&statement, &public(1)), Err(ReceiptError::BadSignature)));
        let others = chain(1).statement(deed).unwrap();
        assert!(matches!(receipt.verify(&others, &public(0)), Err(ReceiptError::OtherParticipant(_))));
    }
}

/// Even where it would be the gateway that altered what is beside the signature.
#[test]
fn every_member_of_a_statement_is_signed() {
    let statement = chain(0).statement(&deeds()[7]).unwrap();
    let receipt = honest(&statement);
    let altered = [
        ReceiptStatement { operation_id: OperationId(hex32(2)), ..statement.clone() },
        ReceiptStatement { step: EffectStep::Publish, ..statement.clone() },
        ReceiptStatement { attempt: 2, ..statement.clone() },
        ReceiptStatement { admission_hash: hex32(12), ..statement.clone() },
        ReceiptStatement { subject: hex32(12), ..statement.clone() },
    ];
    for other in altered {
        assert!(matches!(receipt.verify(&other, &public(0)), Err(ReceiptError::BadSignature)), "{other:?}");
    }
    let moved = ReceiptStatement { transition_hash: hex32(12), ..statement.clone() };
    assert!(matches!(receipt.verify(&moved, &public(0)), Err(ReceiptError::OtherTransition)));
    let claims = NodeReceipt { transition_hash: hex32(12), ..receipt.clone() };
    assert!(matches!(claims.verify(&moved, &public(0)), Err(ReceiptError::BadSignature)));
    let others = ReceiptStatement { participant: ParticipantIndex(1), ..statement.clone() };
    let claims = NodeReceipt { participant: ParticipantIndex(1), ..receipt.clone() };
    assert!(matches!(claims.verify(&others, &public(0)), Err(ReceiptError::BadSignature)));
    receipt.verify(&statement, &public(0)).unwrap();
}

/// A signature that any message has under a key of small order: lax verifiers take it.
#[test]
fn a_key_under_which_anything_verifies_verifies_nothing() {
    let statement = chain(0).statement(&ReceiptKind::Admitted).unwrap();
    let (mut neutral, mut signature) = ([0; 32], [0; 64]);
    (neutral[0], signature[0]) = (1, 1);
    let receipt = NodeReceipt { signature: Signature::new(signature), ..honest(&statement) };
    let signed = pre_authentication_encoding(PAYLOAD_TYPE, &statement.payload().unwrap());
    use ed25519_dalek::Verifier as _;
    let lax = VerifyingKey::from_bytes(&neutral).unwrap();
    assert!(lax.verify(&signed, &signature.into()).is_ok());
    assert!(matches!(receipt.verify(&statement, &neutral), Err(ReceiptError::BadSignature)));
    neutral[0] = 2;
    assert!(matches!(receipt.verify(&statement, &neutral), Err(ReceiptError::BadKey)));
}

/// The same signature plus the group's order: one more text for it, which a strict reader refuses.
#[test]
fn a_signature_has_one_form() {
    let statement = chain(0).statement(&ReceiptKind::Admitted).unwrap();
    let receipt = honest(&statement);
    let mut bytes = key(ParticipantIndex(0))
        .sign(&pre_authentication_encoding(PAYLOAD_TYPE, &statement.payload().unwrap()))
        .to_bytes();
    let order = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";
    let mut carry = 0;
    for (byte, add) in bytes.iter_mut().skip(32).zip(hex::decode(order).unwrap()) {
        carry += u16::from(*byte) + u16::from(add);
        *byte = carry.to_le_bytes()[0];
        carry >>= 8;
    }
    let other = NodeReceipt { signature: Signature::new(bytes), ..receipt };
    assert!(matches!(other.verify(&statement, &public(0)), Err(ReceiptError::BadSignature)));
}

/// Signed by another program (OpenSSL) from the statement's text as it stands here.
#[test]
fn another_program_signs_the_same() {
    let deed = ReceiptKind::Signed { attempt: 2, signed_digest: hex32(7), package_hash: hex32(8) };
    let statement = chain(0).statement(&deed).unwrap();
    let vector: serde_json::Value = serde_json::from_str(include_str!("../../vectors/receipt.json")).unwrap();
    assert_eq!(String::from_utf8(statement.payload().unwrap()).unwrap(), vector["payload"]);
    assert_eq!(PAYLOAD_TYPE, vector["payload_type"]);
    assert_eq!(hex::encode(public(0)), vector["public_key_hex"]);
    let receipt: NodeReceipt = serde_json::from_value(vector["receipt"].clone()).unwrap();
    receipt.verify(&statement, &public(0)).unwrap();
    assert_eq!(receipt, honest(&statement));
    assert_eq!(serde_json::to_value(&receipt).unwrap(), vector["receipt"]);
}

#[test]
fn a_receipt_without_a_signature_is_none() {
    let receipt = serde_json::to_value(honest(&chain(0).statement(&ReceiptKind::Admitted).unwrap())).unwrap();
    let text = receipt["node_signature"].as_str().unwrap();
    for wrong in [String::new(), text[1..].to_owned(), format!("{text}00"), text.to_uppercase()] {
        let mut altered = receipt.clone();
        altered["node_signature"] = wrong.into();
        assert!(serde_json::from_value::<NodeReceipt>(altered).is_err());
    }
    let mut missing = receipt;
    missing.as_object_mut().unwrap().remove("node_signature");
    assert!(serde_json::from_value::<NodeReceipt>(missing).is_err());
}
