//! Checks that each approver signed its own approval or rejection of this operation, with a key that was valid then, and that the roots say
//! the same of submitter and approvers as the gateway's registry did. Signatures that only the gateway claims, because there are none or the
//! roots have no approvers, are reported as not checked, and so is what it says of people.

use super::operation::Replayed;
use crate::report::{Findings, Report};
use crate::roots::Roots;
use gateway_domain::approval::{ApprovalError, ApprovalSignature, Statement};
use gateway_domain::operation::{Change, Event, Operation};
use gateway_domain::people::Registered;
use std::collections::BTreeSet;

const NAME: &str = "approvals signed";

pub(crate) fn check(replayed: &Replayed, roots: &Roots, report: &mut Report) {
    let recorded = replayed.events.iter().enumerate();
    let operation = &replayed.operation;
    let recorded: Vec<_> =
        recorded.filter_map(|(index, event)| Some((index, event, said(operation, event)?))).collect();
    let lacks_approvals =
        roots.requires_signatures && operation.admission.is_some() && operation.approvals.is_empty();
    let (mut findings, mut n_signed, mut unsigned) = (Findings::default(), 0_usize, Vec::new());
    for (index, event, Said { word, statement, signature }) in &recorded {
        let at = format!("/events/{index}/event/change/{word}/signature");
        let describe = |fault: &ApprovalError| {
            format!("{word} of `{}`: `{}`: {fault}", statement.subject_id, fault.as_str())
        };
        match (signature, &roots.approvers) {
            (Some(signature), Some(approvers)) => {
                let verified = approvers
                    .verify(statement, signature, event.at_ms)
                    .and_then(|()| operation.check_approval_time(statement.claimed_at_ms(), event.at_ms));
                match verified {
                    Ok(()) => n_signed = n_signed.saturating_add(1),
                    Err(fault) => findings.add(at, describe(&fault)),
                }
            }
            (None, _) if roots.requires_signatures => findings.add(at, describe(&ApprovalError::NotSigned)),
            (None, _) | (Some(_), None) => unsigned.push(format!("the {word} of `{}`", statement.subject_id)),
        }
    }
    match &roots.approvers {
        Some(approvers) => {
            for (at, subject_id, recorded) in registered(replayed) {
                if approvers.registered(&operation.tenant, subject_id) != recorded {
                    findings.add(format!("{at}/registered"), describe_registered(subject_id));
                }
            }
        }
        None => report_claimed(replayed, report),
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
        let verb = if unsigned.len() == 1 { "is" } else { "are" };
        let claimed = unsigned.join(", ");
        report.not_checked(NAME, format!("{claimed} {verb} claimed by the gateway alone: {why}"));
    }
}

/// The submitter and the approvers, each with the place of its record and what that says of it.
fn registered(replayed: &Replayed) -> impl Iterator<Item = (String, &str, Option<&Registered>)> {
    replayed.events.iter().enumerate().filter_map(|(index, event)| {
        let (member, subject_id, registered) = match &event.change {
            Change::Submitted(submission) => {
                ("submitter", &submission.submitter.subject_id, &submission.submitter.registered)
            }
            Change::ApprovalRecorded { approval, .. } | Change::LateApprovalRecorded { approval } => {
                ("approval", &approval.subject_id, &approval.registered)
            }
            Change::RejectionRecorded { rejection, .. } => {
                ("rejection", &rejection.subject_id, &rejection.registered)
            }
            _ => return None,
        };
        Some((format!("/events/{index}/event/change/{member}"), subject_id.as_str(), registered.as_deref()))
    })
}

fn describe_registered(subject_id: &str) -> String {
    let fault = ApprovalError::OtherRegistered;
    format!("`{subject_id}`: `{}`: {fault}", fault.as_str())
}

fn report_claimed(replayed: &Replayed, report: &mut Report) {
    let named = registered(replayed).filter(|(_, _, registered)| registered.is_some());
    let subjects: BTreeSet<_> = named.map(|(_, subject_id, _)| format!("`{subject_id}`")).collect();
    if !subjects.is_empty() {
        let of = Vec::from_iter(subjects).join(", ");
        report.not_checked(
            NAME,
            format!("the persons and attributes of {of} are claimed by the gateway alone: the roots list no approvers"),
        );
    }
}

/// What an approver said, by an event.
struct Said<'a> {
    /// The member of the change.
    word: &'static str,
    statement: Statement<'a>,
    signature: Option<&'a ApprovalSignature>,
}

fn said<'a>(operation: &'a Operation, event: &'a Event) -> Option<Said<'a>> {
    let subject = operation.approval_subject();
    match &event.change {
        Change::ApprovalRecorded { approval, .. } | Change::LateApprovalRecorded { approval } => Some(Said {
            word: "approval",
            statement: subject.statement(approval),
            signature: approval.signature.as_deref(),
        }),
        // The member has this name for an abort too.
        Change::RejectionRecorded { rejection, .. } => Some(Said {
            word: "rejection",
            statement: subject.rejection(rejection),
            signature: rejection.signature.as_deref(),
        }),
        _ => None,
    }
}
