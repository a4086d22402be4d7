//! `bundles/cedar-example` judged by cedar-policy in process: its policies, and the entities and context that
//! policy-guest/cedar gives them.

use crate::asked::Asked;
use crate::{Answer, Judge};
use cedar_policy::{
    Authorizer, Context, Decision, Entities, Entity, EntityId, EntityTypeName, EntityUid, PolicySet, Request,
    RestrictedExpression as Expression,
};
use std::collections::{HashMap, HashSet};
use std::error::Error;

const TEXT: &str = include_str!("../../../bundles/cedar-example/data/policies.cedar");

/// As a service has it: the text parsed once.
pub(crate) struct Parsed(PolicySet);

/// As an instance that lives for one evaluation has to.
pub(crate) struct ParsedEachTime;

impl Parsed {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        Ok(Self(TEXT.parse()?))
    }
}

impl Judge for Parsed {
    fn name(&self) -> String {
        "cedar-example, cedar-policy in process, parsed before".into()
    }

    fn judge(&self, asked: &Asked) -> Answer {
        judge(&self.0, asked)
    }
}

impl Judge for ParsedEachTime {
    fn name(&self) -> String {
        "cedar-example, cedar-policy in process, parsed each time".into()
    }

    fn judge(&self, asked: &Asked) -> Answer {
        judge(&TEXT.parse()?, asked)
    }
}

/// A policy that fails denies, as in the bundle.
fn judge(policies: &PolicySet, asked: &Asked) -> Answer {
    let (principal, action, resource) = (
        uid("Subject", &asked.request().submitter.subject_id)?,
        uid("Action", "payment")?,
        uid("Account", &asked.payment()?.from_account)?,
    );
    let entities = entities(asked, [&principal, &action, &resource])?;
    let context = Context::from_pairs(context(asked)?)?;
    let request = Request::new(principal, action, resource, context, None)?;
    let response = Authorizer::new().is_authorized(&request, policies, &entities);
    Ok(response.decision() == Decision::Allow && response.diagnostics().errors().next().is_none())
}

fn entities(
    asked: &Asked,
    [principal, action, resource]: [&EntityUid; 3],
) -> Result<Entities, Box<dyn Error>> {
    let request = asked.request();
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

fn context(asked: &Asked) -> Result<Vec<(String, Expression)>, Box<dyn Error>> {
    let request = asked.request();
    let participants = asked.payment()?.terms.requested_participants.iter();
    let permitted = asked.facts.get("deployment.permitted_recipients").unwrap_or_default();
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
        member("approvals", approvals(asked)?),
        member("facts", Expression::new_record([facts])?),
        member("payment", payment(asked)?),
    ])
}

/// Nobody approves what they submitted themselves here: all count.
fn approvals(asked: &Asked) -> Result<Expression, Box<dyn Error>> {
    let approvals = asked.request().approvals;
    let count = i64::try_from(approvals.len())?;
    let required = asked.facts.get("deployment.required_approvals").unwrap_or("1").parse()?;
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

fn payment(asked: &Asked) -> Result<Expression, Box<dyn Error>> {
    let payment = asked.payment()?;
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
