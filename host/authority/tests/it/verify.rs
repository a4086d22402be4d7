//! A request from another process: what the authority decides, and each lie that it refuses.

use crate::asked::{
    NOW, TTL_MS, approved, chain, decide, evaluated, history, offer, policies, request, request_of, rules,
    submission, verifier,
};
use crate::support::{authority, key};
use gateway_domain::admission::{self, Authorities};
use gateway_domain::approval::{Approvers, LapsedApproval, PinnedRegistry, Rejection, SigningRule};
use gateway_domain::ids::{Hex32, KeyRef, Tenant};
use gateway_domain::intent::PublicationMode;
use gateway_domain::operation::{Action, Change, Command, decide as decide_command, replay};
use gateway_domain::policy::facts::Rules;
use gateway_domain::policy::{FactRead, Recorded};
use gateway_domain::testing::samples::Kind;
use gateway_domain::testing::{approvers, samples};
use gateway_domain::time::EpochMs;
use gateway_policy::limits::SUPERSEDED_BUNDLE_MS;
use gateway_policy::testing::{author, committed, key as bundle_key, signed};
use gateway_policy::{BundleError, BundleFiles, Disagreement, Pins, RepeatError, Trust};
use policy_authority::{DecisionRequest, Policies, Unverified, Verifier};
use serde_json::json;
use std::sync::Arc;

fn refusal(request: &DecisionRequest, rule: SigningRule) -> Unverified {
    decide(&verifier(rule), request, NOW).unwrap_err()
}

