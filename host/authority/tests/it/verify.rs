//! A request from another process: what the authority decides, and each lie that it refuses.

use crate::support::{authority, key, key_id, payment, policy};
use gateway_authority::{DecisionRequest, HistoryEvent, Unverified, Verifier};
use gateway_domain::admission;
use gateway_domain::approval::{Approvers, PinnedRegistry, SigningRule};
use gateway_domain::dsse::KeySet;
use gateway_domain::evidence::{ChainedEvent, event_hash};
use gateway_domain::ids::{Hex32, KeyRef};
use gateway_domain::operation::{Action, Change, Command, Event, KeySlot, Submission, decide, open, replay};
use gateway_domain::redaction::{Salt, redact};
use gateway_domain::testing::{approvers, samples};
use gateway_domain::time::EpochMs;
use std::sync::Arc;

const NOW: EpochMs = EpochMs(1_700_000_000_000);
const TTL_MS: u64 = 60_000;

/// The authority's rules, with this rule for signatures.
fn verifier(signed_approvals: SigningRule) -> Verifier {
    Verifier {
        signed_approvals,
        required_approvals: 2,
        keys_without_approvals: false,
        decision_ttl_max_ms: TTL_MS,
    }
}

/// The history of a payment that these subjects approved.
fn history(subjects: &[&str]) -> Vec<Event> {
    let submission = Submission {
        key: KeySlot { key_ref: KeyRef("treasury".into()), key_id: key_id() },
        policy: policy(&[], 2),
        ..samples::submission(payment(Some("treasury")), 2)
    };
    let mut events = open(submission, NOW);
    for (index, subject) in subjects.iter().enumerate() {
        let operation = replay(&events).unwrap();
        let mut counted = policy(&subjects[..=index], 2);
        counted.quorum.satisfied = index > 0;
        let action = Action::Approve { approval: samples::approval(subject, NOW), policy: Some(counted) };
        events.extend(decide(&operation, &Command { at: NOW, action }).unwrap());
    }
    events
}

/// The events with their hashes.
fn chain(events: Vec<Event>) -> Vec<HistoryEvent> {
    let mut previous = Hex32::ZERO;
    let chained = events.into_iter().map(|event| {
        let salt = Salt::new([7; 32]);
        let hash = event_hash(previous, &redact(&event, &salt).unwrap().event).unwrap();
        previous = hash;
        HistoryEvent::from(ChainedEvent { event, salt, hash })
    });
    chained.collect()
}

fn request(subjects: &[&str]) -> DecisionRequest {
    DecisionRequest {
        events: chain(history(subjects)),
        policy: policy(&["alice", "bob"], 2),
        key: Some(key()),
        derivation: None,
        not_before_ms: EpochMs(NOW.0 - 300_000),
        not_after_ms: EpochMs(NOW.0 + TTL_MS),
    }
}

fn refusal(request: &DecisionRequest, rule: SigningRule) -> Unverified {
    verifier(rule).decide(&authority(1), request, NOW).unwrap_err()
}

#[test]
fn approved_operation_gets_a_decision_that_verifies() {
    let request = request(&["alice", "bob"]);
    let signed = verifier(SigningRule::Off).decide(&authority(1), &request, NOW).unwrap();
    let pinned = KeySet::new([authority(1).public_key()]).unwrap();
    let read = admission::verify(&signed.envelope, &pinned, NOW).unwrap();
    let operation = replay(&history(&["alice", "bob"])).unwrap();
    assert_eq!(
        (read.decision.operation_id, read.decision.intent_hash),
        (operation.id, operation.intent_hash)
    );
}

