//! `bundles/cedar-example` evaluated by cedar-policy in process, with the entities and context of policy-guest/cedar.

#![expect(
    clippy::disallowed_types,
    reason = "cedar-policy takes entities in these, and nothing here is hashed"
)]

use crate::case::Case;
use crate::{Allowed, Runner};
use cedar_policy::{
    Authorizer, Context, Decision, Entities, Entity, EntityId, EntityTypeName, EntityUid, Policy, PolicySet, Request,
    RestrictedExpression as Expression,
};
use std::collections::{HashMap, HashSet};
use std::error::Error;

const TEXT: &str = include_str!("../../../bundles/cedar-example/data/policies.cedar");

/// As in a service: the text is parsed once.
pub(crate) struct Parsed(PolicySet);

/// As in an instance that lives for one evaluation: the text is parsed each time.
pub(crate) struct ParsedEachTime;

impl Parsed {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        Ok(Self(parsed()?))
    }
}

impl Runner for Parsed {
    fn name(&self) -> String {
        "cedar-example, cedar-policy in process, parsed before".into()
    }

    fn evaluate(&self, case: &Case) -> Allowed {
        evaluate(&self.0, case)
    }
}

impl Runner for ParsedEachTime {
    fn name(&self) -> String {
        "cedar-example, cedar-policy in process, parsed each time".into()
    }

    fn evaluate(&self, case: &Case) -> Allowed {
        evaluate(&parsed()?, case)
    }
}

/// The policies that decide. Those of the quorum need a request for each approver, and are not compared.
fn parsed() -> Result<PolicySet, Box<dyn Error>> {
    let all: PolicySet = TEXT.parse()?;
    let decide = |policy: &&Policy| policy.annotation("quorum").or(policy.annotation("group")).is_none();
    Ok(PolicySet::from_policies(all.policies().filter(decide).cloned())?)
}

/// A policy that fails denies, as in the bundle.
fn evaluate(policies: &PolicySet, case: &Case) -> Allowed {
    let (principal, action, resource) = (
        uid("Subject", &case.request().submitter.subject_id)?,
        uid("Action", "payment")?,
        uid("Account", &case.payment()?.from_account)?,
    );
    let entities = entities(case, [&principal, &action, &resource])?;
    let context = Context::from_pairs(context(case)?)?;
    let request = Request::new(principal, action, resource, context, None)?;
    let response = Authorizer::new().is_authorized(&request, policies, &entities);
    Ok(response.decision() == Decision::Allow && response.diagnostics().errors().next().is_none())
}

fn entities(case: &Case, [principal, action, resource]: [&EntityUid; 3]) -> Result<Entities, Box<dyn Error>> {
    let request = case.request();
    let roles = request.submitter.roles.iter().map(|role| uid("Role", role)).collect::<Result<_, _>>()?;
    let client = member("client_id", text(&request.submitter.client_id));
    let tenant = member("tenant", text(&request.tenant.0));
    let key = member("key_ref", text(&request.key_ref.0));
    let entities = [
        Entity::new(principal.clone(), HashMap::from([client, tenant.clone()]), roles)?,
        Entity::new(action.clone(), HashMap::new(), HashSet::new())?,
        Entity::new(resource.clone(), HashMap::from([key, tenant]), HashSet::new())?,
    ];
    Ok(Entities::from_entities(entities, None)?)
}

fn context(case: &Case) -> Result<Vec<(String, Expression)>, Box<dyn Error>> {
    let request = case.request();
    let participants = case.payment()?.terms.requested_participants.iter();
    let permitted = case.facts.get("deployment.permitted_recipients").unwrap_or_default();
    let facts = member(
        "deployment.permitted_recipients",
        Expression::new_set(permitted.split(',').map(str::trim).map(text)),
    );
    Ok(vec![
        member("moment", text(request.moment.as_str())),
        member("intent_hash", text(&request.intent_hash.to_string())),
        member("tenant", text(&request.tenant.0)),
        member("key_ref", text(&request.key_ref.0)),
        member("participants", Expression::new_set(participants.map(|index| long(index.0.into())))),
        member("approvals", approvals(case)?),
        member("facts", Expression::new_record([facts])?),
        member("payment", payment(case)?),
    ])
}

/// The submitter does not approve here, so all approvals count.
fn approvals(case: &Case) -> Result<Expression, Box<dyn Error>> {
    let approvals = case.request().approvals;
    let count = i64::try_from(approvals.len())?;
    let required = case.facts.get("deployment.required_approvals").unwrap_or("1").parse()?;
    let last = approvals.iter().map(|approval| approval.approved_at_ms.0).max().unwrap_or_default();
    let subjects = approvals.iter().map(|approval| text(&approval.subject_id));
    let roles = approvals.iter().flat_map(|approval| &approval.roles).map(|role| text(role));
    Ok(Expression::new_record([
        member("subjects", Expression::new_set(subjects)),
        member("roles", Expression::new_set(roles)),
        member("count", long(count)),
        member("required", long(required)),
        member("reached", Expression::new_bool(count >= required)),
        member("last_at_ms", long(i64::try_from(last)?)),
    ])?)
}

fn payment(case: &Case) -> Result<Expression, Box<dyn Error>> {
    let payment = case.payment()?;
    let reference = payment.reference.iter().map(|reference| member("reference", text(reference)));
    let members = [
        member("from_account", text(&payment.from_account)),
        member("to_account", text(&payment.to_account)),
        member("amount_minor", long(payment.amount_minor)),
        member("currency", text(&payment.currency)),
    ];
    Ok(Expression::new_record(members.into_iter().chain(reference))?)
}

fn uid(kind: &str, id: &str) -> Result<EntityUid, Box<dyn Error>> {
    let kind: EntityTypeName = kind.parse()?;
    Ok(EntityUid::from_type_name_and_id(kind, EntityId::new(id)))
}

fn member(name: &str, value: Expression) -> (String, Expression) {
    (name.to_owned(), value)
}

fn text(value: &str) -> Expression {
    Expression::new_string(value.to_owned())
}

fn long(value: i64) -> Expression {
    Expression::new_long(value)
}
