//! The OpenAPI document of the node surface is made from the wire types: `UPDATE_OPENAPI=1 cargo nextest run -p runtime-node document`
//! writes it.

use gateway_domain::contribution::{HelperAdmission, RecoveryCase};
use gateway_domain::ids::OperationId;
use gateway_domain::node_log::SignedLogHead;
use gateway_node::wire::{
    CallContext, ExecuteAnswer, ExecuteBody, Health, LogEntries, MissingSharesAnswer, MissingSharesRequest,
    NodeAdmissionDecisionRequest, NodeOperationSubmitRequest, NodeOperationView, Nothing, OfferBundleRequest,
    PolicyReceiptAnswer, ReceiptAnswer, RecoverAnswer, StepRequest,
};
use gateway_node::{CommitEpoch, Discard, NodeStatus, Publication, ShownReceipt};
use gateway_service::answer::ErrorBody;
use gateway_service::strict::Fault;
use runtime_node::routes::OPENAPI;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use utoipa::ToSchema;

/// The surface: its routes, and the schemas that they name.
pub(crate) struct Surface {
    pub(crate) routes: Vec<Route>,
    schemas: BTreeMap<String, Value>,
}

/// A route, with the types of its request and its answer.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    id: &'static str,
    summary: &'static str,
    tag: &'static str,
    pub(crate) request: Option<Shape>,
    /// `None` for any object.
    pub(crate) answer: Option<Shape>,
}

/// A type of the wire.
pub(crate) struct Shape {
    schema: String,
    /// Reads a value as this type; unknown members are errors.
    pub(crate) read: fn(Value) -> Result<(), serde_json::Error>,
}

pub(crate) static SURFACE: LazyLock<Surface> = LazyLock::new(Surface::new);

/// The error of every route.
pub(crate) fn read_error(value: Value) -> Result<(), serde_json::Error> {
    read::<ErrorBody>(value)
}

fn read<T: DeserializeOwned>(value: Value) -> Result<(), serde_json::Error> {
    serde_json::from_value::<T>(value).map(drop)
}

/// Adds a type that a route sends or answers. Its id names the request of a step.
type Add = fn(&mut Surface, id: &str) -> Shape;

/// Adds routes: method, path, id and summary, and the types of the request and the answer.
macro_rules! routes {
    ($surface:ident, $tag:literal: $($method:ident $path:literal $id:literal $summary:literal, $request:expr, $answer:expr;)+) => {$(
        let (request, answer): (Option<Add>, Option<Add>) = ($request, $answer);
        let route = Route {
            method: stringify!($method),
            path: $path,
            id: $id,
            summary: $summary,
            tag: $tag,
            request: request.map(|add| add(&mut $surface, $id)),
            answer: answer.map(|add| add(&mut $surface, $id)),
        };
        $surface.routes.push(route);
    )+};
}

