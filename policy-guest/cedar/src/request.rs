//! The Cedar form of a request, as policies see it:
//!
//! | | |
//! |---|---|
//! | `principal` | `Subject::"<subject_id>"` with `client_id`, `tenant`; `in Role::"<role>"` for each of its roles |
//! | `action` | `Action::"payment"`, `Action::"asset_action"`, or `Action::"<operation>"` for a key operation, `in Action::"key_change"` |
//! | `resource` | `Account::"<from_account>"` for a payment, else `Key::"<key_ref>"`; both have `tenant`, `key_ref` |
//! | `context.moment` | `"submit"`, `"approval"`, `"admission"` or `"preview"` |
//! | `context.payment` | `from_account`, `to_account`, `amount_minor`, `currency`, and `reference` if it is given |
//! | `context.asset_action` | `asset_id`, `action`, `chain_id`, `request_digest`, `typed_data_root`, `fields` |
//! | `context.key_change` | `operation`, `reason`, and those of `target_epoch`, `new_key_ref`, `signature_profile`, `asset_id`, `recovering_participant` that are given |
//! | `context.approvals` | `subjects` and `roles` (sets) of the approvals that count, `count`, `required`, `reached`, and `last_at_ms` if any approval counts |
//! | `context.facts` | the facts listed in `data/settings.json`, without those that the deployment does not have |
//! | `context` | also `tenant`, `key_ref`, `intent_hash`, `participants`, and `threshold` and `bip32_path` if they are given |
//!
//! `context` has a member for the intent's own kind only. Reading a missing member is an error, and so a denial: write
//! `context has payment` or `context.facts has "time.now_ms"` first. Values are constructed, never parsed, so a
//! submitter's text stays text.

use crate::settings::{Kind, Settings};
use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request as CedarRequest,
    RestrictedExpression as Value,
};
use gateway_policy_sdk::{AssetAction, Facts, Intent, KeyChange, Moment, Payment, Quorum, Request};
use std::collections::{HashMap, HashSet};
use std::fmt::Display;

type Members = Vec<(String, Value)>;

/// Cedar's request, and the entities that it names.
///
/// # Errors
/// Why the request has no Cedar form: a fact of another type, a number beyond 64 bits, or a duplicate name.
pub(crate) fn build(
    request: &Request,
    facts: &dyn Facts,
    settings: &Settings,
    quorum: &Quorum,
) -> Result<(CedarRequest, Entities), String> {
    let principal = uid("Subject", &request.submitter.subject_id)?;
    let (kind, parent) = action(&request.intent);
    let action = uid("Action", kind)?;
    let resource = resource(request)?;

    let roles = request.submitter.roles.iter().map(|role| uid("Role", role));
    let client = member("client_id", text(&request.client_id));
    let tenant = member("tenant", text(&request.tenant));
    let key = member("key_ref", text(&request.key_ref));
    let entities = [
        entity(&principal, [client, tenant.clone()], roles.collect::<Result<_, _>>()?)?,
        entity(&action, [], parent.map(|parent| uid("Action", parent)).transpose()?.into_iter().collect())?,
        entity(&resource, [key, tenant], HashSet::new())?,
    ];
    let entities = Entities::from_entities(entities, None).map_err(said)?;
    let context = Context::from_pairs(context(request, facts, settings, quorum)?).map_err(said)?;
    let request = CedarRequest::new(principal, action, resource, context, None).map_err(said)?;
    Ok((request, entities))
}

/// The action's name, and its group.
fn action(intent: &Intent) -> (&str, Option<&'static str>) {
    match intent {
        Intent::Payment(_) => ("payment", None),
        Intent::AssetAction(_) => ("asset_action", None),
        Intent::KeyChange(change) => (&change.operation, Some("key_change")),
    }
}

fn resource(request: &Request) -> Result<EntityUid, String> {
    match &request.intent {
        Intent::Payment(payment) => uid("Account", &payment.from_account),
        Intent::AssetAction(_) | Intent::KeyChange(_) => uid("Key", &request.key_ref),
    }
}

