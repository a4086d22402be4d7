//! A generator of lies: an attacker who has the log's key alters each member of each event of real operations, adds, removes and moves
//! events, computes again whatever follows from them, and signs the history again. None of these documents may hold.
//!
//! What the gateway alone records, and no other party signs, it can also invent: [`RECORDS`] has these members, and
//! `host/docs/evidence.md` lists them for readers.

mod operations;

use super::nodes::Logs;
use super::reader;
use super::tampered::{leaves, values};
use crate::harness::forged::settled_again;
use gateway_cli::evidence::Bundles;
use gateway_domain::operation::{Change, Event, Failure, evaluations};
use gateway_evidence::{EvidenceReader, RerunPolicy, Roots, Verdict, verify};
use operations::Told;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The members of events that only the gateway states: type of the event, and place in it, with `*` for any.
const RECORDS: [(&str, &str); 17] = [
    ("*", "/at_ms"),
    // Without the receipts of nodes that are not needed. The digests over them follow.
    ("*", "/change/receipts"),
    ("aborted", "/change/failure/code"),
    ("aborted", "/change/failure/detail"),
    ("approval_recorded", POLICY),
    ("approvals_lapsed", POLICY),
    ("approvals_lapsed", "/change/lapsed/0/reason"),
    ("decision_signed", "/change/policy/bundle_id"),
    // Without some of them.
    ("decision_signed", "/change/policy/facts"),
    ("decision_signed", "/change/policy/fuel_used"),
    ("execution_requested", "/change/requested_at_ms"),
    ("failed", "/change/failure/code"),
    ("failed", "/change/failure/detail"),
    ("publication_requested", "/change/requested_at_ms"),
    ("publication_requested", "/change/scope"),
    ("submitted", "/change/body_digest"),
    ("submitted", POLICY),
];

/// The evaluation of the policy before the decision: nodes and authorities evaluate the one that admits. With the bundle, a reader evaluates all
/// of them again.
const POLICY: &str = "/change/policy";

/// Whether a reader with the bundle finds an invention of this record.
fn is_found_with_bundle((_, pointer): &(&str, &str)) -> bool {
    pointer.starts_with(POLICY)
}

/// With KEEP_LIES, the folder for the verifiers in other languages (`tests/clients/lies.py`): few lies are told, and kept there.
fn kept_in() -> Option<PathBuf> {
    std::env::var_os("KEEP_LIES").map(PathBuf::from)
}

/// One in so many.
const KEPT_EVERY: usize = 17;

fn record_of(event: &str, pointer: &str) -> Option<(&'static str, &'static str)> {
    let is_it = |(name, place): &&(&str, &str)| {
        (*name == "*" || *name == event)
            && (pointer == *place || (*place == POLICY && pointer.starts_with(POLICY)))
    };
    RECORDS.iter().find(is_it).copied()
}