#[test]
fn approved_operation_gets_a_decision_that_verifies() {
    let request = request(&["alice", "bob"]);
    let signed = decide(&verifier(SigningRule::Off), &request, NOW).unwrap();
    let pinned = Authorities::new([authority(1).public_key()], 1).unwrap();
    let read = admission::verify(&signed.envelope, &pinned, NOW).unwrap();
    let operation = replay(&history(&["alice", "bob"])).unwrap();
    assert_eq!(
        (read.decision.operation_id, read.decision.intent_hash),
        (operation.id, operation.intent_hash)
    );
    let own = evaluated(&history(&["alice", "bob"]), &rules(), Some(&key()));
    assert_eq!(
        (read.decision.bundle_hash, read.decision.policy_input_hash, read.decision.policy_output_hash),
        (own.bundle_hash, own.input_hash, own.output_hash)
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
fn operation_that_was_rejected_cancelled_or_decided_gets_no_decision() {
    let valid = history(&["alice", "bob"]);
    let operation = replay(&valid).unwrap();
    let rejection = Rejection {
        subject_id: "alice".into(),
        roles: vec![],
        registered: None,
        reason: "no".into(),
        lost: None,
        claimed_at_ms: 0,
        rejected_at_ms: NOW,
        signature: None,
    };
    let client = Some(operation.submitter.clone());
    let ends =
        [Action::Reject { rejection, policy: None }, Action::Cancel { client, reason: "twice".into() }];
    for action in ends {
        let ended = decide_command(&operation, &Command { at: NOW, action }).unwrap();
        let request = request_of([valid.clone(), ended].concat(), &rules());
        let refused = refusal(&request, SigningRule::Off);
        assert!(
            matches!(refused, Unverified::Events("the operation does not await a decision")),
            "{refused}"
        );
    }
}

#[test]
fn too_few_people_are_refused_whatever_the_policy_counted() {
    for subjects in [&[][..], &["alice"], &["alice", "ALICE"]] {
        let refused = refusal(&request(subjects), SigningRule::Off);
        assert!(matches!(refused, Unverified::TooFew { required: 2, .. }), "{refused}");
        assert!(refused.is_final());
    }
}

/// A gateway that creates keys on first use creates none at an authority that requires signed approvals.
#[test]
fn creation_of_a_key_needs_approvals_where_approvals_must_be_signed() {
    let mut events = history(&[]);
    let Change::Submitted(submission) = &mut events[0].change else { panic!("{:?}", events[0]) };
    submission.intent = samples::intent(Kind::KeyCreate, PublicationMode::Manual);
    let asked = DecisionRequest { events: chain(events), ..request(&["alice", "bob"]) };
    let refused = |signed_approvals| {
        let verifier = Verifier { keys_without_approvals: true, ..verifier(signed_approvals) };
        decide(&verifier, &asked, NOW).unwrap_err()
    };
    let required = refused(SigningRule::Required(PinnedRegistry::without_registry(1)));
    assert!(matches!(required, Unverified::TooFew { n_approved: 0, required: 2 }), "{required}");
    let not_required = refused(SigningRule::Off);
    assert!(!matches!(not_required, Unverified::TooFew { .. }), "{not_required}");
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
    let lapsed = LapsedApproval { subject_id: "alice".to_owned(), reason: "not_signed".to_owned() };
    assert_eq!((refused.lapsed(), refused.is_final()), (Some(lapsed), false));
    let unread =
        refusal(&request(&["alice", "bob"]), SigningRule::Required(PinnedRegistry::without_registry(1)));
    assert!(matches!(unread, Unverified::Approval { .. }), "{unread}");
    assert_eq!((unread.lapsed(), unread.is_final()), (None, false), "the registry may be readable soon");
}

/// What the gateway says of people must be what the authority's registry says.
#[test]
fn other_person_or_attribute_than_the_registry_s_is_refused() {
    let mut carol = approvers::entry("carol", &[approvers::key_entry(&approvers::key(3))]);
    carol["attributes"] = json!({ "team": "sales" });
    let mut alice = approvers::entry("alice", &[approvers::key_entry(&approvers::key(1))]);
    alice["person"] = json!("a.meier");
    let registry = Approvers::parse(approvers::registry(&[alice, carol]).as_bytes()).unwrap();
    let rule = SigningRule::Optional(PinnedRegistry::new(Arc::new(registry), 60_000));
    let registered = |subject: &str| rule.registered(&Tenant("default".into()), subject).unwrap();
    let sound = || {
        let mut events = history(&["alice", "bob"]);
        for event in &mut events {
            match &mut event.change {
                Change::Submitted(submission) => submission.submitter.registered = registered("carol"),
                Change::ApprovalRecorded { approval, .. } => {
                    approval.registered = registered(&approval.subject_id)
                }
                _ => {}
            }
        }
        events
    };
    assert!(decide(&verifier(rule.clone()), &request_of(sound(), &rules()), NOW).is_ok());
    let mut of_other_team = sound();
    let Change::Submitted(submission) = &mut of_other_team[0].change else { panic!() };
    submission.submitter.registered.as_mut().unwrap().attributes.insert("team".into(), "treasury".into());
    let refused = refusal(&request_of(of_other_team, &rules()), rule.clone());
    assert!(matches!(refused, Unverified::Submitter { .. }) && refused.is_final(), "{refused}");
    let mut unnamed = sound();
    let approved = unnamed.iter_mut().find_map(|event| match &mut event.change {
        Change::ApprovalRecorded { approval, .. } => Some(approval),
        _ => None,
    });
    approved.unwrap().registered = None;
    let refused = refusal(&request_of(unnamed, &rules()), rule.clone());
    let lapsed = LapsedApproval { subject_id: "alice".to_owned(), reason: "other_registered".to_owned() };
    assert_eq!(refused.lapsed(), Some(lapsed), "{refused}");
    let refused = refusal(&request_of(sound(), &rules()), SigningRule::Off);
    assert!(matches!(refused, Unverified::Approval { .. }), "an authority without a registry: {refused}");
}

/// The policy may not ask, and a gateway may record both approvals.
#[test]
fn two_subjects_of_one_person_count_once() {
    let mut phone = approvers::entry("phone", &[approvers::key_entry(&approvers::key(3))]);
    phone["person"] = json!("alice");
    let registry = Approvers::parse(approvers::registry(&[phone]).as_bytes()).unwrap();
    let rule = SigningRule::Optional(PinnedRegistry::new(Arc::new(registry), 60_000));
    let mut events = history(&["alice", "phone"]);
    for event in &mut events {
        if let Change::ApprovalRecorded { approval, .. } = &mut event.change {
            approval.registered = rule.registered(&Tenant("default".into()), &approval.subject_id).unwrap();
        }
    }
    let refused = refusal(&request_of(events, &rules()), rule);
    assert!(matches!(refused, Unverified::TooFew { n_approved: 1, required: 2 }), "{refused}");
}

#[test]
fn submitter_s_own_approval_does_not_count_if_the_duties_are_separated() {
    let joint = Rules { separation_of_duties: false, ..rules() };
    let request = request_of(history(&["alice", "carol"]), &joint);
    let refused = refusal(&request, SigningRule::Off);
    assert!(matches!(refused, Unverified::TooFew { n_approved: 1, required: 2 }), "{refused}");
}

#[test]
fn operation_that_the_policy_denies_gets_no_decision() {
    // The gateway's own record of the denial, and a record of a payment that the policy allows.
    let denied = approved(submission("acct-9"), &["alice", "bob"]);
    let record = request_of(denied.clone(), &rules());
    let refused = refusal(&record, SigningRule::Off);
    assert!(matches!(refused, Unverified::Policy(Disagreement::Denied(_))), "{refused}");
    let other = DecisionRequest { policy: request(&["alice", "bob"]).policy, ..record };
    let refused = refusal(&other, SigningRule::Off);
    assert!(matches!(refused, Unverified::Policy(_) | Unverified::NotRepeated(_)), "{refused}");
}

#[test]
fn facts_that_the_authority_knows_otherwise_are_refused() {
    let denied = approved(submission("acct-9"), &["alice", "bob"]);
    let any = Rules { permitted_recipients: "*".into(), ..rules() };
    let joint = Rules { separation_of_duties: false, ..rules() };
    for (events, rules, fact) in [
        (denied, any, "deployment.permitted_recipients"),
        (history(&["alice", "bob"]), joint, "deployment.separation_of_duties"),
    ] {
        let refused = refusal(&request_of(events, &rules), SigningRule::Off);
        let Unverified::Policy(Disagreement::Fact(shown)) = &refused else { panic!("{refused}") };
        assert!(shown.starts_with(fact), "{shown}");
    }
}

#[test]
fn record_of_another_run_of_the_policy_is_refused() {
    let valid = request(&["alice", "bob"]);
    let mut more_fuel = valid.clone();
    more_fuel.policy.fuel_used += 1;
    let refused = refusal(&more_fuel, SigningRule::Off);
    assert!(matches!(refused, Unverified::NotRepeated(RepeatError::OtherFuel { .. })), "{refused}");
    let mut fewer_facts = valid.clone();
    fewer_facts.policy.facts.pop();
    let mut more_facts = valid;
    more_facts.policy.facts.push(FactRead { name: "x.more".into(), value: Some("1".into()) });
    for request in [fewer_facts, more_facts] {
        let refused = refusal(&request, SigningRule::Off);
        assert!(matches!(refused, Unverified::NotRepeated(RepeatError::OtherFacts)), "{refused}");
    }
}

/// The gateway names a bundle by its hash, and the authority believes signatures only.
#[test]
fn bundle_that_is_unknown_untrusted_or_older_decides_nothing() {
    let valid = request(&["alice", "bob"]);
    let unknown = DecisionRequest { bundle_hash: Hex32::new([7; 32]), ..valid.clone() };
    let refused = refusal(&unknown, SigningRule::Off);
    assert!(matches!(refused, Unverified::BundleUnknown { .. }), "{refused}");
    let forged = signed(&committed(), &[&bundle_key(66)], |_| {});
    let refused = policies().offer(offer(forged), NOW).unwrap_err();
    assert!(matches!(refused, BundleError::RoleUnmet { .. }), "{refused}");

    let release = |sequence| signed(&committed(), &[&bundle_key(1)], |manifest| manifest.sequence = sequence);
    let trust = Trust::new(true);
    let trusting = |pins| trust.replace(Ok(&serde_json::to_vec(&author()).unwrap()), pins).unwrap();
    trusting(Pins::default());
    let own =
        Verifier { policies: Policies::new(trust.clone(), Arc::default()), ..verifier(SigningRule::Off) };
    let (old, new) = (release(1), release(2));
    let by =
        |files: &BundleFiles| DecisionRequest { bundle_hash: files.bundle_hash().unwrap(), ..valid.clone() };
    for files in [&old, &new] {
        own.policies.offer(offer(files.clone()), NOW).unwrap();
    }
    let at = |files: &BundleFiles, now| decide(&own, &by(files), now).map(drop);
    at(&old, NOW).unwrap();
    at(&new, NOW).unwrap();
    at(&old, NOW).unwrap();
    let later = |mut request: DecisionRequest| {
        let now = NOW.plus_ms(SUPERSEDED_BUNDLE_MS);
        request.not_before_ms = now;
        request.not_after_ms = now.plus_ms(TTL_MS);
        let time = request.policy.facts.iter_mut().find(|fact| fact.name == "time.now_ms");
        assert!(time.is_none(), "the policy does not read the time");
        decide(&own, &request, now).map(drop)
    };
    let refused = later(by(&old)).unwrap_err();
    assert!(matches!(refused, Unverified::Superseded(_)), "{refused}");
    later(by(&new)).unwrap();
    trusting(Pins::parse(&old.bundle_hash().unwrap().to_string()).unwrap());
    later(by(&old)).unwrap();
    let refused = later(by(&new)).unwrap_err();
    assert!(matches!(refused, Unverified::Bundle(BundleError::NotPinned(_))), "{refused}");
    assert!(trust.replace(Err(BundleError::NoTrustRoots), Pins::default()).is_err());
    let refused = later(by(&old)).unwrap_err();
    assert!(matches!(refused, Unverified::Bundle(BundleError::NoTrustRoots)), "{refused}");
}

#[test]
fn request_without_the_operation_s_key_is_refused() {
    let events = history(&["alice", "bob"]);
    let outcome = evaluated(&events, &rules(), None);
    let no_key =
        DecisionRequest { key: None, policy: Recorded::from(&outcome), ..request(&["alice", "bob"]) };
    let refused = refusal(&no_key, SigningRule::Off);
    assert!(matches!(refused, Unverified::Refused(_)), "{refused}");
}

/// The request survives JSON.
#[test]
fn request_is_read_as_it_was_written() {
    let request = request(&["alice", "bob"]);
    let text = serde_json::to_string(&request).unwrap();
    assert_eq!(serde_json::from_str::<DecisionRequest>(&text).unwrap(), request);
}