fn context(
    request: &Request,
    facts: &dyn Facts,
    settings: &Settings,
    quorum: &Quorum,
) -> Result<Members, String> {
    let participants = request.participants.iter().map(|index| Value::new_long(i64::from(*index)));
    let mut members = vec![
        member("moment", text(moment(request.moment))),
        member("intent_hash", text(&request.intent_hash)),
        member("tenant", text(&request.tenant)),
        member("key_ref", text(&request.key_ref)),
        member("participants", Value::new_set(participants)),
        member("approvals", approvals(request, quorum)?),
        member("facts", known(facts, settings)?),
        match &request.intent {
            Intent::Payment(it) => member("payment", payment(it)?),
            Intent::AssetAction(it) => member("asset_action", asset_action(it)?),
            Intent::KeyChange(it) => member("key_change", key_change(it)?),
        },
    ];
    members.extend(
        request.threshold.map(|threshold| member("threshold", Value::new_long(i64::from(threshold)))),
    );
    members.extend(optional("bip32_path", request.bip32_path.as_ref()));
    Ok(members)
}

fn payment(payment: &Payment) -> Result<Value, String> {
    let mut members = vec![
        member("from_account", text(&payment.from_account)),
        member("to_account", text(&payment.to_account)),
        member("amount_minor", Value::new_long(payment.amount_minor)),
        member("currency", text(&payment.currency)),
    ];
    members.extend(optional("reference", payment.reference.as_ref()));
    record(members)
}

fn asset_action(action: &AssetAction) -> Result<Value, String> {
    let fields = action.public_fields.iter().map(|(name, value)| member(name, text(value)));
    record(vec![
        member("asset_id", text(&action.asset_id)),
        member("action", text(&action.action)),
        member("chain_id", text(&action.chain_id)),
        member("request_digest", text(&action.request_digest)),
        member("typed_data_root", text(&action.typed_data_root)),
        member("fields", record(fields.collect())?),
    ])
}

fn key_change(change: &KeyChange) -> Result<Value, String> {
    let mut members =
        vec![member("operation", text(&change.operation)), member("reason", text(&change.reason))];
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
        member("required", Value::new_long(i64::from(quorum.required))),
        member("reached", Value::new_bool(quorum.satisfied)),
    ];
    if let Some(last) = counted().map(|approval| approval.at_ms).max() {
        members.push(member("last_at_ms", Value::new_long(long(last)?)));
    }
    record(members)
}

fn known(facts: &dyn Facts, settings: &Settings) -> Result<Value, String> {
    let mut members = Members::new();
    for (name, kind) in &settings.facts {
        if let Some(value) = facts.get(name) {
            let read = fact(&value, *kind);
            members.push(member(
                name,
                read.ok_or_else(|| format!("fact {name} has the unusable value `{value}`"))?,
            ));
        }
    }
    record(members)
}

fn fact(value: &str, kind: Kind) -> Option<Value> {
    Some(match kind {
        Kind::Long => Value::new_long(value.parse().ok()?),
        Kind::Bool => Value::new_bool(value.parse().ok()?),
        Kind::String => text(value),
        Kind::Set => Value::new_set(value.split(',').map(str::trim).filter(|it| !it.is_empty()).map(text)),
    })
}

const fn moment(moment: Moment) -> &'static str {
    match moment {
        Moment::Submit => "submit",
        Moment::Approval => "approval",
        Moment::Admission => "admission",
        Moment::Preview => "preview",
    }
}

fn entity<const N: usize>(
    uid: &EntityUid,
    members: [(String, Value); N],
    parents: HashSet<EntityUid>,
) -> Result<Entity, String> {
    Entity::new(uid.clone(), HashMap::from(members), parents).map_err(said)
}

fn uid(kind: &str, id: &str) -> Result<EntityUid, String> {
    let kind: EntityTypeName = kind.parse().map_err(said)?;
    Ok(EntityUid::from_type_name_and_id(kind, EntityId::new(id)))
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
