//! The Cedar form of a request, as policies see it. `fixed.cedarschema` beside this file has the types.
//!
//! | | |
//! |---|---|
//! | `principal` | `Subject::"<subject_id>"` with `person`, `tenant`, and in `attributes` those of the bundle's type `Attributes`; `in Role::"<role>"` for each of its roles |
//! | `action` | `Action::"payment"`, `Action::"asset_action"`, or `Action::"<operation>"` for a key operation, `in Action::"key_change"` |
//! | `resource` | `Account::"<from_account>"` for a payment, else `Key::"<key_ref>"`; both have `tenant`, `key_ref` |
//! | `context.moment` | `"submit"`, `"approval"`, `"admission"` or `"preview"` |
//! | `context.payment` | `from_account`, `to_account`, `amount_minor`, `currency`, `reference` if it is given, and `value` (decimal, rounded up) if the exchange rates have one for the currency |
//! | `context.asset_action` | `asset_id`, `action`, `chain_id`, `request_digest`, `typed_data_root`, and in `fields` the public fields of the bundle's type `Fields` |
//! | `context.key_change` | `operation`, `reason`, `purpose`, `chains` (set), and those of `target_epoch`, `new_key_ref`, `signature_profile`, `asset_id`, `recovering_participant` that are given |
//! | `context.approvals` | `subjects` and `roles` (sets) of the approvals that count, `count`, and `last_at_ms` if any approval counts |
//! | `context.facts` | the facts of the bundle's type `Facts` that the deployment has |
//! | `context.documents` | the signed documents of the bundle's type `Documents` that policies for the action name |
//! | `context` | `intent_hash`, `tenant`, `client_id`, `key_ref`, `participants` (set of indices), and `threshold`, `bip32_path` if they are given |
//!
//! To find the groups of an approver, policies with `@group` are evaluated with the approver as `principal`,
//! `Action::"approve"`, and `Operation::"<intent_hash>"` with `submitter`, `tenant` and `key_ref` as `resource`.
//!
//! `context` has `payment`, `asset_action` or `key_change`: the intent's own kind only. Values are constructed, never parsed,
//! so a submitter's text stays text.