/// Tells lies about every operation.
async fn each_told(mut lies: impl AsyncFnMut(&Told, &Roots)) {
    for told in operations::all().await {
        let roots = Roots::new(told.roots.clone()).unwrap();
        let base = told.forger.document(told.forger.events()).await;
        let verdict = told.verdict(&base, &roots);
        assert_eq!(
            verdict,
            told.expected,
            "{}: {:#?}",
            told.name,
            verify(vec![base.clone()], &reader(&roots))
        );
        told.keep(&base, verdict);
        lies(&told, &roots).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_altered_and_resigned_member_passes_but_what_the_gateway_alone_records() {
    let (mut records, mut n_lies) = (BTreeSet::new(), 0);
    each_told(async |told, roots| {
        if told.expected != Verdict::Holds {
            return;
        }
        for (index, event) in told.forger.events().iter().enumerate() {
            let (name, event) = (event.change.name(), json!(event));
            for (pointer, lie) in lies_about(told.forger.events(), index, &event) {
                let Ok(lie) = serde_json::from_value::<Vec<Event>>(lie) else { continue };
                n_lies += 1;
                let again = computed_again(&lie);
                let raw = (lie != again).then_some(lie);
                for lie in std::iter::once(again).chain(raw) {
                    let passes = told.passes(&lie, roots).await;
                    if !passes.without_bundle {
                        continue;
                    }
                    let record = record_of(name, &pointer);
                    let record = record.unwrap_or_else(|| panic!("{}: {name} {pointer} passes", told.name));
                    assert!(
                        !(passes.with_bundle && is_found_with_bundle(&record)),
                        "{}: {name} {pointer} passes with the bundle",
                        told.name
                    );
                    records.insert(record);
                }
            }
        }
    })
    .await;
    println!("{n_lies} lies");
    if kept_in().is_none() {
        assert_eq!(records, BTreeSet::from(RECORDS), "each of these members can be invented");
    }
    assert!(n_lies > 2000, "{n_lies}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_history_with_events_removed_added_or_moved_passes() {
    let mut n_lies = 0;
    each_told(async |told, roots| {
        if told.expected != Verdict::Holds {
            return;
        }
        let events = told.forger.events();
        let mut check = async |what: &str, lie: &[Event]| {
            n_lies += 1;
            assert!(!told.passes(lie, roots).await.without_bundle, "{}: {what} passes", told.name);
        };
        for index in 1..events.len() {
            let name = events[index].change.name();
            let mut lie = events.to_vec();
            let moved = lie.remove(index);
            // That the nodes stored the decision makes no difference to an operation that they discarded right after it.
            if !(name == "admission_applied" && events[index + 1].change.name() == "aborted") {
                check(&format!("without {index} {name}"), &settled_again(lie.clone())).await;
            }
            for place in 1..lie.len() {
                let mut lie = lie.clone();
                lie.insert(place, moved.clone());
                check(&format!("{index} {name} moved to {place}"), &in_order(lie)).await;
                let mut lie = events.to_vec();
                lie.insert(place, moved.clone());
                check(&format!("{index} {name} again at {place}"), &in_order(lie)).await;
            }
            let cut = &events[..index];
            check(&format!("cut off before {index} {name}"), cut).await;
            for code in ["aborted", "cancelled", "rejected", "approval_expired", "admission_expired"] {
                for aborts in [false, true] {
                    let lie = failed(cut, code, aborts);
                    check(&format!("failed as {code} before {index} {name}, aborted: {aborts}"), &lie).await;
                }
            }
        }
    })
    .await;
    println!("{n_lies} lies");
    assert!(n_lies > 2000, "{n_lies}");
}

/// The events, each at least as late as the one before it.
fn in_order(mut events: Vec<Event>) -> Vec<Event> {
    for index in 1..events.len() {
        events[index].at_ms = events[index].at_ms.max(events[index - 1].at_ms);
    }
    settled_again(events)
}

/// The events, followed by a failure without receipts.
fn failed(events: &[Event], code: &str, aborts: bool) -> Vec<Event> {
    let failure = Failure { code: code.to_owned(), detail: "it is over".to_owned(), culprits: Vec::new() };
    let last = events.last().unwrap();
    let event = |change| Event { at_ms: last.at_ms, change, requested_by: None, settles: None };
    let aborted = aborts.then(|| event(Change::Aborted { failure: failure.clone() }));
    let failed = event(Change::Failed { failure, policy: None, receipts: Vec::new() });
    events.iter().cloned().chain(aborted).chain([failed]).collect()
}

/// The bundle that decided.
static BUNDLE: LazyLock<Bundles> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundles/payment-guard");
    Bundles::load(&[folder]).unwrap()
});

/// Whether a document passes.
#[derive(Clone, Copy, Default)]
struct Passes {
    without_bundle: bool,
    with_bundle: bool,
}

impl Told {
    fn verdict(&self, document: &Value, roots: &Roots) -> Verdict {
        self.verdict_with(document, roots, None)
    }

    fn verdict_with(&self, document: &Value, roots: &Roots, rerun: Option<&dyn RerunPolicy>) -> Verdict {
        let nodes = self.logs.as_ref().map(Logs::read);
        let reader = EvidenceReader { nodes: nodes.as_ref(), rerun, ..reader(roots) };
        verify(vec![document.clone()], &reader).verdict()
    }

    async fn passes(&self, events: &[Event], roots: &Roots) -> Passes {
        if events == self.forger.events() {
            return Passes::default();
        }
        static N_LIES: AtomicUsize = AtomicUsize::new(0);
        if kept_in().is_some() && !N_LIES.fetch_add(1, Ordering::Relaxed).is_multiple_of(KEPT_EVERY) {
            return Passes::default();
        }
        let document = self.forger.document(events).await;
        let verdict = self.verdict(&document, roots);
        self.keep(&document, verdict);
        let without_bundle = verdict == Verdict::Holds;
        let with_bundle =
            without_bundle && self.verdict_with(&document, roots, Some(&*BUNDLE)) == Verdict::Holds;
        Passes { without_bundle, with_bundle }
    }

    /// Adds the document to [`kept_in`].
    fn keep(&self, document: &Value, verdict: Verdict) {
        let Some(folder) = kept_in() else { return };
        let with_logs = if self.logs.is_some() { " with logs" } else { "" };
        // Each test has a gateway of its own.
        let folder = folder.join(format!("{}{with_logs} {}", self.name, std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("roots.json"), json!(self.roots).to_string()).unwrap();
        for (node, log) in self.logs.iter().flat_map(|logs| (0..5).map(|node| (node, logs.text(node)))) {
            std::fs::write(folder.join(format!("node-{node}.log")), log).unwrap();
        }
        let line = json!({ "verdict": verdict, "document": document });
        let mut file = OpenOptions::new().create(true).append(true).open(folder.join("told.jsonl")).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// Histories in which the event at this index is another one, each with the place that differs.
fn lies_about(events: &[Event], index: usize, event: &Value) -> Vec<(String, Value)> {
    let all = json!(events);
    let is_decision = |event: &Event| matches!(event.change, Change::DecisionSigned { .. });
    let n_undecided = events.iter().position(is_decision).unwrap_or(events.len());
    let with = |altered: Value| {
        let mut all = all.clone();
        all[index] = altered;
        all
    };
    let mut lies = Vec::new();
    for pointer in leaves(event) {
        for altered in alterations(event, &pointer) {
            lies.push((pointer.clone(), with(altered)));
        }
        // The same value in all events, or in all that no authority has signed.
        let (name, value) = (pointer.rsplit('/').next().unwrap(), event.pointer(&pointer).unwrap());
        // Told about the first of them.
        if all.as_array().unwrap()[..index].iter().any(|earlier| has(earlier, name, value)) {
            continue;
        }
        for other in other_values(value) {
            for n_events in [events.len(), n_undecided] {
                let mut everywhere = all.clone();
                for event in &mut everywhere.as_array_mut().unwrap()[..n_events] {
                    replace(event, name, value, &other);
                }
                if index < n_events && !lies.iter().any(|(_, lie)| *lie == everywhere) {
                    lies.push((pointer.clone(), everywhere));
                }
            }
        }
    }
    for (pointer, value) in values(event) {
        let n_items = value.as_array().map_or(0, Vec::len);
        for item in 0..n_items {
            let mut altered = [event.clone(), event.clone(), event.clone()];
            let [without, twice, swapped] =
                altered.each_mut().map(|it| it.pointer_mut(&pointer).unwrap().as_array_mut().unwrap());
            without.remove(item);
            twice.insert(item, twice[item].clone());
            swapped.swap(item, (item + 1) % n_items);
            lies.extend(altered.map(|altered| (pointer.clone(), with(altered))));
        }
    }
    lies
}

/// The event with other values at this place, and without it.
fn alterations(event: &Value, pointer: &str) -> Vec<Value> {
    let value = event.pointer(pointer).unwrap();
    let mut altered: Vec<Value> = other_values(value)
        .into_iter()
        .map(|other| {
            let mut event = event.clone();
            *event.pointer_mut(pointer).unwrap() = other;
            event
        })
        .collect();
    let mut without = event.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match without.pointer_mut(parent).unwrap() {
        Value::Object(members) => _ = members.remove(name),
        Value::Array(items) => _ = items.remove(name.parse().unwrap()),
        _ => panic!("a parent has members"),
    }
    altered.push(without);
    altered
}

/// A value near this one and, for a number or nothing, one far from it.
fn other_values(value: &Value) -> Vec<Value> {
    let far = match value {
        Value::Number(number) => number.as_i64().map(|number| json!(number + 1000)),
        Value::Null => Some(json!(1)),
        _ => None,
    };
    std::iter::once(super::tampered::alter(value)).chain(far).collect()
}

/// Whether a member of this name has this value.
fn has(value: &Value, name: &str, wanted: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(member, value)| (member == name && value == wanted) || has(value, name, wanted)),
        Value::Array(items) => items.iter().any(|item| has(item, name, wanted)),
        _ => false,
    }
}

/// Replaces the value of each member of this name that has it.
fn replace(value: &mut Value, name: &str, from: &Value, to: &Value) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                if member == name && value == from {
                    *value = to.clone();
                } else {
                    replace(value, name, from, to);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, name, from, to)),
        _ => {}
    }
}

