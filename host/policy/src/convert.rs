//! Converts the domain's requests to the contract's records, and the contract's verdicts to the domain's.

use crate::bindings::svc::policy::types as wit;
use crate::fault::quoted;
use gateway_domain::approval::{Approval, n_distinct_people};
use gateway_domain::binding::ClientBinding;
use gateway_domain::intent::{AssetAction, Intent, KeyCreate, Lifecycle, OperationType, Payment};
use gateway_domain::names::compared;
use gateway_domain::people::Registered;
use gateway_domain::policy::{Decision, Group, Moment, Operand, Quorum, Request, Statement};
use gateway_domain::roster::{Roster, Threshold};
use std::borrow::Cow;

/// Lists and texts that the domain has in another form. The contract's records borrow from here.
pub(crate) struct Owned<'a> {
    submitter: Person<'a>,
    approvers: Vec<Person<'a>>,
    intent_hash: String,
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
            submitter: Person::submitter(request.submitter),
            approvers: request.approvals.iter().map(Person::approver).collect(),
            intent_hash: request.intent_hash.to_string(),
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
            .zip(&self.approvers)
            .map(|(approval, by)| wit::Approval { by: by.record(), at_ms: approval.approved_at_ms.0 })
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
            submitter: self.submitter.record(),
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
            transaction: None,
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

/// A submitter or approver. Names are in the form in which they are compared, so that two are one person for a policy if and only if they are
/// equal.
struct Person<'a> {
    subject_id: Cow<'a, str>,
    /// `None` if it is the subject id.
    person: Option<Cow<'a, str>>,
    roles: Vec<&'a str>,
    attributes: Vec<(&'a str, &'a str)>,
}

impl<'a> Person<'a> {
    fn submitter(submitter: &'a ClientBinding) -> Self {
        Self::of(&submitter.subject_id, &submitter.roles, submitter.registered.as_deref())
    }

    fn approver(approval: &'a Approval) -> Self {
        Self::of(&approval.subject_id, &approval.roles, approval.registered.as_deref())
    }

    fn of(subject_id: &'a str, roles: &'a [String], registered: Option<&'a Registered>) -> Self {
        let attributes = registered.into_iter().flat_map(|registered| &registered.attributes);
        Self {
            subject_id: compared(subject_id),
            person: registered.and_then(|registered| registered.person.as_deref()).map(compared),
            roles: strs(roles),
            attributes: attributes.map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        }
    }

    fn record(&self) -> wit::Person<'_> {
        let person = self.person.as_deref().unwrap_or(&self.subject_id);
        let Self { subject_id, roles, attributes, .. } = self;
        wit::Person { person, subject_id, roles, attributes }
    }
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
/// For people: it counts a person who did not approve, or one person as two subjects.
pub(crate) fn quorum(quorum: wit::Quorum, approvals: &[Approval]) -> Result<Quorum, String> {
    let spelling = |subject: String| {
        let mut approvals = approvals.iter();
        let approval = approvals.find(|approval| compared(&approval.subject_id) == subject.as_str());
        let spelled = approval.map(|approval| approval.subject_id.clone());
        spelled.ok_or_else(|| format!("the quorum counts {}, who did not approve", quoted(&subject)))
    };
    let spelled = |subjects: Vec<String>| subjects.into_iter().map(spelling).collect::<Result<Vec<_>, _>>();
    let group =
        |it: wit::Group| spelled(it.have).map(|have| Group { name: it.name, needed: it.needed, have });
    let quorum = Quorum {
        subjects: spelled(quorum.subjects)?,
        required: quorum.required,
        satisfied: quorum.satisfied,
        groups: quorum.groups.into_iter().map(group).collect::<Result<_, _>>()?,
    };
    if approvals.iter().any(|approval| approval.registered.is_some()) {
        let counted = approvals.iter().filter(|approval| quorum.counts(&approval.subject_id));
        if n_distinct_people(counted) < quorum.n_people() {
            return Err("the quorum counts one person as two subjects".to_owned());
        }
    }
    Ok(quorum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::samples::{approval, submitter};
    use std::collections::BTreeMap;

    fn registered(person: Option<&str>, team: &str) -> Option<Box<Registered>> {
        let attributes = BTreeMap::from([("team".to_owned(), team.to_owned())]);
        Registered { person: person.map(str::to_owned), attributes }.checked().unwrap()
    }

    #[test]
    fn policy_sees_persons_and_attributes_of_the_registry() {
        let carol = ClientBinding { registered: registered(Some("C.May"), "sales"), ..submitter("Carol") };
        let shown = Person::submitter(&carol);
        let wit::Person { person, subject_id, roles, attributes } = shown.record();
        assert_eq!((person, subject_id, roles), ("c.may", "carol", &["submitter"][..]));
        assert_eq!(attributes, [("team", "sales")]);
        let alice = approval("Alice", 1);
        let shown = Person::approver(&alice);
        let record = shown.record();
        assert_eq!((record.person, record.subject_id, record.attributes), ("alice", "alice", &[][..]));
    }

    #[test]
    fn quorum_that_counts_one_person_as_two_subjects_is_refused() {
        let phone = Approval { registered: registered(Some("ALICE"), "treasury"), ..approval("phone", 1) };
        let approvals = [approval("Alice", 1), phone, approval("bob", 1)];
        let of = |subjects: &[&str]| {
            let subjects = subjects.iter().map(|subject| (*subject).to_owned()).collect();
            quorum(wit::Quorum { subjects, required: 2, satisfied: true, groups: vec![] }, &approvals)
        };
        assert_eq!(of(&["alice", "bob"]).unwrap().subjects, ["Alice", "bob"]);
        assert_eq!(of(&["alice", "phone"]).unwrap_err(), "the quorum counts one person as two subjects");
        assert_eq!(of(&["alice", "eve"]).unwrap_err(), "the quorum counts `eve`, who did not approve");
    }
}
