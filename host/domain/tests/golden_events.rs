//! The stored form of events: events of earlier releases are parsed and written back unchanged.
//!
//! A change of `golden/events.json` changes the format: rows and hashes of earlier releases would become invalid.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use gateway_domain::evidence::event_hash;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::{Change, Event};
use gateway_domain::redaction::{Salt, redact};
use serde_json::Value;
use std::collections::BTreeSet;

const GOLDEN: &str = include_str!("../golden/events.json");

/// Head of the hash chain over all events, each with a salt of 32 bytes 7. It pins the canonical bytes. Another program,
/// `golden/record_root.py`, computed it.
const RECORD_ROOT: &str = "1186acbb6aab5ae27b61ddef2884134bedc4be6037545b444dbbd3de5525d779";

/// The stored name of a change. For a new change this match does not compile, and the tests fail until it has a
/// golden event.
const fn name(change: &Change) -> &'static str {
    match change {
        Change::Submitted(_) => "submitted",
        Change::ApprovalRequested { .. } => "approval_requested",
        Change::ApprovalRecorded { .. } => "approval_recorded",
        Change::RejectionRecorded { .. } => "rejection_recorded",
        Change::ApprovalsLapsed { .. } => "approvals_lapsed",
        Change::ApprovalsWaived { .. } => "approvals_waived",
        Change::LateApprovalRecorded { .. } => "late_approval_recorded",
        Change::QuorumReached => "quorum_reached",
        Change::AdmissionPostponed { .. } => "admission_postponed",
        Change::AdmissionResumed => "admission_resumed",
        Change::DecisionSigned { .. } => "decision_signed",
        Change::AdmissionApplied { .. } => "admission_applied",
        Change::ExecutionRequested { .. } => "execution_requested",
        Change::ReceiptMaterialized { .. } => "receipt_materialized",
        Change::CeremonyStarted { .. } => "ceremony_started",
        Change::AttemptLost { .. } => "attempt_lost",
        Change::EpochDecided { .. } => "epoch_decided",
        Change::EpochAcked { .. } => "epoch_acked",
        Change::Executed { .. } => "executed",
        Change::PublicationRequested { .. } => "publication_requested",
        Change::Published { .. } => "published",
        Change::Aborted { .. } => "aborted",
        Change::DiscardAcked { .. } => "discard_acked",
        Change::NodesGivenUp { .. } => "nodes_given_up",
        Change::Failed { .. } => "failed",
        Change::ReplayNoted { .. } => "replay_noted",
        Change::RecoveryRecorded(_) => "recovery_recorded",
        Change::ExternallyExported(_) => "externally_exported",
    }
}

/// The number of arms of [`name`].
const N_CHANGES: usize = 28;

#[test]
fn golden_events_are_parsed_and_written_back_unchanged() {
    let golden: Vec<Value> = serde_json::from_str(GOLDEN).unwrap();
    for value in golden {
        let event: Event = serde_json::from_str(&value.to_string()).unwrap();
        assert_eq!(value["change"]["type"], name(&event.change));
        assert_eq!(serde_json::to_value(&event).unwrap(), value);
    }
}

#[test]
fn every_change_has_a_golden_event() {
    let events: Vec<Event> = serde_json::from_str(GOLDEN).unwrap();
    let found: BTreeSet<_> = events.iter().map(|event| name(&event.change)).collect();
    assert_eq!(found.len(), N_CHANGES, "{found:?}");
}

#[test]
fn golden_hashes_are_reproduced() {
    let events: Vec<Event> = serde_json::from_str(GOLDEN).unwrap();
    let hash =
        |previous, event| event_hash(previous, &redact(event, &Salt::new([7; 32])).unwrap().event).unwrap();
    assert_eq!(events.iter().fold(Hex32::ZERO, hash).to_string(), RECORD_ROOT);
}
