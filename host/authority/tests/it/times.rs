//! A gateway asks for a decision before the time that the policy requires, or over approvals that are too old, or dates approvals back.

use crate::asked::{NOW, decide, history, obliged};
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::approval::{ApprovalError, Approvers, LapsedApproval, PinnedRegistry, SigningRule};
use gateway_domain::operation::{Change, Event, replay};
use gateway_domain::testing::approvers::{self, entry, key_entry};
use gateway_domain::time::EpochMs;
use gateway_policy::Disagreement;
use policy_authority::Unverified;
use std::sync::Arc;

type Obligation<'a> = (&'a str, &'a str, u64);

fn decided(obligation: Obligation<'_>, now: EpochMs) -> Result<(), Unverified> {
    let (verifier, request) = obliged(history(&["alice", "bob"]), SigningRule::Off, obligation, now);
    decide(&verifier, &request, now).map(drop)
}

/// As [`decided`], with approvals that Alice and Bob signed at [`NOW`], may be a minute old, and were received so long before that.
fn decided_over_signed(
    obligation: Obligation<'_>,
    received_before_ms: u64,
    now: EpochMs,
) -> Result<(), Unverified> {
    let entries =
        [("alice", 1), ("bob", 2)].map(|(name, byte)| entry(name, &[key_entry(&approvers::key(byte))]));
    let registry = Approvers::parse(approvers::registry(&entries).as_bytes()).unwrap();
    let rule = SigningRule::Required(PinnedRegistry::new(Arc::new(registry), 60_000));
    let (verifier, request) = obliged(signed_history(received_before_ms), rule, obligation, now);
    decide(&verifier, &request, now).map(drop)
}

fn signed_history(received_before_ms: u64) -> Vec<Event> {
    let mut events = history(&["alice", "bob"]);
    let operation = replay(&events).unwrap();
    let recorded = events.iter_mut().filter_map(|event| match &mut event.change {
        Change::ApprovalRecorded { approval, .. } => Some(approval),
        _ => None,
    });
    for (approval, byte) in recorded.zip(1..) {
        approval.claimed_at_ms = NOW.0.cast_signed();
        approval.approved_at_ms = EpochMs(NOW.0 - received_before_ms);
        let (subject, key) = (operation.approval_subject(), approvers::key(byte));
        *approval = approvers::signed(approval.clone(), &subject, &key);
    }
    events
}

#[test]
fn decision_before_the_time_that_the_policy_requires_is_refused() {
    let last = NOW.0 + CLOCK_SKEW_MS;
    decided(("admit_not_before", "at_ms", last), NOW).unwrap();
    let refused = decided(("admit_not_before", "at_ms", last + 1), NOW).unwrap_err();
    let early = Disagreement::TooEarly { until_ms: last + 1, now_ms: NOW.0 };
    assert!(matches!(&refused, Unverified::Policy(why) if *why == early), "{refused}");
    assert_eq!((refused.lapsed(), refused.is_final()), (None, false), "it can be asked for later");
}

#[test]
fn approval_older_than_the_policy_lets_it_count_is_refused_and_lapses() {
    let now = NOW.plus_ms(60_000 + CLOCK_SKEW_MS);
    decided(("approvals_expire_ms", "ms", 60_000), now).unwrap();
    let refused = decided(("approvals_expire_ms", "ms", 59_999), now).unwrap_err();
    assert!(matches!(&refused, Unverified::Policy(Disagreement::Outlived { .. })), "{refused}");
    let lapsed = LapsedApproval { subject_id: "alice".to_owned(), reason: "too_old".to_owned() };
    assert_eq!((refused.lapsed(), refused.is_final()), (Some(lapsed), false));
}

#[test]
fn approval_dated_before_its_approver_signed_it_is_refused() {
    let waits = ("admit_not_before", "at_ms", 1);
    decided_over_signed(waits, CLOCK_SKEW_MS, NOW).unwrap();
    let refused = decided_over_signed(waits, CLOCK_SKEW_MS + 1, NOW).unwrap_err();
    let Unverified::Approval { fault, .. } = &refused else { panic!("{refused}") };
    assert_eq!((fault, fault.as_str()), (&ApprovalError::Backdated, "backdated"));
}

/// Approvals that may be a minute old wait for as long as the policy says, and then for a minute.
#[test]
fn wait_that_the_policy_requires_does_not_make_approvals_too_old() {
    let waits = ("admit_not_before", "at_ms", NOW.0 + 100_000);
    decided_over_signed(waits, 0, NOW.plus_ms(160_000)).unwrap();
    let refused = decided_over_signed(waits, 0, NOW.plus_ms(160_001)).unwrap_err();
    let Unverified::Approval { fault, .. } = &refused else { panic!("{refused}") };
    assert_eq!(fault, &ApprovalError::TooOld);
}
