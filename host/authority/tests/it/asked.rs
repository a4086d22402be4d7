//! The requests of a gateway, honest or not, and the authority that gets them.

use crate::support::{authority, derivation, key, key_id, payment, policy};
use gateway_domain::admission::{Admission, Authorities};
use gateway_domain::approval::SigningRule;
use gateway_domain::ids::{Hex32, KeyRef};
use gateway_domain::intent::Intent;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{
    Action, Command, Event, KeySlot, Submission, decide as decide_command, open, replay,
};
use gateway_domain::policy::facts::{Rules, facts_for};
use gateway_domain::policy::{Moment, Outcome, Recorded, SpendingTotals};
use gateway_domain::testing::samples;
use gateway_domain::time::EpochMs;
use gateway_policy::testing::{
    author, committed, committed_bundle, committed_trust, engine, key as bundle_key, obliging_bundle, verify,
};
use gateway_policy::{BundleFiles, BundleOffer, CompiledBundles, Evaluator, Pins, Trust};
use policy_authority::{DecisionRequest, HistoryEvent, Policies, Record, Unverified, Verifier};
use std::sync::{Arc, LazyLock};

pub(crate) const NOW: EpochMs = EpochMs(1_700_000_000_000);
pub(crate) const TTL_MS: u64 = 60_000;

/// The bundle that limits amounts: 100 `XTS` a day from an account, 150 to a recipient.
pub(crate) const STRICT: &str = "payment-guard-strict";

/// The rules of the deployment, and of the authority: two approvals, one recipient, the submitter does not approve.
pub(crate) fn rules() -> Rules {
    Rules { permitted_recipients: "acct-2".into(), required_approvals: 2, separation_of_duties: true }
}

/// Trusts the committed bundles.
pub(crate) fn policies() -> Policies {
    static COMPILED: LazyLock<Arc<CompiledBundles>> = LazyLock::new(Arc::default);
    let trust = Trust::new(true);
    let roots = serde_json::to_vec(&committed_trust()).unwrap();
    trust.replace(Ok(&roots), Pins::default()).unwrap();
    let policies = Policies::new(trust, COMPILED.clone());
    for files in [committed(), committed_bundle(STRICT)] {
        policies.offer(offer(files), NOW).unwrap();
    }
    policies
}

pub(crate) fn offer(files: BundleFiles) -> BundleOffer {
    BundleOffer { files, activation: None }
}

/// The authority's rules, with this rule for signatures, and a record in memory.
pub(crate) fn verifier(signed_approvals: SigningRule) -> Verifier {
    Verifier {
        signed_approvals,
        rules: rules(),
        keys_without_approvals: false,
        decision_ttl_max_ms: TTL_MS,
        policies: policies(),
        record: Record::in_memory(),
        authorities: Authorities::new([authority(1).public_key()], 1).unwrap(),
    }
}

/// The decision of an authority with a record in memory.
pub(crate) fn decide(
    verifier: &Verifier,
    request: &DecisionRequest,
    now: EpochMs,
) -> Result<Admission, Unverified> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(verifier.admit(&authority(1), verifier.verify(request, now)?))
}

/// A submitted payment to this account.
pub(crate) fn submission(to: &str) -> Submission {
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
pub(crate) fn history(subjects: &[&str]) -> Vec<Event> {
    approved(submission("acct-2"), subjects)
}

pub(crate) fn approved(submission: Submission, subjects: &[&str]) -> Vec<Event> {
    let mut events = open(submission, NOW);
    for (index, subject) in subjects.iter().enumerate() {
        let operation = replay(&events).unwrap();
        let mut counted = policy(&subjects[..=index], 2);
        counted.quorum.satisfied = index > 0;
        let action = Action::Approve { approval: samples::approval(subject, NOW), policy: Some(counted) };
        events.extend(decide_command(&operation, &Command { at: NOW, action }).unwrap());
    }
    events
}

fn loaded(files: BundleFiles) -> Evaluator {
    Evaluator::load(&engine(), &verify(files, &committed_trust()).unwrap()).unwrap()
}

/// What a gateway claims to have evaluated with.
pub(crate) struct Claimed<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) key: Option<&'a CustodyKey>,
    pub(crate) totals: SpendingTotals,
}

