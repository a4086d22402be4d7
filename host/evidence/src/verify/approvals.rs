//! Checks that each approver signed its own approval of this operation, with a key that was valid then. Approvals
//! that only the gateway claims, because they have no signature or the roots have no approvers, are reported as not
//! checked.

use super::operation::Replayed;
use super::report::{Findings, Report};
use crate::roots::Roots;
use gateway_domain::approval::{Approval, ApprovalError};
use gateway_domain::operation::{Change, Event};

const NAME: &str = "approvals signed";

pub(crate) fn check(replayed: &Replayed, roots: &Roots, report: &mut Report) {
    let recorded = replayed.events.iter().enumerate();
    let recorded: Vec<_> =
        recorded.filter_map(|(index, event)| Some((index, event, approval(event)?))).collect();
    let operation = &replayed.operation;
    let lacks_approvals =
        roots.requires_signatures && operation.admission.is_some() && operation.approvals.is_empty();
    let (mut findings, mut n_signed, mut unsigned) = (Findings::default(), 0_usize, Vec::new());
    for (index, event, approval) in &recorded {
        let at = format!("/events/{index}/event/change/approval/signature");
        match (&approval.signature, &roots.approvers) {
            (Some(signature), Some(approvers)) => {
                let statement = replayed.operation.approval_subject().statement(approval);
                let verified = approvers.verify(&statement, signature, event.at_ms).and_then(|()| {
                    replayed.operation.check_approval_time(statement.approved_at_ms, event.at_ms)
                });
                match verified {
                    Ok(()) => n_signed = n_signed.saturating_add(1),
                    Err(fault) => findings.add(at, describe(&approval.subject_id, &fault)),
                }
            }
            (None, _) if roots.requires_signatures => {
                findings.add(at, describe(&approval.subject_id, &ApprovalError::NotSigned));
            }
            (None, _) | (Some(_), None) => unsigned.push(approval.subject_id.as_str()),
        }
    }
    if lacks_approvals {
        findings.add("/events", "the operation was admitted, but no approver signed for it");
    }
    if n_signed > 0 || !findings.is_empty() {
        report.add(NAME, findings, format!("{n_signed} of {} by their approvers", recorded.len()));
    }
    if !unsigned.is_empty() {
        let why = if roots.approvers.is_none() && recorded.iter().any(|(.., one)| one.signature.is_some()) {
            "the roots list no approvers"
        } else {
            "its approver did not sign it"
        };
        let subjects = unsigned.join("`, `");
        report.not_checked(
            NAME,
            format!("the approval of `{subjects}` is claimed by the gateway alone: {why}"),
        );
    }
}

fn approval(event: &Event) -> Option<&Approval> {
    match &event.change {
        Change::ApprovalRecorded { approval, .. } | Change::LateApprovalRecorded { approval } => {
            Some(approval)
        }
        _ => None,
    }
}

fn describe(subject_id: &str, fault: &ApprovalError) -> String {
    format!("approval of `{subject_id}`: `{}`: {fault}", fault.as_str())
}