#[test]
fn altered_reordered_or_cut_history_is_refused() {
    let valid = request(&["alice", "bob"]);
    let mut altered = valid.clone();
    let Change::Submitted(submission) = &mut altered.events[0].event.change else { panic!() };
    submission.key.key_ref = KeyRef("other".into());
    let mut cut = valid.clone();
    cut.events.remove(0);
    let mut reordered = valid.clone();
    let last = reordered.events.len() - 1;
    reordered.events.swap(last, last - 1);
    let mut other_salt = valid.clone();
    other_salt.events[0].salt = Hex32::new([9; 32]);
    let empty = DecisionRequest { events: vec![], ..valid };
    for request in [altered, cut, reordered, other_salt, empty] {
        let refused = refusal(&request, SigningRule::Off);
        assert!(matches!(refused, Unverified::Events(_)), "{refused}");
    }
    // A whole other history, consistently chained, that begins with something else than a submission.
    let mut events = history(&["alice", "bob"]);
    events.remove(0);
    let request = DecisionRequest { events: chain(events), ..request(&["alice", "bob"]) };
    let refused = refusal(&request, SigningRule::Off);
    assert!(matches!(refused, Unverified::Events("the first one is not a submission")), "{refused}");
}

#[test]
fn too_few_people_are_refused_whatever_the_policy_counted() {
    for subjects in [&[][..], &["alice"]] {
        let refused = refusal(&request(subjects), SigningRule::Off);
        assert!(matches!(refused, Unverified::TooFew { required: 2, .. }), "{refused}");
    }
}

#[test]
fn decision_that_begins_late_or_ends_late_is_refused() {
    let valid = request(&["alice", "bob"]);
    let times = [
        (NOW.0 + 1, NOW.0 + TTL_MS),
        (NOW.0 - 300_000, NOW.0),
        (NOW.0 - 300_000, NOW.0 + TTL_MS + 300_001),
        (NOW.0 - 600_001, NOW.0 + TTL_MS),
    ];
    for (not_before, not_after) in times {
        let request = DecisionRequest {
            not_before_ms: EpochMs(not_before),
            not_after_ms: EpochMs(not_after),
            ..valid.clone()
        };
        let refused = refusal(&request, SigningRule::Off);
        assert!(matches!(refused, Unverified::Times { .. }), "{not_before} {not_after}: {refused}");
    }
}

/// The gateway cannot invent approvals for an authority that requires signed ones.
#[test]
fn approval_without_a_valid_signature_is_refused() {
    let entries = [("alice", 1), ("bob", 2)]
        .map(|(name, byte)| approvers::entry(name, &[approvers::key_entry(&approvers::key(byte))]));
    let registry = Approvers::parse(approvers::registry(&entries).as_bytes()).unwrap();
    let rule = SigningRule::Required(PinnedRegistry::new(Arc::new(registry), 60_000));
    let refused = refusal(&request(&["alice", "bob"]), rule);
    let Unverified::Approval { subject_id, .. } = &refused else { panic!("{refused}") };
    assert_eq!(subject_id, "alice");
    let unread =
        refusal(&request(&["alice", "bob"]), SigningRule::Required(PinnedRegistry::without_registry(1)));
    assert!(matches!(unread, Unverified::Approval { .. }), "{unread}");
}

#[test]
fn inconsistent_request_is_refused() {
    let valid = request(&["alice", "bob"]);
    let denied = DecisionRequest {
        policy: gateway_domain::policy::Outcome {
            decision: gateway_domain::policy::Decision::Deny,
            ..valid.policy.clone()
        },
        ..valid.clone()
    };
    let no_key = DecisionRequest { key: None, ..valid.clone() };
    let counted = DecisionRequest { policy: policy(&["alice", "mallory"], 2), ..valid };
    for request in [denied, no_key, counted] {
        let refused = refusal(&request, SigningRule::Off);
        assert!(matches!(refused, Unverified::Refused(_)), "{refused}");
    }
}

/// The request survives JSON.
#[test]
fn request_is_read_as_it_was_written() {
    let request = request(&["alice", "bob"]);
    let text = serde_json::to_string(&request).unwrap();
    assert_eq!(serde_json::from_str::<DecisionRequest>(&text).unwrap(), request);
}
