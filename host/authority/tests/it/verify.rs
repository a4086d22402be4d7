//! A request from another process: what the authority decides, and each lie that it refuses.

use crate::support::{authority, derivation, key, key_id, payment, policy};
use gateway_authority::{DecisionRequest, HistoryEvent, Policies, Unverified, Verifier};
use gateway_domain::admission::{self, Authorities};
use gateway_domain::approval::{Approvers, PinnedRegistry, Rejection, SigningRule};
use gateway_domain::evidence::{ChainedEvent, event_hash};
use gateway_domain::ids::{Hex32, KeyRef};
use gateway_domain::intent::{Intent, PublicationMode};
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Action, Change, Command, Event, KeySlot, Submission, decide, open, replay};
use gateway_domain::policy::facts::{Rules, facts_for};
use gateway_domain::policy::{FactRead, Moment, Outcome, Recorded, SpendingTotals};
use gateway_domain::redaction::{Salt, redact};
use gateway_domain::testing::samples::Kind;
use gateway_domain::testing::{approvers, samples};
use gateway_domain::time::EpochMs;
use gateway_policy::limits::SUPERSEDED_BUNDLE_MS;
use gateway_policy::testing::{
    author, committed, committed_trust, engine, key as bundle_key, signed, verify,
};
use gateway_policy::{
    BundleError, BundleFiles, BundleOffer, CompiledBundles, Disagreement, Evaluator, Pins, RepeatError, Trust,
};
use std::sync::{Arc, LazyLock};

const NOW: EpochMs = EpochMs(1_700_000_000_000);
const TTL_MS: u64 = 60_000;

/// The rules of the deployment, and of the authority: two approvals, one recipient, the submitter does not approve.
fn rules() -> Rules {
    Rules { permitted_recipients: "acct-2".into(), required_approvals: 2, separation_of_duties: true }
}

/// Trusts the committed bundles.
fn policies() -> Policies {
    static COMPILED: LazyLock<Arc<CompiledBundles>> = LazyLock::new(Arc::default);
    let trust = Trust::new(true);
    let roots = serde_json::to_vec(&committed_trust()).unwrap();
    trust.replace(Ok(&roots), Pins::default()).unwrap();
    let policies = Policies::new(trust, COMPILED.clone());
    policies.offer(offer(committed()), NOW).unwrap();
    policies
}

fn offer(files: BundleFiles) -> BundleOffer {
    BundleOffer { files, activation: None }
}

/// The authority's rules, with this rule for signatures.
fn verifier(signed_approvals: SigningRule) -> Verifier {
    Verifier {
        signed_approvals,
        rules: rules(),
        keys_without_approvals: false,
        decision_ttl_max_ms: TTL_MS,
        policies: policies(),
    }
}

/// A submitted payment to this account.
fn submission(to: &str) -> Submission {
    let mut payment = payment(Some("treasury"));
    let Intent::Payment(fields) = &mut payment else { panic!() };
    fields.to_account = to.to_owned();
    Submission {
        key: KeySlot { key_ref: KeyRef("treasury".into()), key_id: key_id() },
        policy: policy(&[], 2),
        ..samples::submission(payment, 2)
    }
}

/// The history of a payment that these subjects approved.
fn history(subjects: &[&str]) -> Vec<Event> {
    approved(submission("acct-2"), subjects)
}

fn approved(submission: Submission, subjects: &[&str]) -> Vec<Event> {
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

/// The outcome of a gateway that has these rules and this key.
fn evaluated(events: &[Event], rules: &Rules, key: Option<&CustodyKey>) -> Outcome {
    static EVALUATOR: LazyLock<Evaluator> = LazyLock::new(|| {
        let bundle = verify(committed(), &committed_trust()).unwrap();
        Evaluator::load(&engine(), &bundle).unwrap()
    });
    let operation = replay(events).unwrap();
    let totals = SpendingTotals::default();
    let facts = facts_for(rules, key, operation.intent.signing_terms(), Some(&totals), NOW);
    let asked = operation.request(Moment::Admission, &operation.approvals);
    EVALUATOR.evaluate(&asked, &facts, EVALUATOR.fuel_max()).outcome.raise_quorum_to(rules.required_approvals)
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
    request_of(history(subjects), &rules())
}

/// The request of a gateway that has these rules.
fn request_of(events: Vec<Event>, rules: &Rules) -> DecisionRequest {
    let outcome = evaluated(&events, rules, Some(&key()));
    DecisionRequest {
        bundle_hash: outcome.bundle_hash,
        policy: Recorded::from(&outcome),
        events: chain(events),
        key: Some(key()),
        derivation: derivation(&payment(None), &key()),
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
        reason: "no".into(),
        claimed_at_ms: 0,
        rejected_at_ms: NOW,
        signature: None,
    };
    let client = Some(operation.submitter.clone());
    let ends =
        [Action::Reject { rejection, policy: None }, Action::Cancel { client, reason: "twice".into() }];
    for action in ends {
        let ended = decide(&operation, &Command { at: NOW, action }).unwrap();
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
    for subjects in [&[][..], &["alice"]] {
        let refused = refusal(&request(subjects), SigningRule::Off);
        assert!(matches!(refused, Unverified::TooFew { required: 2, .. }), "{refused}");
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
        verifier.decide(&authority(1), &asked, NOW).unwrap_err()
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
    let unread =
        refusal(&request(&["alice", "bob"]), SigningRule::Required(PinnedRegistry::without_registry(1)));
    assert!(matches!(unread, Unverified::Approval { .. }), "{unread}");
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
    let at = |files: &BundleFiles, now| own.decide(&authority(1), &by(files), now).map(drop);
    at(&old, NOW).unwrap();
    at(&new, NOW).unwrap();
    at(&old, NOW).unwrap();
    let later = |mut request: DecisionRequest| {
        let now = NOW.plus_ms(SUPERSEDED_BUNDLE_MS);
        request.not_before_ms = now;
        request.not_after_ms = now.plus_ms(TTL_MS);
        let time = request.policy.facts.iter_mut().find(|fact| fact.name == "time.now_ms");
        assert!(time.is_none(), "the policy does not read the time");
        own.decide(&authority(1), &request, now).map(drop)
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
