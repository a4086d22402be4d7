//! Compares the document with the nodes' own logs: each receipt is at its position, and every share that a node released for the
//! operation is shown.
//!
//! A gateway that has at least one signature share that it does not show could have completed a signature with shares of corrupted
//! nodes, whose logs prove nothing. So each share in a log must be in a receipt, of an attempt whose loss the events show, or of another
//! package of the attempt that made the signature shown: two replicas of a gateway can make two packages for one attempt.

use super::operation::Replayed;
use crate::node_logs::{Logged, NodeLogs, releases};
use crate::report::{Findings, Report, Status};
use crate::summary::for_each_event;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::OperationType;
use gateway_domain::node_log::ReleasedShare;
use gateway_domain::operation::{Change, EffectStep, Operation, Phase, signed_receipts};
use gateway_domain::receipt::{NodeReceipt, ReceiptKind, ReceiptStatement};
use gateway_domain::roster::ParticipantIndex;
use std::collections::{BTreeMap, BTreeSet};

const LOGS: &str = "node logs";
const RELEASED: &str = "released shares";

pub(crate) fn check(replayed: Option<&Replayed>, logs: &NodeLogs, report: &mut Report) {
    check_logs(logs, report);
    match replayed {
        Some(replayed) => Comparison::new(replayed, logs).check(report),
        None => {
            report.not_checked(RELEASED, "the complete history is needed to compare it with the nodes' logs")
        }
    }
}

/// Reports what the logs alone show.
pub(crate) fn check_logs(logs: &NodeLogs, report: &mut Report) {
    if logs.findings.is_empty() && !logs.unchecked.is_empty() {
        report.not_checked(LOGS, logs.unchecked.join("; "));
        return;
    }
    let n_entries: u64 = logs.logs.values().map(|log| log.size).sum();
    let seen = format!("{n_entries} entries of {} nodes, under signed heads", logs.logs.len());
    let status =
        if logs.findings.is_empty() { Status::Holds(seen) } else { Status::Fails(logs.findings.clone()) };
    report.checks.push(super::Check { name: LOGS, status });
}

struct Comparison<'a> {
    replayed: &'a Replayed,
    logs: &'a NodeLogs,
    /// Each receipt of the events: node and position.
    shown: BTreeSet<(ParticipantIndex, u64)>,
    /// The attempts whose loss the events show.
    lost_attempts: BTreeSet<u32>,
    findings: Findings,
    /// Entries that newer evidence may show.
    pending: Vec<String>,
    /// Shares of packages that were not completed, by package.
    abandoned: BTreeMap<Hex32, BTreeSet<ParticipantIndex>>,
    n_shown: usize,
}

impl<'a> Comparison<'a> {
    fn new(replayed: &'a Replayed, logs: &'a NodeLogs) -> Self {
        let mut lost_attempts = BTreeSet::new();
        for_each_event(&replayed.events, |_, before, event| {
            let ends_attempt = matches!(event.change, Change::AttemptLost { .. } | Change::Aborted { .. });
            if ends_attempt && before.attempt > 0 {
                lost_attempts.insert(before.attempt);
            }
        });
        Self {
            replayed,
            logs,
            shown: BTreeSet::new(),
            lost_attempts,
            findings: Findings::default(),
            pending: Vec::new(),
            abandoned: BTreeMap::new(),
            n_shown: 0,
        }
    }

    fn check(mut self, report: &mut Report) {
        self.check_receipts();
        let operation = &self.replayed.operation;
        for (node, log) in &self.logs.logs {
            for logged in log.by_operation.get(&operation.id).into_iter().flatten() {
                self.check_logged(*node, logged);
            }
        }
        self.check_abandoned();
        let unaccounted = self.unaccounted();
        if !self.findings.is_empty() {
            report.add(RELEASED, self.findings, "");
        } else if !self.pending.is_empty() {
            let why = format!("the evidence does not show yet: {}", self.pending.join("; "));
            report.not_checked(RELEASED, why);
        } else if let Some(why) = unaccounted {
            report.not_checked(RELEASED, why);
        } else {
            let n_lost: usize = self.abandoned.values().map(BTreeSet::len).sum();
            let seen = format!(
                "{} receipts are at their positions; every share released for the operation is shown, {n_lost} of packages that were not completed",
                self.n_shown
            );
            report.add(RELEASED, self.findings, seen);
        }
    }

