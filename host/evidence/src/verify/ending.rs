//! Checks the end of the history: that the operation ended as shown, or that nothing happened after its last event.
//!
//! The log proof shows that each event was recorded, not that no later one was. An operation that is published, or that its nodes have
//! discarded, stays so: receipts show it. Everything else, "not yet" and "failed before the nodes acted", is only the gateway's word. The nodes'
//! own logs show whether they did more until then.

use super::EvidenceReader;
use super::operation::Replayed;
use crate::report::{Findings, Report};
use gateway_domain::intent::OperationType;
use gateway_domain::operation::{Change, EffectStep, Operation, Phase, Plan, State};
use gateway_domain::roster::ParticipantIndex;
use std::collections::BTreeSet;

const NAME: &str = "ending";

pub(crate) fn check(replayed: &Replayed, reader: &EvidenceReader<'_>, report: &mut Report) {
    if replayed.operation.admission.is_none() {
        let why = "what was submitted, and who approved or ended it, is claimed by the gateway alone: no authority has signed a decision";
        report.not_checked("submission", why);
    }
    match shown(replayed) {
        Some(seen) => report.add(NAME, Findings::default(), seen),
        None => check_claimed(replayed, reader, report),
    }
}

/// Why receipts show that the operation stays in its state. `None` if it is the gateway's word. The check `receipts` reports receipts that
/// are missing or forged.
fn shown(replayed: &Replayed) -> Option<String> {
    let operation = &replayed.operation;
    if operation.phase == Phase::Published {
        return Some("published, as its nodes signed".to_owned());
    }
    let is_aborted = replayed.events.iter().any(|event| matches!(event.change, Change::Aborted { .. }));
    if operation.state() != State::Failed || !is_aborted {
        return None;
    }
    let receipts = replayed.events.iter().flat_map(|event| match &event.change {
        Change::DiscardAcked { receipts } | Change::Failed { receipts, .. } => receipts.as_slice(),
        _ => &[],
    });
    let (plan, by) = (operation.plan()?, receipts.map(|receipt| receipt.participant).collect());
    let is_over = if plan.stages_epoch() { !plan.receivers.is_disjoint(&by) } else { plan.is_discarded(&by) };
    is_over.then(|| discard_line(&plan, by.len()))
}

fn discard_line(plan: &Plan, n_discarded: usize) -> String {
    if plan.stages_epoch() {
        let n_receivers = plan.receivers.len();
        return format!(
            "failed: {n_discarded} of {n_receivers} receivers of the new shares discarded them, so they cannot come in force"
        );
    }
    let (n_nodes, n_needed) = (plan.holders.len(), plan.n_holders_required);
    format!(
        "failed: {n_discarded} of {n_nodes} nodes discarded the operation, and a signature needs {n_needed}"
    )
}

/// Reports an end that only the gateway claims, and whether the nodes' own logs contradict it.
fn check_claimed(replayed: &Replayed, reader: &EvidenceReader<'_>, report: &mut Report) {
    let operation = &replayed.operation;
    let begun = begun(replayed);
    let mut beyond = Vec::new();
    for (node, log) in reader.nodes.iter().flat_map(|logs| &logs.logs) {
        for logged in log.by_operation.get(&operation.id).into_iter().flatten() {
            if !begun.contains(&logged.statement.step) {
                let step = logged.statement.step.as_str();
                beyond.push((
                    format!("/nodes/{node}/{}", logged.log_index),
                    format!("the node made the step `{step}`"),
                ));
            }
        }
    }
    let state = operation.state().as_str();
    if operation.phase == Phase::Failed && !beyond.is_empty() {
        let mut findings = Findings::default();
        for (at, what) in beyond {
            findings.add(at, format!("{what}, and the evidence does not show it"));
        }
        report.add(NAME, findings, "");
        return;
    }
    let n_events = replayed.events.len();
    if let Some((at, what)) = beyond.first() {
        report.not_checked(NAME, format!("the evidence does not show yet what followed: {at}: {what}"));
        return;
    }
    let claim = format!(
        "that it is `{state}`, and that nothing happened after event {n_events}, is claimed by the gateway alone"
    );
    let missing = missing_logs(operation, reader);
    if missing.is_empty() {
        report.not_checked(NAME, format!("{claim}; the logs of its nodes show that they did no more"));
        return;
    }
    let names = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let whose = if missing.len() == 1 { "the log of node" } else { "the logs of nodes" };
    report.not_checked(NAME, format!("{claim}: {whose} {names} would show whether they did more"));
}

/// The steps that the events show as begun: nodes may have made each of them.
fn begun(replayed: &Replayed) -> BTreeSet<EffectStep> {
    let mut begun = BTreeSet::new();
    for event in &replayed.events {
        match &event.change {
            Change::DecisionSigned { .. } => _ = begun.insert(EffectStep::Admission),
            Change::ExecutionRequested { .. } => {
                begun.insert(EffectStep::PolicyReceipt);
                // Nodes may sign before it is recorded that they do.
                if replayed.operation.intent.operation_type() == OperationType::Sign {
                    begun.extend([EffectStep::Execute, EffectStep::Discard]);
                }
            }
            // A signer that does not complete an attempt discards that attempt.
            Change::CeremonyStarted { .. } => begun.extend([EffectStep::Execute, EffectStep::Discard]),
            Change::EpochDecided { .. } => _ = begun.insert(EffectStep::CommitEpoch),
            Change::PublicationRequested { .. } => _ = begun.insert(EffectStep::Publish),
            Change::Aborted { .. } => _ = begun.insert(EffectStep::Discard),
            _ => {}
        }
    }
    begun
}

/// The nodes whose log could show more, and is not given, not sound, or lost entries. Before a decision any node could have acted.
fn missing_logs(operation: &Operation, reader: &EvidenceReader<'_>) -> BTreeSet<ParticipantIndex> {
    let planned = operation.planned_nodes();
    let nodes = if planned.is_empty() { reader.roots.nodes.keys().copied().collect() } else { planned };
    let is_whole = |node: &ParticipantIndex| {
        let log = reader.nodes.and_then(|logs| logs.logs.get(node));
        log.is_some_and(|log| log.is_sound && log.lost.is_empty())
    };
    nodes.into_iter().filter(|node| !is_whole(node)).collect()
}
