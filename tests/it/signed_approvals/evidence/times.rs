//! When approvers signed, by their own clocks: a gateway cannot move an approval to another time.

use super::{other_key, signed, verified};
use crate::harness::forged::Forger;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_evidence::roots::RootsFile;
use serde_json::{Value, json};

/// The altered approval: Alice's, the first one.
struct Signed {
    forger: Forger,
    roots: RootsFile,
    claimed_at_ms: u64,
}

impl Signed {
    async fn new() -> Self {
        let (world, evidence, roots) = signed().await;
        let forger = Forger::of(&world, &evidence).await;
        let approval = &forger.first("approval_recorded")["change"]["approval"];
        assert_eq!(approval["subject_id"], "alice");
        let claimed_at_ms = approval["claimed_at_ms"].as_u64().unwrap();
        Self { forger, roots, claimed_at_ms }
    }

    /// The findings on approvals when the first event of this kind is dated `at`, without the findings on time going back.
    async fn found_at(&self, kind: &str, at_ms: u64) -> Vec<String> {
        let alter = |event: &mut Value| {
            event["at_ms"] = json!(at_ms);
            if let Some(taken_at) = event.pointer_mut("/change/approval/approved_at_ms") {
                *taken_at = json!(at_ms);
            }
        };
        let mut found = self.found(&self.forger.event(kind, alter).await);
        found.retain(|found| found.contains("/change/approval/"));
        found
    }

    fn found(&self, document: &Value) -> Vec<String> {
        verified(document, self.roots.clone()).findings().map(ToString::to_string).collect()
    }
}

/// One finding, on the first approval.
#[track_caller]
fn assert_is(found: &[String], fault: &str) {
    let at = "/events/2/event/change/approval/signature: approval of `alice`: ";
    assert!(found.iter().any(|found| found.starts_with(&format!("{at}`{fault}`"))), "{fault}: {found:#?}");
}

/// Operation ids follow from their names: an old approval would fit a new operation of the same name.
#[tokio::test]
async fn approval_dated_before_the_submission_is_rejected() {
    let signed = Signed::new().await;
    let last = signed.claimed_at_ms + CLOCK_SKEW_MS;
    assert_eq!(signed.found_at("submitted", last).await, [""; 0]);
    assert_is(&signed.found_at("submitted", last + 1).await, "too_old");
}

#[tokio::test]
async fn approval_dated_after_its_event_is_rejected() {
    let signed = Signed::new().await;
    let first = signed.claimed_at_ms - CLOCK_SKEW_MS;
    assert_eq!(signed.found_at("approval_recorded", first).await, [""; 0]);
    assert_is(&signed.found_at("approval_recorded", first - 1).await, "in_future");
}

#[tokio::test]
async fn claimed_time_is_covered_by_the_approvers_signature() {
    let signed = Signed::new().await;
    let alter = |event: &mut Value| {
        event["change"]["approval"]["claimed_at_ms"] = json!(signed.claimed_at_ms + 1);
    };
    assert_is(&signed.found(&signed.forger.event("approval_recorded", alter).await), "bad_signature");
}

/// Such an approval has no effect, but readers see it.
#[tokio::test]
async fn approval_after_the_quorum_is_checked_too() {
    let signed = Signed::new().await;
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
    for (subject, fault) in [("tina", "unknown_key"), ("nobody", "unknown_approver")] {
        let written = signed.forger.events(|events| events.push(late(subject, &other_key()))).await;
        let found = signed.found(&written);
        assert!(found.len() == 1 && found[0].contains(&format!("`{fault}`")), "{found:?}");
    }
}
