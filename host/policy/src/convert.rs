//! Converts the domain's requests to the contract's records, and the contract's verdicts to the domain's.

use crate::bindings::svc::policy::types as wit;
use gateway_domain::approval::Approval;
use gateway_domain::intent::{AssetAction, Intent, KeyCreate, Lifecycle, OperationType, Payment};
use gateway_domain::names::compared;
use gateway_domain::policy::{Decision, Group, Moment, Operand, Quorum, Request, Statement};
use gateway_domain::roster::{Roster, Threshold};
use std::borrow::Cow;

/// Lists and texts that the domain has in another form. The contract's records borrow from here. Subject ids are in the form in which they
/// are compared, so that two are one person for a policy if and only if they are equal.
pub(crate) struct Owned<'a> {
    submitter: Cow<'a, str>,
    approvers: Vec<Cow<'a, str>>,
    intent_hash: String,
    submitter_roles: Vec<&'a str>,
    approver_roles: Vec<Vec<&'a str>>,
    participants: Vec<u16>,
    public_fields: Vec<(&'a str, &'a str)>,
    digests: [String; 2],
    /// Of a new key.
    chains: Vec<&'a str>,
}

impl<'a> Owned<'a> {
    pub(crate) fn of(request: &Request<'a>) -> Self {
        let (public_fields, digests) = match request.intent {
            Intent::AssetAction(action) => (
                action.public_fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
                [action.request_digest.to_string(), action.typed_data_root.to_string()],
            ),
            Intent::Payment(_)
            | Intent::KeyCreate(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Recover(_) => (Vec::new(), [String::new(), String::new()]),
        };
        Self {
            submitter: compared(&request.submitter.subject_id),
            approvers: request.approvals.iter().map(|approval| compared(&approval.subject_id)).collect(),
            intent_hash: request.intent_hash.to_string(),
            submitter_roles: strs(&request.submitter.roles),
            approver_roles: request.approvals.iter().map(|approval| strs(&approval.roles)).collect(),
            participants: participants(request.intent)
                .map(|roster| roster.iter().map(|index| index.0).collect())
                .unwrap_or_default(),
            public_fields,
            digests,
            chains: match request.intent {
                Intent::KeyCreate(create) => strs(&create.chains),
                Intent::Payment(_)
                | Intent::AssetAction(_)
                | Intent::Refresh(_)
                | Intent::Reshare(_)
                | Intent::Rotate(_)
                | Intent::Recover(_) => Vec::new(),
            },
        }
    }

    /// The approvals, in the domain's order.
    pub(crate) fn approvals<'b>(&'b self, approvals: &'b [Approval]) -> Vec<wit::Approval<'b>> {
        approvals
            .iter()
            .zip(self.approvers.iter().zip(&self.approver_roles))
            .map(|(approval, (subject_id, roles))| wit::Approval {
                by: person(subject_id, roles),
                at_ms: approval.approved_at_ms.0,
            })
            .collect()
    }

    pub(crate) fn request<'b>(
        &'b self,
        request: &Request<'b>,
        approvals: &'b [wit::Approval<'b>],
    ) -> wit::Request<'b> {
        wit::Request {
            moment: moment(request.moment),
            intent_hash: &self.intent_hash,
            tenant: &request.tenant.0,
            key_ref: &request.key_ref.0,
            client_id: &request.submitter.client_id,
            submitter: person(&self.submitter, &self.submitter_roles),
            intent: self.intent(request.intent),
            participants: &self.participants,
            threshold: threshold(request.intent).map(|threshold| threshold.0),
            bip32_path: request
                .intent
                .signing_terms()
                .and_then(|terms| terms.bip32.as_ref())
                .map(|child| child.path.as_str()),
            approvals,
        }
    }

    fn intent<'b>(&'b self, intent: &'b Intent) -> wit::Intent<'b> {
        match intent {
            Intent::Payment(payment) => wit::Intent::Payment(payment_record(payment)),
            Intent::AssetAction(action) => wit::Intent::AssetAction(self.asset_action(action)),
            Intent::KeyCreate(create) => wit::Intent::KeyChange(key_create(create, &self.chains)),
            Intent::Refresh(refresh) => {
                wit::Intent::KeyChange(key_change(OperationType::Refresh, &refresh.change))
            }
            Intent::Reshare(reshare) => {
                wit::Intent::KeyChange(key_change(OperationType::Reshare, &reshare.change))
            }
            Intent::Rotate(rotate) => wit::Intent::KeyChange(wit::KeyChange {
                new_key_ref: Some(&rotate.new_key_ref.0),
                ..key_change(OperationType::Rotate, &rotate.change)
            }),
            Intent::Recover(recover) => wit::Intent::KeyChange(wit::KeyChange {
                recovering_participant: Some(recover.recovering_participant.0),
                ..key_change(OperationType::Recover, &recover.change)
            }),
        }
    }

    fn asset_action<'b>(&'b self, action: &'b AssetAction) -> wit::AssetAction<'b> {
        let [request_digest, typed_data_root] = &self.digests;
        wit::AssetAction {
            asset_id: &action.asset_id,
            action: &action.action,
            chain_id: &action.chain_id,
            request_digest,
            typed_data_root,
            public_fields: &self.public_fields,
        }
    }
}