use crate::location::located;
use crate::rates::{self, Rates};
use crate::schema::{Member, Types};
use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request as CedarRequest,
    RestrictedExpression as Value, Schema,
};
use gateway_policy_sdk::{
    Approval, AssetAction, Data, Facts, Intent, KeyChange, Moment, Payment, Person, Quorum, Request,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;

pub(crate) const FILE: &str = "entities.json";

type Members = Vec<(String, Value)>;

/// A request in Cedar's form, with the entities that it names.
pub(crate) struct Asked {
    pub(crate) request: CedarRequest,
    pub(crate) entities: Entities,
}

/// What the form of a request takes from the bundle.
pub(crate) struct Form {
    types: Types,
    rates: Rates,
    /// The actions, and the bundle's own entities.
    entities: Entities,
    subject: EntityTypeName,
    role: EntityTypeName,
    account: EntityTypeName,
    key: EntityTypeName,
    operation: EntityTypeName,
    action: EntityTypeName,
}

impl Form {
    /// # Errors
    /// What is wrong with the bundle's entities or rates.
    pub(crate) fn read(data: &dyn Data, schema: &Schema, types: Types) -> Result<Self, String> {
        let text = data.get(FILE, "").unwrap_or_else(|| "[]".to_owned());
        let entities =
            Entities::from_json_str(&text, Some(schema)).map_err(|fault| located(FILE, &text, &fault))?;
        let name = |name: &str| name.parse::<EntityTypeName>().map_err(said);
        if let Some(document) = types.documents.rates().filter(|_| data.get(rates::FILE, "").is_some()) {
            return Err(format!(
                "data/{}: the exchange rates are those of the document `{document}`: remove one of the two",
                rates::FILE
            ));
        }
        let form = Self {
            types,
            rates: Rates::read(data)?,
            entities,
            subject: name("Subject")?,
            role: name("Role")?,
            account: name("Account")?,
            key: name("Key")?,
            operation: name("Operation")?,
            action: name("Action")?,
        };
        let of_requests = [&form.subject, &form.account, &form.key, &form.operation];
        let mut uids = form.entities.iter().map(Entity::uid);
        if let Some(uid) = uids.find(|uid| of_requests.contains(&uid.type_name())) {
            return Err(format!("data/{FILE}: {uid} comes with each request"));
        }
        drop(uids);
        Ok(form)
    }

    /// The types that the bundle defines.
    pub(crate) const fn types(&self) -> &Types {
        &self.types
    }

    /// What the policies see of a request.
    ///
    /// # Errors
    /// Why the request has no Cedar form: a missing fact or document or one of another type, a number beyond 64 bits, or a duplicate
    /// name.
    pub(crate) fn context(
        &self,
        request: &Request,
        facts: &dyn Facts,
        documents: &dyn Data,
        quorum: &Quorum,
    ) -> Result<Context, String> {
        let (documents, rates) = self.types.documents.read(action(request), documents)?;
        let rates = rates.as_ref().unwrap_or(&self.rates);
        let participants = request.participants.iter().map(|index| Value::new_long(i64::from(*index)));
        let mut members = vec![
            member("moment", text(moment(request.moment))),
            member("intent_hash", text(&request.intent_hash)),
            member("tenant", text(&request.tenant)),
            member("client_id", text(&request.client_id)),
            member("key_ref", text(&request.key_ref)),
            member("participants", Value::new_set(participants)),
            member("approvals", approvals(request, quorum)?),
            member("facts", typed("fact", &self.types.facts, |name| facts.get(name))?),
            member("documents", documents),
            match &request.intent {
                Intent::Payment(it) => member("payment", payment(it, rates)?),
                Intent::AssetAction(it) => member("asset_action", asset_action(it, &self.types.fields)?),
                Intent::KeyChange(it) => member("key_change", key_change(it)?),
            },
        ];
        members.extend(
            request.threshold.map(|threshold| member("threshold", Value::new_long(i64::from(threshold)))),
        );
        members.extend(optional("bip32_path", request.bip32_path.as_ref()));
        Context::from_pairs(members).map_err(said)
    }

    /// The request itself.
    ///
    /// # Errors
    /// Why the request has no Cedar form.
    pub(crate) fn submitted(&self, request: &Request, context: Context) -> Result<Asked, String> {
        let resource = match &request.intent {
            Intent::Payment(payment) => uid(&self.account, &payment.from_account),
            Intent::AssetAction(_) | Intent::KeyChange(_) => uid(&self.key, &request.key_ref),
        };
        let resource = entity(resource, resource_members(request), HashSet::new())?;
        self.asked(self.submitter(request)?, action(request), resource, [], context)
    }

    /// The question to which groups an approver of the request belongs.
    ///
    /// # Errors
    /// Why it has no Cedar form.
    pub(crate) fn approved(
        &self,
        request: &Request,
        approval: &Approval,
        context: Context,
    ) -> Result<Asked, String> {
        let approver = self.person(&approval.by, &request.tenant)?;
        let submitter = uid(&self.subject, &request.submitter.subject_id);
        let mut members = resource_members(request);
        members.insert("submitter".to_owned(), Value::new_entity_uid(submitter.clone()));
        let resource = entity(uid(&self.operation, &request.intent_hash), members, HashSet::new())?;
        // Without separation of duties, the submitter may be the approver.
        let submitter = if approver.uid() == submitter { None } else { Some(self.submitter(request)?) };
        self.asked(approver, "approve", resource, submitter, context)
    }

    fn submitter(&self, request: &Request) -> Result<Entity, String> {
        self.person(&request.submitter, &request.tenant)
    }

    fn person(&self, person: &Person, tenant: &str) -> Result<Entity, String> {
        let roles = person.roles.iter().map(|role| uid(&self.role, role)).collect();
        let attribute = |name: &str| value_of(&person.attributes, name);
        let members = [
            member("person", text(&person.person)),
            member("tenant", text(tenant)),
            member("attributes", typed("attribute", &self.types.attributes, attribute)?),
        ];
        entity(uid(&self.subject, &person.subject_id), HashMap::from(members), roles)
    }

    fn asked(
        &self,
        principal: Entity,
        action: &str,
        resource: Entity,
        others: impl IntoIterator<Item = Entity>,
        context: Context,
    ) -> Result<Asked, String> {
        let action = uid(&self.action, action);
        let request = CedarRequest::new(principal.uid(), action, resource.uid(), context, None);
        let entities = [principal, resource].into_iter().chain(others);
        let entities = self.entities.clone().add_entities(entities, None).map_err(said)?;
        Ok(Asked { request: request.map_err(said)?, entities })
    }
}

fn action(request: &Request) -> &str {
    match &request.intent {
        Intent::Payment(_) => "payment",
        Intent::AssetAction(_) => "asset_action",
        Intent::KeyChange(change) => &change.operation,
    }
}

fn resource_members(request: &Request) -> HashMap<String, Value> {
    HashMap::from([member("key_ref", text(&request.key_ref)), member("tenant", text(&request.tenant))])
}

fn payment(payment: &Payment, rates: &Rates) -> Result<Value, String> {
    let mut members = vec![
        member("from_account", text(&payment.from_account)),
        member("to_account", text(&payment.to_account)),
        member("amount_minor", Value::new_long(payment.amount_minor)),
        member("currency", text(&payment.currency)),
    ];
    members.extend(optional("reference", payment.reference.as_ref()));
    members.extend(rates.value(payment).map(|value| member("value", value)));
    record(members)
}

fn asset_action(action: &AssetAction, types: &BTreeMap<String, Member>) -> Result<Value, String> {
    let field = |name: &str| value_of(&action.public_fields, name);
    record(vec![
        member("asset_id", text(&action.asset_id)),
        member("action", text(&action.action)),
        member("chain_id", text(&action.chain_id)),
        member("request_digest", text(&action.request_digest)),
        member("typed_data_root", text(&action.typed_data_root)),
        member("fields", typed("public field", types, field)?),
    ])
}

fn key_change(change: &KeyChange) -> Result<Value, String> {
    let mut members = vec![
        member("operation", text(&change.operation)),
        member("reason", text(&change.reason)),
        member("purpose", text(&change.purpose)),
        member("chains", Value::new_set(change.chains.iter().map(|chain| text(chain)))),
    ];
    members.extend(optional("target_epoch", change.target_epoch.as_ref()));
    members.extend(optional("new_key_ref", change.new_key_ref.as_ref()));
    members.extend(optional("signature_profile", change.signature_profile.as_ref()));
    members.extend(optional("asset_id", change.asset_id.as_ref()));
    let recovering = change.recovering_participant.map(|index| Value::new_long(i64::from(index)));
    members.extend(recovering.map(|index| member("recovering_participant", index)));
    record(members)
}

/// The approvals that count. The roles of other approvals, such as the submitter's own, are left out.
fn approvals(request: &Request, quorum: &Quorum) -> Result<Value, String> {
    let counted =
        || request.approvals.iter().filter(|approval| quorum.subjects.contains(&approval.by.subject_id));
    let roles = counted().flat_map(|approval| &approval.by.roles).map(|role| text(role));
    let mut members = vec![
        member("subjects", Value::new_set(quorum.subjects.iter().map(|subject| text(subject)))),
        member("roles", Value::new_set(roles)),
        member("count", Value::new_long(long(quorum.subjects.len())?)),
    ];
    if let Some(last) = counted().map(|approval| approval.at_ms).max() {
        members.push(member("last_at_ms", Value::new_long(long(last)?)));
    }
    record(members)
}

/// The values of these members, each of its type. `what` names one in errors.
fn typed(
    what: &str,
    types: &BTreeMap<String, Member>,
    value: impl Fn(&str) -> Option<String>,
) -> Result<Value, String> {
    let mut members = Members::new();
    for (name, of) in types {
        match value(name) {
            Some(value) => {
                let read = of.read(&value).ok_or_else(|| unusable(what, name, &value))?;
                members.push(member(name, read));
            }
            None if of.required => return Err(format!("{what} {name} is missing")),
            None => {}
        }
    }
    record(members)
}

fn value_of(pairs: &[(String, String)], name: &str) -> Option<String> {
    pairs.iter().find(|(of, _)| of == name).map(|(_, value)| value.clone())
}

fn unusable(what: &str, name: &str, value: &str) -> String {
    format!("{what} {name} has the unusable value `{value}`")
}

const fn moment(moment: Moment) -> &'static str {
    match moment {
        Moment::Submit => "submit",
        Moment::Approval => "approval",
        Moment::Admission => "admission",
        Moment::Preview => "preview",
    }
}

fn entity(
    uid: EntityUid,
    members: HashMap<String, Value>,
    parents: HashSet<EntityUid>,
) -> Result<Entity, String> {
    Entity::new(uid, members, parents).map_err(said)
}

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

fn member(name: &str, value: Value) -> (String, Value) {
    (name.to_owned(), value)
}

fn optional(name: &str, value: Option<&String>) -> Option<(String, Value)> {
    value.map(|value| member(name, text(value)))
}

fn text(value: &str) -> Value {
    Value::new_string(value.to_owned())
}

fn record(members: Members) -> Result<Value, String> {
    Value::new_record(members).map_err(said)
}

fn long(number: impl TryInto<i64>) -> Result<i64, String> {
    number.try_into().map_err(|_| "a number is beyond 64 bits".to_owned())
}

fn said(fault: impl Display) -> String {
    fault.to_string()
}