/// The events with all digests that follow from other members.
fn computed_again(events: &[Event]) -> Vec<Event> {
    let mut events = events.to_vec();
    if let Some(Event { change: Change::Submitted(submission), .. }) = events.first_mut() {
        submission.intent_hash = submission.intent.hash().unwrap();
        submission.key.key_id =
            gateway_domain::intent::key_id(&submission.tenant, &submission.key.key_ref).unwrap();
    }
    for evaluation in evaluations(&events) {
        let index = usize::try_from(evaluation.seq).unwrap() - 1;
        let input_hash = evaluation.input.request().digest().unwrap();
        let output_hash = evaluation.outcome.output_digest();
        match &mut events[index].change {
            Change::Submitted(submission) => {
                (submission.policy.input_hash, submission.policy.output_hash) = (input_hash, output_hash);
            }
            Change::ApprovalRecorded { policy, .. }
            | Change::ApprovalsWaived { policy }
            | Change::DecisionSigned { policy, .. } => {
                (policy.input_hash, policy.output_hash) = (input_hash, output_hash);
            }
            Change::RejectionRecorded { policy: Some(policy), .. }
            | Change::Failed { policy: Some(policy), .. } => {
                (policy.input_hash, policy.output_hash) = (input_hash, output_hash);
            }
            _ => {}
        }
    }
    let mut result = None;
    for event in &mut events {
        match &mut event.change {
            Change::EpochDecided { staged, .. } => result = staged.result_ref().ok(),
            Change::Executed { result_ref, signature: Some(signature), .. } => {
                *result_ref = signature.result_ref().unwrap();
            }
            Change::Executed { result_ref, signature: None, .. } => {
                *result_ref = result.unwrap_or(*result_ref)
            }
            _ => {}
        }
    }
    settled_again(events)
}