    /// Checks that each receipt of the events is the entry at its position.
    fn check_receipts(&mut self) {
        let Self { replayed, logs, shown, findings, n_shown, .. } = self;
        for_each_event(&replayed.events, |index, before, event| {
            for (number, (kind, receipt)) in signed_receipts(before, event).into_iter().enumerate() {
                shown.insert((receipt.participant, receipt.log_index));
                let Some(log) = logs.logs.get(&receipt.participant) else { continue };
                let at = format!("/events/{index}/event/change/receipts/{number}/log_index");
                if receipt.log_index >= log.size {
                    findings.add(at, format!("the node's log has only {} entries", log.size));
                } else if !log.lost.contains(&receipt.log_index)
                    && !is_logged(before, &kind, receipt, log.by_operation.get(&before.id))
                {
                    findings.add(at, "the node's log has another entry at this position");
                } else {
                    *n_shown = n_shown.saturating_add(1);
                }
            }
        });
    }

    /// Checks that an entry agrees with the events, and that they show what it released.
    fn check_logged(&mut self, node: ParticipantIndex, logged: &Logged) {
        let at = format!("/nodes/{node}/{}", logged.log_index);
        let Logged { statement, share, .. } = logged;
        let operation = &self.replayed.operation;
        let Some(admission) = operation.admission.as_ref() else {
            return self.not_shown(&at, "acted on a decision");
        };
        if statement.admission_hash != admission.admission_hash {
            return self.findings.add(at, "the node acted on another decision than the one shown");
        }
        if let Some(what) = contradiction(operation, logged) {
            return self.findings.add(at, what);
        }
        if !releases(statement.step) || self.shown.contains(&(node, logged.log_index)) {
            return;
        }
        let is_lost =
            statement.step == EffectStep::Execute && self.lost_attempts.contains(&statement.attempt);
        match share {
            Some(share) if is_lost || is_beside_the_signature(operation, statement.attempt, share) => {
                self.abandoned.entry(share.package_hash).or_default().insert(node);
            }
            Some(_) => {
                let what = format!("released a share of attempt {} of the signature", statement.attempt);
                self.not_shown(&at, &what);
            }
            // New shares: the generation was compared with the one shown; receipts of nodes that leave are not recorded.
            None if is_lost || operation.staged.is_some() => {}
            None => self.not_shown(&at, "made or promoted new shares"),
        }
    }

    /// An entry that the events do not show: newer evidence may, unless the operation is finished.
    fn not_shown(&mut self, at: &str, what: &str) {
        if matches!(self.replayed.operation.phase, Phase::Published | Phase::Failed) {
            self.findings.add(at, format!("the node {what}, and the evidence does not show it"));
        } else {
            self.pending.push(format!("{at}: the node {what}"));
        }
    }

    /// Checks that the shares of no such package make a signature, which would not be shown.
    fn check_abandoned(&mut self) {
        let operation = &self.replayed.operation;
        let Some(admission) = operation.admission.as_ref() else { return };
        for nodes in self.abandoned.values() {
            if nodes.len() >= admission.decision.threshold.count() {
                let names = names(nodes);
                let what =
                    format!("nodes {names} released shares of a signature that the evidence does not show");
                self.findings.add("/events", what);
            }
        }
    }

    /// Why a signature could exist that no log shows; `None` if too few nodes could have made it.
    fn unaccounted(&self) -> Option<String> {
        let operation = &self.replayed.operation;
        let decision = &operation.admission.as_ref()?.decision;
        let accounted = |node: &ParticipantIndex| {
            self.logs.logs.get(node).is_some_and(|log| log.is_sound && log.lost.is_empty())
        };
        let unaccounted: BTreeSet<_> = decision.participants.iter().filter(|node| !accounted(node)).collect();
        let n_known = match operation.signature {
            Some(_) => 0,
            None => self.abandoned.values().map(BTreeSet::len).max().unwrap_or(0),
        };
        let n_possible = unaccounted.len().saturating_add(n_known);
        let is_open = !unaccounted.is_empty() && n_possible >= decision.threshold.count();
        let names = names(&unaccounted);
        is_open.then(|| format!("the logs of nodes {names} are missing, not sound or were rolled back: they could have released more"))
    }
}

