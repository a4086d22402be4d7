//! Signed documents of the deployment in Cedar's form: those that the bundle's `type Documents` names.
//!
//! A value of JSON is read by its type in the schema, in the form that Cedar's JSON has: a `decimal`, a `datetime` and a `duration` are
//! texts, an entity is `{"type": "Account", "id": "acct-1"}`. A document that is a text is read as the JSON in it, since the contract
//! gives both alike. Cedar's own `Context::from_json_value` is not used: it leaves numbers, texts and the types of entities unchecked,
//! and takes an `unknown` from any document.

use crate::rates::{self, Rates};
use crate::schema::{FILE, Type};
use cedar_policy::{
    ActionConstraint, Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Policy,
    RestrictedExpression as Value, Schema,
};
use gateway_policy_sdk::{Data, step};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// The type, of the fixed schema, of a document with exchange rates.
const RATES: &str = "Rates";

/// The documents by name.
#[derive(Debug, Default)]
pub(crate) struct Documents(BTreeMap<String, Document>);

#[derive(Debug)]
struct Document {
    content: Content,
    required: bool,
    /// The actions of the requests that need it, by [`Documents::find_readers`].
    actions: BTreeSet<String>,
}

#[derive(Debug)]
enum Content {
    Rates,
    Other(Shape),
}

/// The type of a value of JSON.
#[derive(Debug)]
enum Shape {
    Long,
    Bool,
    String,
    Decimal,
    Datetime,
    Duration,
    /// The type, with its name.
    Entity(EntityTypeName, String),
    Set(Box<Self>),
    Record(BTreeMap<String, Part>),
}

#[derive(Debug)]
struct Part {
    shape: Shape,
    required: bool,
}

/// Where in a document a value is wrong, as a JSON pointer, and how.
struct Wrong {
    at: String,
    how: &'static str,
}

impl Documents {
    /// The documents of the bundle's `type Documents`, if it defines one, with its other common types.
    ///
    /// # Errors
    /// The document with a type that none can have.
    pub(crate) fn declared(common: &BTreeMap<String, Type>, schema: &Schema) -> Result<Self, String> {
        let Some(record) = common.get("Documents") else { return Ok(Self::default()) };
        if record.kind != "Record" {
            return Err(format!("data/{FILE}: type `Documents` is not a record"));
        }
        let mut all = BTreeMap::new();
        for (name, attribute) in &record.attributes {
            let content = match Shape::of(&attribute.of, common, schema) {
                _ if attribute.of.name == RATES => Content::Rates,
                Some(shape @ (Shape::Record(_) | Shape::Set(_))) => Content::Other(shape),
                _ => {
                    return Err(format!(
                        "data/{FILE}: the document `{name}` has a type that none can have; use {RATES}, or a record or a \
                         Set of Long, Bool, String, decimal, datetime, duration, entities, records and sets"
                    ));
                }
            };
            let document = Document { content, required: attribute.required, actions: BTreeSet::new() };
            all.insert(name.clone(), document);
        }
        let mut rates =
            all.iter().filter(|(_, it)| matches!(it.content, Content::Rates)).map(|(name, _)| name);
        if let (Some(first), Some(second)) = (rates.next(), rates.next()) {
            return Err(format!("data/{FILE}: `{first}` and `{second}` are both of type {RATES}; use one"));
        }
        Ok(Self(all))
    }

    /// The document with exchange rates.
    pub(crate) fn rates(&self) -> Option<&str> {
        self.0.iter().find(|(_, it)| matches!(it.content, Content::Rates)).map(|(name, _)| name.as_str())
    }

    /// Finds which requests need each document: those with an action to which a policy applies that names the document, or for
    /// exchange rates the payment's `value`. The policies with `@group` apply to all.
    pub(crate) fn find_readers<'a>(
        &mut self,
        policies: impl Iterator<Item = &'a Policy>,
        actions: &Entities,
    ) {
        for policy in policies {
            let conditions = policy.to_json().ok().and_then(|json| Some(json.get("conditions")?.to_string()));
            let names = |word: &str| {
                conditions.as_ref().is_none_or(|text| text.contains(&Json::from(word).to_string()))
            };
            for (name, document) in &mut self.0 {
                if names(name) || (matches!(document.content, Content::Rates) && names("value")) {
                    let concerned =
                        actions.iter().map(Entity::uid).filter(|it| concerns(policy, actions, it));
                    document.actions.extend(concerned.map(|it| it.id().unescaped().to_owned()));
                }
            }
        }
    }

    /// The documents that a request with this action needs, as a record, and the exchange rates among them.
    ///
    /// # Errors
    /// The document that is missing, or not of its type.
    pub(crate) fn read(&self, action: &str, source: &dyn Data) -> Result<(Value, Option<Rates>), String> {
        let (mut members, mut rates) = (Vec::new(), None);
        for (name, document) in self.0.iter().filter(|(_, it)| it.actions.contains(action)) {
            let Some(text) = source.get(name, "") else {
                if document.required {
                    return Err(format!("document {name} is missing or has expired"));
                }
                continue;
            };
            let value = match &document.content {
                Content::Rates => {
                    let read = rates.insert(Rates::parse(&text, &format!("document {name}"))?);
                    let currency = Value::new_string(read.currency().to_owned());
                    Value::new_record([("currency".to_owned(), currency)])
                        .map_err(|fault| fault.to_string())?
                }
                Content::Other(shape) => {
                    let content = serde_json::from_str(&text).unwrap_or(Json::Null);
                    let read = shape.read(&content);
                    read.map_err(|Wrong { at, how }| format!("document {name}{at} {how}"))?
                }
            };
            members.push((name.clone(), value));
        }
        Value::new_record(members).map(|record| (record, rates)).map_err(|fault| fault.to_string())
    }

    /// A content of the document's type, to evaluate once before the first request.
    pub(crate) fn sample(&self, name: &str) -> Option<String> {
        Some(match &self.0.get(name)?.content {
            Content::Rates => rates::SAMPLE.to_owned(),
            Content::Other(shape) => shape.sample().to_string(),
        })
    }
}

