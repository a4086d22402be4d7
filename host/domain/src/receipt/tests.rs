//! Receipts signed with test keys, and altered receipts.

use super::*;
use crate::intent::OperationType;
use crate::operation::Operation;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The position of every receipt here in its node's log: larger than an IEEE double can hold exactly.
const LOG_INDEX: u64 = (1 << 53) + 1;

fn key(participant: ParticipantIndex) -> SigningKey {
    SigningKey::from_bytes(&[participant.0.to_le_bytes()[0] + 1; 32])
}

fn public(participant: u16) -> [u8; 32] {
    key(ParticipantIndex(participant)).verifying_key().to_bytes()
}

fn sign_by(key: &SigningKey, statement: &ReceiptStatement) -> NodeReceipt {
    let signed = pre_authentication_encoding(PAYLOAD_TYPE, &statement.payload(LOG_INDEX).unwrap());
    NodeReceipt {
        participant: statement.participant,
        transition_hash: statement.transition_hash,
        log_index: LOG_INDEX,
        signature: Signature::new(key.sign(&signed).to_bytes()),
    }
}

thread_local! {
    /// The simulated operations have the same statements, so each is signed and verified only once.
    static SIGNED: RefCell<BTreeMap<Vec<u8>, NodeReceipt>> = RefCell::default();
}

/// The node's valid receipt for a statement.
fn valid_receipt(statement: &ReceiptStatement) -> NodeReceipt {
    let sign = || {
        let receipt = sign_by(&key(statement.participant), statement);
        receipt.verify(statement, &public(statement.participant.0)).unwrap();
        receipt
    };
    let payload = statement.payload(LOG_INDEX).unwrap();
    SIGNED.with_borrow_mut(|signed| signed.entry(payload).or_insert_with(sign).clone())
}

/// Receipts of this kind by these nodes.
pub(crate) fn receipts(
    operation: &Operation,
    kind: ReceiptKind,
    nodes: impl Iterator<Item = ParticipantIndex>,
) -> Vec<NodeReceipt> {
    let receipt = |node| valid_receipt(&operation.receipt_chain(node).unwrap().statement(&kind).unwrap());
    nodes.map(receipt).collect()
}

/// Checks that the receipt is valid for the statement that follows from the operation.
#[track_caller]
pub(crate) fn check_receipt(operation: &Operation, kind: &ReceiptKind, receipt: &NodeReceipt) {
    let statement = operation.receipt_chain(receipt.participant).unwrap().statement(kind).unwrap();
    assert_eq!(*receipt, valid_receipt(&statement), "{kind:?}");
}

fn hex32(byte: u8) -> Hex32 {
    Hex32::new([byte; 32])
}

fn chain(participant: u16) -> Chain {
    let participant = ParticipantIndex(participant);
    Chain { admission_hash: hex32(11), operation_id: OperationId(hex32(1)), participant }
}

/// Every kind, and variations of each that differ in one member.
fn kinds() -> Vec<ReceiptKind> {
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
fn receipt_verifies_only_for_its_own_kind_and_node() {
    for (one, kind) in kinds().iter().enumerate() {
        let receipt = valid_receipt(&chain(0).statement(kind).unwrap());
        for (other, other_kind) in kinds().iter().enumerate() {
            let verified = receipt.verify(&chain(0).statement(other_kind).unwrap(), &public(0));
            assert_eq!(verified.is_ok(), one == other, "{kind:?} as {other_kind:?}");
        }
        let statement = chain(0).statement(kind).unwrap();
        assert!(matches!(receipt.verify(&statement, &public(1)), Err(ReceiptError::BadSignature)));
        let others = chain(1).statement(kind).unwrap();
        assert!(matches!(receipt.verify(&others, &public(0)), Err(ReceiptError::OtherParticipant(_))));
    }
}

#[test]
fn every_member_of_a_statement_is_signed() {
    let statement = chain(0).statement(&kinds()[7]).unwrap();
    let receipt = valid_receipt(&statement);
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
    for log_index in [LOG_INDEX - 1, LOG_INDEX + 1, 0] {
        let claims = NodeReceipt { log_index, ..receipt.clone() };
        assert!(matches!(claims.verify(&statement, &public(0)), Err(ReceiptError::BadSignature)));
    }
    receipt.verify(&statement, &public(0)).unwrap();
}

/// Lax verifiers accept one signature for every message under a key of small order.
#[test]
fn key_of_small_order_is_rejected() {
    let statement = chain(0).statement(&ReceiptKind::Admitted).unwrap();
    let (mut neutral, mut signature) = ([0; 32], [0; 64]);
    (neutral[0], signature[0]) = (1, 1);
    let receipt = NodeReceipt { signature: Signature::new(signature), ..valid_receipt(&statement) };
    let signed = pre_authentication_encoding(PAYLOAD_TYPE, &statement.payload(LOG_INDEX).unwrap());
    use ed25519_dalek::Verifier as _;
    let lax = VerifyingKey::from_bytes(&neutral).unwrap();
    assert!(lax.verify(&signed, &signature.into()).is_ok());
    assert!(matches!(receipt.verify(&statement, &neutral), Err(ReceiptError::BadSignature)));
    neutral[0] = 2;
    assert!(matches!(receipt.verify(&statement, &neutral), Err(ReceiptError::BadKey)));
}

/// Adding the group's order gives a second encoding of a signature, which strict verification rejects.
#[test]
fn second_encoding_of_a_signature_is_rejected() {
    let statement = chain(0).statement(&ReceiptKind::Admitted).unwrap();
    let receipt = valid_receipt(&statement);
    let mut bytes = key(ParticipantIndex(0))
        .sign(&pre_authentication_encoding(PAYLOAD_TYPE, &statement.payload(LOG_INDEX).unwrap()))
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

/// OpenSSL signed the statement's text in `vectors/receipt.json`.
#[test]
fn receipt_agrees_with_the_openssl_vector() {
    let kind = ReceiptKind::Signed { attempt: 2, signed_digest: hex32(7), package_hash: hex32(8) };
    let statement = chain(0).statement(&kind).unwrap();
    let vector: serde_json::Value = serde_json::from_str(include_str!("../../vectors/receipt.json")).unwrap();
    assert_eq!(String::from_utf8(statement.payload(LOG_INDEX).unwrap()).unwrap(), vector["payload"]);
    assert_eq!(PAYLOAD_TYPE, vector["payload_type"]);
    assert_eq!(hex::encode(public(0)), vector["public_key_hex"]);
    let receipt: NodeReceipt = serde_json::from_value(vector["receipt"].clone()).unwrap();
    receipt.verify(&statement, &public(0)).unwrap();
    assert_eq!(receipt, valid_receipt(&statement));
    assert_eq!(serde_json::to_value(&receipt).unwrap(), vector["receipt"]);
}

#[test]
fn receipt_without_a_valid_signature_is_not_parsed() {
    let receipt =
        serde_json::to_value(valid_receipt(&chain(0).statement(&ReceiptKind::Admitted).unwrap())).unwrap();
    let text = receipt["node_signature"].as_str().unwrap();
    for wrong in [String::new(), text[1..].to_owned(), format!("{text}00"), text.to_uppercase()] {
        let mut altered = receipt.clone();
        altered["node_signature"] = wrong.into();
        assert!(serde_json::from_value::<NodeReceipt>(altered).is_err());
    }
    for member in ["node_signature", "log_index"] {
        let mut missing = receipt.clone();
        missing.as_object_mut().unwrap().remove(member);
        assert!(serde_json::from_value::<NodeReceipt>(missing).is_err());
    }
}