/// Whether the share is of another package of the attempt that made the operation's signature.
fn is_beside_the_signature(operation: &Operation, attempt: u32, share: &ReleasedShare) -> bool {
    let package_hash = operation.signature.as_ref().map(|signature| signature.package_hash);
    package_hash.is_some_and(|shown| shown != share.package_hash) && attempt == operation.executed_attempt()
}

fn names(nodes: &BTreeSet<ParticipantIndex>) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn is_logged(
    before: &Operation,
    kind: &ReceiptKind,
    receipt: &NodeReceipt,
    logged: Option<&Vec<Logged>>,
) -> bool {
    let chain = before.receipt_chain(receipt.participant);
    let Some(Ok(statement)) = chain.map(|chain| chain.statement(kind)) else { return false };
    logged.into_iter().flatten().any(|one| one.log_index == receipt.log_index && one.statement == statement)
}

/// What is wrong with an entry, given the operation that the evidence shows.
fn contradiction(operation: &Operation, logged: &Logged) -> Option<&'static str> {
    let Logged { statement, share, .. } = logged;
    let ReceiptStatement { step, subject, admission_hash, attempt, .. } = *statement;
    let decision = &operation.admission.as_ref()?.decision;
    let staged = operation.staged.as_ref().map(|staged| staged.epoch.root);
    match step {
        EffectStep::Execute if decision.operation_type == OperationType::Sign => {
            let Some(share) = share else { return Some("the entry does not state what the node signed") };
            let (signed_digest, package_hash) = (share.signed_digest, share.package_hash);
            let kind = ReceiptKind::Signed { attempt, signed_digest, package_hash };
            if kind.subject(admission_hash).ok() != Some(subject) {
                Some("the entry's share is not the one that the receipt states")
            } else if signed_digest != decision.request_digest || share.key_id != decision.key_id {
                Some("the node signed another digest, or with another key, than was admitted")
            } else {
                None
            }
        }
        EffectStep::CommitEpoch if staged.is_some_and(|root| root != subject) => {
            Some("the node promoted other shares than those that the evidence shows")
        }
        EffectStep::Publish if operation.result_ref.is_some_and(|result| result != subject) => {
            Some("the node published another result than the evidence shows")
        }
        EffectStep::Decision
        | EffectStep::Admission
        | EffectStep::PolicyReceipt
        | EffectStep::Execute
        | EffectStep::CommitEpoch
        | EffectStep::Publish
        | EffectStep::Discard => None,
    }
}

/// Compares whole logs with the operations whose evidence is given: a node that released something for another operation is a
/// finding. The evidence itself is verified separately, with [`verify`](super::verify()).
#[must_use]
pub fn audit(logs: &NodeLogs, shown: &BTreeSet<OperationId>) -> Report {
    let mut report = Report::default();
    check_logs(logs, &mut report);
    let (mut findings, mut others, mut n_shown) = (Findings::default(), 0_usize, 0_usize);
    for (id, released) in logs.operations() {
        match released {
            _ if shown.contains(&id) => n_shown = n_shown.saturating_add(1),
            Some((node, position)) => {
                let what =
                    format!("the node released a share for operation `{id}`, whose evidence was not given");
                findings.add(format!("/nodes/{node}/{position}"), what);
            }
            None => others = others.saturating_add(1),
        }
    }
    if findings.is_empty() && others > 0 {
        let why = format!(
            "the evidence of {others} operations was not given; the logs show no released share for them"
        );
        report.not_checked("operations shown", why);
    } else {
        report.add("operations shown", findings, format!("{n_shown}, all that the nodes' logs name"));
    }
    report
}
