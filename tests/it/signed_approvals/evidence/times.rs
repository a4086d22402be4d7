//! The time that an approver signs lies between the operation's submission and the approval's event, give or take the skew of
//! clocks that is permitted.

use super::{signed_payment, unregistered_key, verify};
use crate::harness::forged::Forger;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_evidence::roots::RootsFile;
use serde_json::{Value, json};

/// Evidence that a test can forge, and the time that Alice signed in its first approval.
struct SignedPayment {
    forger: Forger,
    roots: RootsFile,
    claimed_at_ms: u64,
}

impl SignedPayment {
    async fn new() -> Self {
        let (world, evidence, roots) = signed_payment().await;
        let forger = Forger::new(&world, &evidence).await;
        let approval = &forger.first("approval_recorded")["change"]["approval"];
        assert_eq!(approval["subject_id"], "alice");
        let claimed_at_ms = approval["claimed_at_ms"].as_u64().unwrap();
        Self { forger, roots, claimed_at_ms }
    }

    /// The findings on approvals when the first event of this kind has the time `at_ms`.
    async fn findings_with_event_at(&self, kind: &str, at_ms: u64) -> Vec<String> {
        let alter = |event: &mut Value| {
            event["at_ms"] = json!(at_ms);
            if let Some(approved_at_ms) = event.pointer_mut("/change/approval/approved_at_ms") {
                *approved_at_ms = json!(at_ms);
            }
        };
        let mut found = self.findings(&self.forger.with_event(kind, alter).await);
        found.retain(|found| found.contains("/change/approval/"));
        found
    }

    fn findings(&self, document: &Value) -> Vec<String> {
        verify(document, self.roots.clone()).findings().map(ToString::to_string).collect()
    }
}

/// Asserts that a finding reports this fault of the first approval, Alice's.
#[track_caller]
fn assert_fault(found: &[String], fault: &str) {
    let at = "/events/2/event/change/approval/signature: approval of `alice`: ";
    assert!(found.iter().any(|found| found.starts_with(&format!("{at}`{fault}`"))), "{fault}: {found:#?}");
}

/// Operation ids derive from idempotency keys. When a store is lost and the operation is submitted again, it gets the same id, so
/// without this check its old approvals would be valid again.
#[tokio::test]
async fn approval_signed_too_long_before_the_submission_is_rejected() {
    let signed = SignedPayment::new().await;
    let last = signed.claimed_at_ms + CLOCK_SKEW_MS;
    assert_eq!(signed.findings_with_event_at("submitted", last).await, [""; 0]);
    assert_fault(&signed.findings_with_event_at("submitted", last + 1).await, "too_old");
}

#[tokio::test]
async fn approval_signed_too_long_after_its_event_is_rejected() {
    let signed = SignedPayment::new().await;
    let first = signed.claimed_at_ms - CLOCK_SKEW_MS;
    assert_eq!(signed.findings_with_event_at("approval_recorded", first).await, [""; 0]);
    assert_fault(&signed.findings_with_event_at("approval_recorded", first - 1).await, "in_future");
}

#[tokio::test]
async fn claimed_time_is_covered_by_the_approvers_signature() {
    let signed = SignedPayment::new().await;
    let alter = |event: &mut Value| {
        event["change"]["approval"]["claimed_at_ms"] = json!(signed.claimed_at_ms + 1);
    };
    assert_fault(
        &signed.findings(&signed.forger.with_event("approval_recorded", alter).await),
        "bad_signature",
    );
}

/// A late approval does not affect the operation, but the verifier checks it all the same.
#[tokio::test]
async fn approval_after_the_quorum_is_checked_too() {
    let signed = SignedPayment::new().await;
    let late = |subject: &str, key: &Value| {
        let mut event = signed.forger.first("approval_recorded");
        let mut approval = event["change"]["approval"].clone();
        approval["subject_id"] = json!(subject);
        approval["signature"]["public_key"] = key.clone();
        event["at_ms"] = signed.forger.first("published")["at_ms"].clone();
        approval["approved_at_ms"] = event["at_ms"].clone();
        event["change"] = json!({ "type": "late_approval_recorded", "approval": approval });
        event
    };
    for (subject, fault) in [("tina", "unknown_key"), ("mallory", "unknown_approver")] {
        let document =
            signed.forger.with_events(|events| events.push(late(subject, &unregistered_key()))).await;
        let found = signed.findings(&document);
        assert!(found.len() == 1 && found[0].contains(&format!("`{fault}`")), "{found:?}");
    }
}