impl Surface {
    fn new() -> Self {
        let mut it = Self { routes: vec![], schemas: BTreeMap::new() };
        let (error, fault) = (it.add::<ErrorBody>(), it.add::<Fault>());
        // A caller never reads them, so the derive leaves them out.
        let faults = json!({ "type": "array", "items": { "$ref": reference(&fault) }, "description": "Every fault of the request's body that can be found at once." });
        it.schemas.get_mut(&error).unwrap()["properties"]["errors"] = faults;
        it.add::<OperationId>();
        routes! { it, "operations":
            post "/v1/node/operations" "announce" "Announce an operation",
                Some(shape::<NodeOperationSubmitRequest>), Some(shape::<NodeOperationView>);
            get "/v1/node/operations/{id}" "show" "What the node knows of an operation",
                None, Some(shape::<NodeOperationView>);
            post "/v1/node/operations/{id}/admission" "admit" "Verify the authority's decision and store it",
                Some(shape::<NodeAdmissionDecisionRequest>), Some(shape::<ReceiptAnswer>);
            post "/v1/node/operations/{id}/steps/policy-receipt" "policy_receipt" "Record that execution may begin",
                Some(step::<Nothing>), Some(shape::<PolicyReceiptAnswer>);
            post "/v1/node/operations/{id}/steps/execute" "execute" "Sign, or take part in a ceremony",
                Some(step::<ExecuteBody>), Some(shape::<ExecuteAnswer>);
            post "/v1/node/operations/{id}/steps/commit-epoch" "commit_epoch" "Promote the staged generation of shares",
                Some(step::<CommitEpoch>), Some(shape::<ReceiptAnswer>);
            post "/v1/node/operations/{id}/steps/publish" "publish" "Record the publication, and erase replaced shares",
                Some(step::<Publication>), Some(shape::<ReceiptAnswer>);
            post "/v1/node/operations/{id}/steps/discard" "discard" "Refuse every further step of the operation",
                Some(step::<Discard>), Some(shape::<ReceiptAnswer>);
            post "/v1/node/operations/{id}/steps/recover" "recover"
                "The receipts for a step that the node has made. The context is that of the step",
                Some(step::<Nothing>), Some(shape::<RecoverAnswer>);
            post "/v1/node/bundles" "offer_bundle"
                "Verify a policy bundle, compile it, run its test vectors, and keep it",
                Some(shape::<OfferBundleRequest>), Some(shape::<Nothing>);
            post "/v1/node/keys/missing-shares" "missing_shares" "The keys that the node does not sign with",
                Some(shape::<MissingSharesRequest>), Some(shape::<MissingSharesAnswer>);
            post "/v1/node/keys/contributions" "contribution" "What the node would contribute to a recovery",
                Some(shape::<RecoveryCase>), Some(shape::<HelperAdmission>);
            get "/v1/node/log" "log" "The signed head of the node's log", None, Some(shape::<SignedLogHead>);
            get "/v1/node/log/entries/{from}" "log_entries"
                "At most 1,000 entries of the log, from a position on",
                None, Some(shape::<LogEntries>);
        }
        routes! { it, "health":
            get "/v1/node/status" "status" "Whether the node is usable, and its damage",
                None, Some(shape::<NodeStatus>);
            get "/healthz" "healthz" "Liveness", None, Some(shape::<Health>);
            get "/v1/openapi.json" "openapi" "This document", None, None;
        }
        it
    }

    /// Adds the schema of a type, and those that it names. Returns its name.
    fn add<T: ToSchema>(&mut self) -> String {
        let mut found = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut found);
        self.schemas.extend(found.into_iter().map(|(name, schema)| (name, plain(json!(schema)))));
        T::name().into_owned()
    }

    fn document(&self) -> String {
        #[derive(Serialize)]
        struct Document<'a> {
            openapi: &'a str,
            info: Value,
            servers: Value,
            security: Value,
            tags: Value,
            paths: BTreeMap<&'a str, BTreeMap<&'a str, Value>>,
            components: Value,
        }
        let mut paths: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for route in &self.routes {
            paths.entry(route.path).or_default().insert(route.method, route.operation());
        }
        // Each request of a step repeats its members.
        let schemas = self.schemas.iter().filter(|(name, _)| *name != "CallContext");
        let document = Document {
            openapi: "3.1.0",
            info: json!({
                "title": "Runtime node",
                "version": "1",
                "description": "The node surface, over mutual TLS with certificates whose names the node's operator permits. A repeated call gets the same answer. Errors of the node: 403 and 409 with the code of the rejection, 409 `attempt_lost`, 409 `bundle_unknown` with the hash of the bundle that the node needs, 503 `unavailable`.",
                "contact": { "name": "Maintainers of operation-gateway" },
                "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            }),
            servers: json!([{ "url": "/" }]),
            security: json!([{ "mutualTLS": [] }]),
            tags: json!([
                { "name": "operations", "description": "The steps of operations." },
                { "name": "health", "description": "Probes, and this document." },
            ]),
            paths,
            components: json!({
                "schemas": schemas.collect::<BTreeMap<_, _>>(),
                "securitySchemes": { "mutualTLS": { "type": "mutualTLS" } },
            }),
        };
        serde_json::to_string_pretty(&document).unwrap() + "\n"
    }
}