impl Claimed<'_> {
    fn outcome(&self, evaluator: &Evaluator, events: &[Event]) -> Outcome {
        let operation = replay(events).unwrap();
        let terms = operation.intent.signing_terms();
        let facts = facts_for(self.rules, self.key, terms, Some(&self.totals), NOW);
        let asked = operation.request(Moment::Admission, &operation.approvals);
        let evaluated = evaluator.evaluate(&asked, &facts, evaluator.fuel_max());
        evaluated.raise_quorum_to(self.rules.required_approvals)
    }

    /// The request at this time, under the bundle [`STRICT`].
    pub(crate) fn strict_request(&self, events: Vec<Event>, now: EpochMs) -> DecisionRequest {
        static EVALUATOR: LazyLock<Evaluator> = LazyLock::new(|| loaded(committed_bundle(STRICT)));
        request_with(&self.outcome(&EVALUATOR, &events), events, self.key, now)
    }
}

/// The outcome of a gateway that has these rules and this key, under the default bundle.
pub(crate) fn evaluated(events: &[Event], rules: &Rules, key: Option<&CustodyKey>) -> Outcome {
    static EVALUATOR: LazyLock<Evaluator> = LazyLock::new(|| loaded(committed()));
    Claimed { rules, key, totals: SpendingTotals::default() }.outcome(&EVALUATOR, events)
}

/// The events with their hashes.
pub(crate) fn chain(events: Vec<Event>) -> Vec<HistoryEvent> {
    samples::chained(Hex32::ZERO, events).into_iter().map(HistoryEvent::from).collect()
}

pub(crate) fn request(subjects: &[&str]) -> DecisionRequest {
    request_of(history(subjects), &rules())
}

/// The request of a gateway that has these rules.
pub(crate) fn request_of(events: Vec<Event>, rules: &Rules) -> DecisionRequest {
    let key = key();
    request_with(&evaluated(&events, rules, Some(&key)), events, Some(&key), NOW)
}

/// The request for a payment with these events, which a policy allows with this obligation at the time `now`, and an authority that
/// trusts that policy.
pub(crate) fn obliged(
    events: Vec<Event>,
    rule: SigningRule,
    obligation: (&str, &str, u64),
    now: EpochMs,
) -> (Verifier, DecisionRequest) {
    let files = obliging_bundle(obligation, 1, &bundle_key(1));
    let evaluator = Evaluator::load(&engine(), &verify(files.clone(), &author()).unwrap()).unwrap();
    let key = key();
    let operation = replay(&events).unwrap();
    let facts = facts_for(&rules(), Some(&key), operation.intent.signing_terms(), None, now);
    let asked = operation.request(Moment::Admission, &operation.approvals);
    let outcome = evaluator.evaluate(&asked, &facts, evaluator.fuel_max()).raise_quorum_to(2);
    let trust = Trust::new(true);
    trust.replace(Ok(&serde_json::to_vec(&author()).unwrap()), Pins::default()).unwrap();
    let policies = Policies::new(trust, Arc::default());
    policies.offer(offer(files), now).unwrap();
    let verifier = Verifier { policies, ..verifier(rule) };
    (verifier, request_with(&outcome, events, Some(&key), now))
}

pub(crate) fn request_with(
    outcome: &Outcome,
    events: Vec<Event>,
    key: Option<&CustodyKey>,
    now: EpochMs,
) -> DecisionRequest {
    DecisionRequest {
        bundle_hash: outcome.bundle_hash,
        policy: Recorded::from(outcome),
        events: chain(events),
        key: key.cloned(),
        derivation: key.and_then(|key| derivation(&payment(None), key)),
        not_before_ms: EpochMs(now.0 - 300_000),
        not_after_ms: EpochMs(now.0 + TTL_MS),
    }
}
