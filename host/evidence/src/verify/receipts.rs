//! Checks that each node signed the receipt of each of its steps, and that each step has enough receipts.

use super::operation::Replayed;
use super::report::{Findings, Report};
use crate::roots::Roots;
use crate::summary::for_each_event;
use gateway_domain::operation::{Change, Operation, Phase, Plan, SignatureResult, signed_receipts};
use gateway_domain::receipt::{NodeReceipt, ReceiptKind, participants};
use gateway_domain::roster::ParticipantIndex;
use std::collections::BTreeSet;

const NAME: &str = "receipts";
const TOO_FEW: &str = "are not from enough nodes, one receipt each";

pub(crate) fn check(replayed: &Replayed, roots: &Roots, report: &mut Report) {
    let (mut findings, mut n_signed) = (Findings::default(), 0_usize);
    for_each_event(&replayed.events, |index, before, event| {
        let at = format!("/events/{index}/event/change/receipts");
        if let Some((kind, receipts)) = signed_receipts(before, event) {
            for (place, receipt) in receipts.iter().enumerate() {
                if let Err(what) = signed(before, &kind, receipt, roots) {
                    findings.add(format!("{at}/{place}"), what);
                }
            }
            n_signed = n_signed.saturating_add(receipts.len());
        }
        if let Some(what) = lacking(before, &event.change) {
            findings.add(at, what);
        }
    });
    // Without any receipt the check does not apply.
    if n_signed > 0 || !findings.is_empty() {
        report.add(NAME, findings, format!("{n_signed} signed by their nodes"));
    }
}

fn signed(
    before: &Operation,
    kind: &ReceiptKind,
    receipt: &NodeReceipt,
    roots: &Roots,
) -> Result<(), String> {
    let node = receipt.participant;
    let key = roots.nodes.get(&node).ok_or_else(|| format!("the roots have no key of node {node}"))?;
    let chain = before.receipt_chain(node).ok_or_else(|| "the operation was not admitted".to_owned())?;
    let statement = chain.statement(kind).map_err(|error| error.to_string())?;
    receipt.verify(&statement, key).map_err(|error| error.to_string())
}

/// The fault if a change lacks the receipts that the gateway must have before it records the change.
fn lacking(before: &Operation, change: &Change) -> Option<&'static str> {
    let plan = before.plan();
    let enough = |is_enough: fn(&Plan, &BTreeSet<ParticipantIndex>) -> bool, receipts: &[NodeReceipt]| {
        let nodes = participants(receipts);
        nodes.len() == receipts.len() && plan.as_ref().is_some_and(|plan| is_enough(plan, &nodes))
    };
    let (is_enough, what) = match change {
        Change::AdmissionApplied { receipts } | Change::ReceiptMaterialized { receipts, .. } => {
            (enough(Plan::is_enough, receipts), TOO_FEW)
        }
        Change::Executed { signature: Some(signature), receipts, .. } => {
            (is_of_signers(receipts, signature), "are not from exactly the signers, one receipt each")
        }
        Change::EpochDecided { receipts, .. } => (enough(Plan::is_received, receipts), TOO_FEW),
        Change::Executed { signature: None, .. } => {
            (is_in_force(&before.phase), "not all nodes with a new share have activated it")
        }
        Change::Published { receipts, .. } => (enough(Plan::is_published, receipts), TOO_FEW),
        Change::Failed { receipts, .. } => {
            let is_discarded = enough(Plan::is_discarded, receipts);
            (is_discarded || before.phase != Phase::Discarding, TOO_FEW)
        }
        Change::Submitted(_)
        | Change::ApprovalRequested { .. }
        | Change::ApprovalRecorded { .. }
        | Change::ApprovalsWaived { .. }
        | Change::LateApprovalRecorded { .. }
        | Change::QuorumReached
        | Change::DecisionSigned { .. }
        | Change::ExecutionRequested { .. }
        | Change::CeremonyStarted { .. }
        | Change::AttemptLost { .. }
        | Change::EpochAcked { .. }
        | Change::PublicationRequested { .. }
        | Change::Aborted { .. }
        | Change::ReplayNoted { .. }
        | Change::RecoveryRecorded(_)
        | Change::ExternallyExported(_) => return None,
    };
    (!is_enough).then_some(what)
}

fn is_of_signers(receipts: &[NodeReceipt], signature: &SignatureResult) -> bool {
    let signers = &signature.signers;
    participants(receipts) == *signers.as_set() && receipts.len() == signers.n_participants()
}

fn is_in_force(phase: &Phase) -> bool {
    matches!(phase, Phase::CommittingEpoch { unacked, .. } if unacked.is_empty())
}
