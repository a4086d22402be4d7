//! The stored form of events: what an earlier release wrote is read, and written back the same.
//!
//! A change of `golden/events.json` is a change of format: rows and hashes of earlier releases would no longer hold.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use gateway_domain::evidence::event_hash;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::{Change, Event};
use gateway_domain::redaction::{Salt, redact};
use serde_json::Value;
use std::collections::BTreeSet;

const GOLDEN: &str = include_str!("../golden/events.json");

/// Head of the hash chain over all of them, salted with sevens: pins the canonical bytes beside the JSON. Computed by
/// another program (`golden/record_root.py`).
const RECORD_ROOT: &str = "ea0691c3aa947fbfd4ac346f11f893f725ce57208bdb3da883a2651923836469";

/// The head as it was with fewer of them, before approvals had signatures and before they could be waived: what was written
/// then hashes as it did.
const EARLIER_ROOTS: [(usize, &str); 2] = [
    (25, "082f205253153010d5bd36296828cb42c5ac49ec6f7efe15d40bddfc439f01fd"),
    (27, "2f5e15ce6e29eca7d2b6bb94d7cb782667a418f2357dbc096082c1761010b348"),
];

/// Every change there is. A new one does not compile until it has a name here, and does not pass without an event.
const fn name(change: &Change) -> &'static str {
    match change {
        Change::Submitted(_) => "submitted",
        Change::ApprovalRequested { .. } => "approval_requested",
        Change::ApprovalRecorded { .. } => "approval_recorded",
        Change::ApprovalsWaived { .. } => "approvals_waived",
        Change::LateApprovalRecorded { .. } => "late_approval_recorded",
        Change::QuorumReached => "quorum_reached",
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
        Change::Failed { .. } => "failed",
        Change::ReplayNoted { .. } => "replay_noted",
        Change::RecoveryRecorded(_) => "recovery_recorded",
        Change::ExternallyExported(_) => "externally_exported",
    }
}

/// The number of arms of [`name`].
const N_CHANGES: usize = 22;

#[test]
fn every_event_is_read_and_written_back_the_same() {
    let golden: Vec<Value> = serde_json::from_str(GOLDEN).unwrap();
    for value in golden {
        let event: Event = serde_json::from_str(&value.to_string()).unwrap();
        assert_eq!(value["change"]["type"], name(&event.change));
        assert_eq!(serde_json::to_value(&event).unwrap(), value);
    }
}

#[test]
fn every_change_has_an_event() {
    let events: Vec<Event> = serde_json::from_str(GOLDEN).unwrap();
    let found: BTreeSet<_> = events.iter().map(|event| name(&event.change)).collect();
    assert_eq!(found.len(), N_CHANGES, "{found:?}");
}

#[test]
fn their_hashes_hold() {
    let events: Vec<Event> = serde_json::from_str(GOLDEN).unwrap();
    let hash =
        |previous, event| event_hash(previous, &redact(event, &Salt::new([7; 32])).unwrap().event).unwrap();
    for (n_events, root) in EARLIER_ROOTS {
        assert_eq!(events[..n_events].iter().fold(Hex32::ZERO, hash).to_string(), root);
    }
    assert_eq!(events.iter().fold(Hex32::ZERO, hash).to_string(), RECORD_ROOT);
}