fn payment_record(payment: &Payment) -> wit::Payment<'_> {
    wit::Payment {
        from_account: &payment.from_account,
        to_account: &payment.to_account,
        amount_minor: payment.amount_minor,
        currency: &payment.currency,
        reference: payment.reference.as_deref(),
    }
}

/// A subject of its own person.
const fn person<'a>(subject_id: &'a str, roles: &'a [&'a str]) -> wit::Person<'a> {
    wit::Person { person: subject_id, subject_id, roles, attributes: &[] }
}

fn key_create<'a>(create: &'a KeyCreate, chains: &'a [&'a str]) -> wit::KeyChange<'a> {
    wit::KeyChange {
        operation: OperationType::KeyCreate.as_str(),
        reason: "",
        purpose: &create.purpose,
        chains,
        target_epoch: None,
        new_key_ref: None,
        signature_profile: Some(&create.signature_profile),
        asset_id: Some(&create.asset_id),
        recovering_participant: None,
    }
}

fn key_change(operation: OperationType, change: &Lifecycle) -> wit::KeyChange<'_> {
    wit::KeyChange {
        operation: operation.as_str(),
        reason: &change.reason,
        purpose: "",
        chains: &[],
        target_epoch: Some(&change.target_epoch.0),
        new_key_ref: None,
        signature_profile: None,
        asset_id: None,
        recovering_participant: None,
    }
}

fn participants(intent: &Intent) -> Option<&Roster> {
    match intent {
        Intent::Payment(payment) => Some(&payment.terms.requested_participants),
        Intent::AssetAction(action) => Some(&action.terms.requested_participants),
        Intent::KeyCreate(create) => Some(&create.participants),
        Intent::Refresh(_) => None,
        Intent::Reshare(reshare) => Some(&reshare.new_participants),
        Intent::Rotate(rotate) => Some(&rotate.participants),
        Intent::Recover(recover) => Some(&recover.helper_participants),
    }
}

fn threshold(intent: &Intent) -> Option<Threshold> {
    match intent {
        Intent::Payment(payment) => payment.terms.threshold,
        Intent::AssetAction(action) => action.terms.threshold,
        Intent::KeyCreate(create) => Some(create.threshold),
        Intent::Refresh(_) | Intent::Recover(_) => None,
        Intent::Reshare(reshare) => Some(reshare.threshold),
        Intent::Rotate(rotate) => Some(rotate.threshold),
    }
}

const fn moment(moment: Moment) -> wit::Moment {
    match moment {
        Moment::Submit => wit::Moment::Submit,
        Moment::Approval => wit::Moment::Approval,
        Moment::Admission => wit::Moment::Admission,
        Moment::Preview => wit::Moment::Preview,
    }
}

fn strs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

pub(crate) const fn decision(decision: wit::Decision) -> Decision {
    match decision {
        wit::Decision::Allow => Decision::Allow,
        wit::Decision::Deny => Decision::Deny,
    }
}

pub(crate) fn statements(statements: Vec<wit::Statement>) -> Vec<Statement> {
    let operand = |it: wit::Operand| Operand { name: it.name, value: it.value };
    let statement = |it: wit::Statement| Statement {
        code: it.code,
        operands: it.operands.into_iter().map(operand).collect(),
    };
    statements.into_iter().map(statement).collect()
}

/// The quorum with each subject id as its first approval spells it, in place of the form that the policy was given.
///
/// # Errors
/// The first subject id of a person who did not approve.
pub(crate) fn quorum(quorum: wit::Quorum, approvals: &[Approval]) -> Result<Quorum, String> {
    let spelling = |subject: String| {
        let approval = approvals.iter().find(|approval| compared(&approval.subject_id) == subject.as_str());
        approval.map(|approval| approval.subject_id.clone()).ok_or(subject)
    };
    let spelled = |subjects: Vec<String>| subjects.into_iter().map(spelling).collect::<Result<Vec<_>, _>>();
    let group =
        |it: wit::Group| spelled(it.have).map(|have| Group { name: it.name, needed: it.needed, have });
    Ok(Quorum {
        subjects: spelled(quorum.subjects)?,
        required: quorum.required,
        satisfied: quorum.satisfied,
        groups: quorum.groups.into_iter().map(group).collect::<Result<_, _>>()?,
    })
}
