//! Verifies the signature of each receipt, and that each event has the receipts it requires.

use super::operation::Replayed;
use crate::report::{Findings, Report};
use crate::roots::Roots;
use crate::summary::for_each_event;
use gateway_domain::operation::{Change, Operation, Phase, Plan, SignatureResult, signed_receipts};
use gateway_domain::receipt::{AttemptReceipt, NodeReceipt, ReceiptKind, participants};
use gateway_domain::roster::ParticipantIndex;
use std::collections::{BTreeMap, BTreeSet};

const NAME: &str = "receipts";
const DISORDER: &str = "not in the order of nodes, one of each";
const TOO_FEW: &str = "too few receipts, or more than one from a node";

pub(crate) fn check(replayed: &Replayed, roots: &Roots, report: &mut Report) {
    let (mut findings, mut n_signed, mut positions) = (Findings::default(), 0_usize, BTreeMap::new());
    for_each_event(&replayed.events, |index, before, event| {
        let at = format!("/events/{index}/event/change/receipts");
        let receipts = signed_receipts(before, event);
        let are_in_order = |two: &[(ReceiptKind, &NodeReceipt)]| match two {
            [(_, one), (_, next)] => one.participant < next.participant,
            _ => true,
        };
        for (position, (kind, receipt)) in receipts.iter().enumerate() {
            if let Err(what) = verify_receipt(before, kind, receipt, roots) {
                findings.add(format!("{at}/{position}"), what);
            }
            // A node makes an operation's steps in order, so it signs them in this order too.
            if positions.get(&receipt.participant).is_some_and(|earlier| *earlier >= receipt.log_index) {
                findings
                    .add(format!("{at}/{position}/log_index"), "is not after the node's receipt before it");
            }
        }
        positions.extend(receipts.iter().map(|(_, receipt)| (receipt.participant, receipt.log_index)));
        n_signed = n_signed.saturating_add(receipts.len());
        let disorder = (!receipts.windows(2).all(are_in_order)).then_some(DISORDER);
        if let Some(what) = missing_receipts(before, &event.change).or(disorder) {
            findings.add(at, what);
        }
    });
    // Not reported for an operation that has no receipts and needs none yet.
    if n_signed > 0 || !findings.is_empty() {
        report.add(NAME, findings, format!("{n_signed} signed by their nodes"));
    }
}

fn verify_receipt(
    before: &Operation,
    kind: &ReceiptKind,
    receipt: &NodeReceipt,
    roots: &Roots,
) -> Result<(), String> {
    let node = receipt.participant;
    let key = roots.nodes.get(&node).ok_or_else(|| format!("the roots have no key for node {node}"))?;
    let chain =
        before.receipt_chain(node).ok_or_else(|| "there is no signed admission decision".to_owned())?;
    let statement = chain.statement(kind).map_err(|error| error.to_string())?;
    receipt.verify(&statement, key).map_err(|error| error.to_string())
}

/// What is wrong if the gateway recorded `change` without the receipts that the change requires.
fn missing_receipts(before: &Operation, change: &Change) -> Option<&'static str> {
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
            (is_of_signers(receipts, signature), "there must be exactly one receipt from each signer")
        }
        Change::EpochDecided { receipts, .. } => (enough(Plan::is_received, receipts), TOO_FEW),
        Change::Executed { signature: None, .. } => {
            (all_activated(&before.phase), "not all nodes with a new share have activated it")
        }
        Change::Published { receipts, .. } => (enough(Plan::is_published, receipts), TOO_FEW),
        Change::AttemptLost { receipts, .. } => {
            (show_loss(receipts), "no node has signed that it will not complete the attempt")
        }
        Change::DiscardAcked { receipts } => (enough(are_receivers, receipts), TOO_FEW),
        Change::NodesGivenUp { lost, .. } => {
            (before.can_sign_without(lost), "the receivers that are left are too few for a signature")
        }
        Change::Failed { receipts, .. } => match &before.phase {
            Phase::Discarding => (enough(Plan::is_discarded, receipts), TOO_FEW),
            Phase::DiscardingRest { undiscarded, .. } => {
                (undiscarded.is_subset(&participants(receipts)), "not all receivers have discarded it")
            }
            _ => return None,
        },
        Change::Submitted(_)
        | Change::ApprovalRequested { .. }
        | Change::ApprovalRecorded { .. }
        | Change::RejectionRecorded { .. }
        | Change::ApprovalsLapsed { .. }
        | Change::AdmissionPostponed { .. }
        | Change::AdmissionResumed
        | Change::ApprovalsWaived { .. }
        | Change::LateApprovalRecorded { .. }
        | Change::QuorumReached
        | Change::DecisionSigned { .. }
        | Change::ExecutionRequested { .. }
        | Change::CeremonyStarted { .. }
        | Change::EpochAcked { .. }
        | Change::PublicationRequested { .. }
        | Change::Aborted { .. }
        | Change::ReplayNoted { .. }
        | Change::RecoveryRecorded(_)
        | Change::ExternallyExported(_) => return None,
    };
    (!is_enough).then_some(what)
}

fn are_receivers(plan: &Plan, nodes: &BTreeSet<ParticipantIndex>) -> bool {
    !nodes.is_empty() && nodes.is_subset(&plan.receivers)
}

/// Whether the receipts show that an attempt is lost: a node discarded it, or nodes signed different packages in it.
fn show_loss(receipts: &[AttemptReceipt]) -> bool {
    let packages: BTreeSet<_> = receipts.iter().map(|of| of.package_hash).collect();
    packages.contains(&None) || packages.len() > 1
}

fn is_of_signers(receipts: &[NodeReceipt], signature: &SignatureResult) -> bool {
    let signers = &signature.signers;
    participants(receipts) == *signers.as_set() && receipts.len() == signers.n_participants()
}

fn all_activated(phase: &Phase) -> bool {
    matches!(phase, Phase::CommittingEpoch { unacked, .. } if unacked.is_empty())
}