/// Whether the policy may apply to a request with this action.
fn concerns(policy: &Policy, actions: &Entities, action: &EntityUid) -> bool {
    let has = |of: &EntityUid| {
        of == action || of.id().unescaped() == "approve" || actions.is_ancestor_of(of, action)
    };
    match policy.action_constraint() {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(of) => has(&of),
        ActionConstraint::In(all) => all.iter().any(has),
    }
}

impl Shape {
    /// `None` for a type that no value of JSON has.
    fn of(declared: &Type, common: &BTreeMap<String, Type>, schema: &Schema) -> Option<Self> {
        if let Some(declared) = common.get(&declared.name) {
            return Self::of(declared, common, schema);
        }
        Some(match (declared.kind.as_str(), declared.name.as_str()) {
            ("Set", _) => Self::Set(Box::new(Self::of(declared.element.as_deref()?, common, schema)?)),
            ("Record", _) => {
                let parts = declared.attributes.iter().map(|(name, attribute)| {
                    let shape = Self::of(&attribute.of, common, schema)?;
                    Some((name.clone(), Part { shape, required: attribute.required }))
                });
                Self::Record(parts.collect::<Option<_>>()?)
            }
            (_, "Long") => Self::Long,
            (_, "Bool") => Self::Bool,
            (_, "String") => Self::String,
            (_, "decimal") => Self::Decimal,
            (_, "datetime") => Self::Datetime,
            (_, "duration") => Self::Duration,
            (_, name) => {
                let kind = schema.entity_types().find(|it| it.to_string() == name)?;
                Self::Entity(kind.clone(), name.to_owned())
            }
        })
    }

    fn read(&self, json: &Json) -> Result<Value, Wrong> {
        let value = match (self, json) {
            (Self::Long, Json::Number(number)) => number.as_i64().map(Value::new_long),
            (Self::Bool, Json::Bool(flag)) => Some(Value::new_bool(*flag)),
            (Self::String, Json::String(text)) => Some(Value::new_string(text.clone())),
            (Self::Decimal, Json::String(text)) => valid(Value::new_decimal(text)),
            (Self::Datetime, Json::String(text)) => valid(Value::new_datetime(text)),
            (Self::Duration, Json::String(text)) => valid(Value::new_duration(text)),
            (Self::Entity(kind, name), Json::Object(members)) => entity(kind, name, members),
            (Self::Set(of), Json::Array(items)) => {
                let items = items.iter().enumerate();
                let items =
                    items.map(|(nth, item)| of.read(item).map_err(|wrong| wrong.below(&nth.to_string())));
                Some(Value::new_set(items.collect::<Result<Vec<_>, _>>()?))
            }
            (Self::Record(parts), Json::Object(members)) => Some(record(parts, members)?),
            _ => None,
        };
        value.ok_or_else(|| Wrong::new("is not of its type in the schema"))
    }

    fn sample(&self) -> Json {
        match self {
            Self::Long => json!(1),
            Self::Bool => json!(true),
            Self::String => json!("sample"),
            Self::Decimal => json!("1.0"),
            Self::Datetime => json!("2026-01-31"),
            Self::Duration => json!("1h"),
            Self::Entity(_, name) => json!({ "type": name, "id": "sample" }),
            Self::Set(of) => json!([of.sample()]),
            Self::Record(parts) => {
                parts.iter().map(|(name, part)| (name.clone(), part.shape.sample())).collect()
            }
        }
    }
}

fn record(parts: &BTreeMap<String, Part>, members: &Map<String, Json>) -> Result<Value, Wrong> {
    if let Some(name) = members.keys().find(|name| !parts.contains_key(*name)) {
        return Err(Wrong::new("is not in its type in the schema").below(name));
    }
    let mut read = Vec::new();
    for (name, part) in parts {
        match members.get(name) {
            Some(json) => {
                read.push((name.clone(), part.shape.read(json).map_err(|wrong| wrong.below(name))?))
            }
            None if part.required => return Err(Wrong::new("is missing").below(name)),
            None => {}
        }
    }
    Value::new_record(read).map_err(|_| Wrong::new("names a member twice"))
}

fn entity(kind: &EntityTypeName, name: &str, members: &Map<String, Json>) -> Option<Value> {
    let text = |member: &str| members.get(member).and_then(Json::as_str);
    let id = text("id").filter(|_| members.len() == 2 && text("type") == Some(name))?;
    let uid = EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id));
    Some(Value::new_entity_uid(uid))
}

/// The value, if Cedar's constructor of its type takes the text.
fn valid(value: Value) -> Option<Value> {
    Context::from_pairs([(String::new(), value.clone())]).is_ok().then_some(value)
}

impl Wrong {
    const fn new(how: &'static str) -> Self {
        Self { at: String::new(), how }
    }

    /// The same, as seen from the value that has this one as a member.
    fn below(self, name: &str) -> Self {
        Self { at: format!("/{}{}", step(name), self.at), how: self.how }
    }
}