fn shape<T: ToSchema + DeserializeOwned>(surface: &mut Surface, _: &str) -> Shape {
    Shape { schema: surface.add::<T>(), read: read::<T> }
}

/// The request of a step: the members of the context, and the arguments of the step as `body`.
fn step<B: ToSchema + DeserializeOwned>(surface: &mut Surface, id: &str) -> Shape {
    let (body, shown, context) =
        (surface.add::<B>(), surface.add::<ShownReceipt>(), surface.add::<CallContext>());
    let mut schema = surface.schemas[&context].clone();
    schema["description"] = "A step: the context of the call, and the arguments of the step.".into();
    schema["properties"]["newest"] = json!({ "$ref": reference(&shown) });
    schema["properties"]["body"] = json!({ "$ref": reference(&body) });
    schema["required"].as_array_mut().unwrap().push("body".into());
    let words = id.split('_').map(|word| word[..1].to_uppercase() + &word[1..]);
    let name = words.collect::<String>() + "Request";
    surface.schemas.insert(name.clone(), schema);
    Shape { schema: name, read: read::<StepRequest<B>> }
}

impl Route {
    fn operation(&self) -> Value {
        let content = |schema: Value| json!({ "application/json": { "schema": schema } });
        let of = |shape: &Shape| content(json!({ "$ref": reference(&shape.schema) }));
        let error = |description: &str| json!({ "description": description, "content": content(json!({ "$ref": reference(&ErrorBody::name()) })) });
        let mut operation = json!({
            "operationId": self.id,
            "summary": self.summary,
            "description": format!("{}.", self.summary),
            "tags": [self.tag],
            "responses": {
                "200": { "description": "OK", "content": self.answer.as_ref().map_or_else(|| content(json!({ "type": "object" })), of) },
                "4XX": error("The request is refused"),
                "5XX": error("The node cannot answer now; the same request may succeed later"),
            },
        });
        let parameter = |name: &str, description: &str, schema: Value| json!([{ "name": name, "in": "path", "required": true, "description": description, "schema": schema }]);
        if self.path.contains("{id}") {
            let schema = json!({ "$ref": reference(&OperationId::name()) });
            operation["parameters"] = parameter("id", "The operation's id.", schema);
        }
        if self.path.contains("{from}") {
            let schema = json!({ "type": "integer", "minimum": 0 });
            operation["parameters"] = parameter("from", "The first position, from 0.", schema);
        }
        if let Some(request) = &self.request {
            operation["requestBody"] = json!({ "required": true, "content": of(request) });
        }
        operation
    }
}

fn reference(schema: &str) -> String {
    format!("#/components/schemas/{schema}")
}

/// The schema with descriptions for readers that do not know Rust.
fn plain(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                let value = member.take();
                *member = match value.as_str() {
                    Some(text) if name == "description" => in_words(text).into(),
                    Some(_) | None => plain(value),
                };
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = plain(item.take())),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
    schema
}

/// `[text](target)` and `[text]` as `text`, on one line, without Rust's word for null.
fn in_words(text: &str) -> String {
    let mut words = String::new();
    let mut rest = text;
    while let Some((before, (name, after))) =
        rest.split_once('[').and_then(|(before, it)| Some((before, it.split_once(']')?)))
    {
        words.push_str(before);
        words.push_str(name);
        rest = after.strip_prefix('(').and_then(|target| target.split_once(')')).map_or(after, |(_, it)| it);
    }
    (words + rest).replace('\n', " ").replace("`None`", "`null`")
}

#[test]
fn document_is_the_one_of_the_wire_types() {
    let document = SURFACE.document();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json"), &document).unwrap();
        return;
    }
    assert!(document == OPENAPI, "openapi.json is not made from the present types: set UPDATE_OPENAPI");
}
