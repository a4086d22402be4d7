//! A key through the routers of two nodes, with every request and answer read as the type that the document has; and bad input.

use crate::document::{Route, SURFACE, read_error};
use crate::quotas;
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use gateway_domain::ids::{Hex32, KeyId};
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_node::testing::{Case, KEY, before_creation, bundle, mail, offer, settings};
use gateway_node::wire::{
    CallContext, ExecuteAnswer, ExecuteBody, NodeAdmissionDecisionRequest, NodeOperationSubmitRequest,
    Nothing, OfferBundleRequest, Slot, Start, StepRequest,
};
use gateway_node::{Call, CeremonyStart, Envelope, Node, NodeConfig, Peers, ShownReceipt};
use gateway_threshold::PublicKeys;
use http_body_util::BodyExt;
use runtime_node::routes;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tower::ServiceExt;

const SUITE: &str = "frost-secp256k1-sha256-tr";
const BASE: &str = "/v1/node/operations";

struct Nodes {
    routers: Vec<Router>,
    /// The routes that answered 200.
    covered: Mutex<BTreeSet<(&'static str, &'static str)>>,
    _folder: TempDir,
}

impl Nodes {
    async fn open(n: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let peers = Arc::new(Peers::default());
        let mut routers = Vec::new();
        for index in 0..n {
            let config = NodeConfig {
                participant: ParticipantIndex(index),
                database: folder.path().join(format!("node-{index}.db")),
                log_size_file: None,
                peers: Arc::clone(&peers),
                settings: settings(1, Arc::new(|| EpochMs(1_000))),
            };
            let node = Arc::new(Node::open(config).await.unwrap());
            peers.pin(node.identity()).unwrap();
            routers.push(routes::router(node, quotas(64)));
        }
        Self { routers, covered: Mutex::default(), _folder: folder }
    }

    /// Sends a request to a node; the answer must be of the route's type, and the request too if it is answered with 200.
    async fn send(&self, node: u16, method: &str, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let text = body.as_ref().map(Value::to_string).unwrap_or_default();
        let (status, answer) = self.send_text(node, request, text).await;
        let route = route(method, path);
        if !status.is_success() {
            read_error(answer.clone()).unwrap_or_else(|why| panic!("error of {}: {why}", route.path));
            return (status, answer);
        }
        if let (Some(body), Some(shape)) = (body, &route.request) {
            (shape.read)(body).unwrap_or_else(|why| panic!("request of {}: {why}", route.path));
        }
        if let Some(shape) = &route.answer {
            (shape.read)(answer.clone()).unwrap_or_else(|why| panic!("answer of {}: {why}", route.path));
        }
        self.covered.lock().unwrap().insert((route.method, route.path));
        (status, answer)
    }

    async fn send_text(
        &self,
        node: u16,
        request: axum::http::request::Builder,
        text: String,
    ) -> (StatusCode, Value) {
        let router = self.routers[usize::from(node)].clone();
        let request = request.header("host", "node").body(Body::from(text)).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status();
        assert!(response.headers().contains_key("x-request-id"));
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    async fn post(&self, node: u16, path: &str, body: impl Serialize) -> Value {
        let (status, answer) = self.send(node, "POST", path, Some(json!(body))).await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        answer
    }

    /// The first admission is refused until the node has the bundle.
    async fn admit(&self, case: &Case) {
        for node in 0..self.routers.len() as u16 {
            let (status, answer) =
                self.send(node, "POST", &path(case, "admission"), Some(json!(admission(case)))).await;
            assert_eq!(
                (status, &answer["error"]),
                (StatusCode::CONFLICT, &json!("bundle_unknown")),
                "{answer}"
            );
            self.post(node, "/v1/node/bundles", OfferBundleRequest::from(&offer(bundle()))).await;
        }
        for node in 0..self.routers.len() as u16 {
            self.post(node, &path(case, "admission"), admission(case)).await;
            self.post(node, &path(case, "steps/policy-receipt"), step(case, node, EffectStep::PolicyReceipt))
                .await;
        }
    }

    async fn execute(&self, case: &Case, node: u16, slot: Slot, body: ExecuteBody) -> ExecuteAnswer {
        let context = CallContext::new(&case.call(node, EffectStep::Execute, 1, 1), slot).unwrap();
        let answer =
            self.post(node, &path(case, "steps/execute"), StepRequest { context, newest: None, body }).await;
        serde_json::from_value(answer).unwrap()
    }

    /// Makes a key on all nodes.
    async fn make_key(&self, case: &Case) -> PublicKeys {
        self.admit(case).await;
        let n = self.routers.len() as u16;
        let mut answers = Vec::new();
        for node in 0..n {
            let start = Some(Start::from(&CeremonyStart::default()));
            let body = ExecuteBody { start, ..ExecuteBody::default() };
            answers.push(self.execute(case, node, Slot::CeremonyStart, body).await);
        }
        loop {
            let sent: Vec<Envelope> = answers.iter().flat_map(messages).collect();
            if sent.is_empty() {
                break;
            }
            answers.clear();
            for node in 0..n {
                let body = ExecuteBody { messages: Some(mail(&sent, node)), ..ExecuteBody::default() };
                answers.push(self.execute(case, node, Slot::CeremonyMessages, body).await);
            }
        }
        let ExecuteAnswer::Staged { public_keys_hex, .. } = &answers[0] else { panic!("{answers:?}") };
        PublicKeys::from_bytes(&hex::decode(public_keys_hex).unwrap()).unwrap()
    }
}

fn messages(answer: &ExecuteAnswer) -> Vec<Envelope> {
    match answer {
        ExecuteAnswer::Messages { messages } => messages.clone(),
        _ => Vec::new(),
    }
}

/// The documented route of a path.
fn route(method: &str, path: &str) -> &'static Route {
    let fits = |route: &&Route| {
        let (expected, found) = (route.path.split('/'), path.split('/'));
        let are_same =
            expected.clone().zip(found.clone()).all(|(one, two)| one == two || one.starts_with('{'));
        route.method == method.to_lowercase() && expected.count() == found.count() && are_same
    };
    SURFACE.routes.iter().find(fits).unwrap_or_else(|| panic!("{method} {path} is not in the document"))
}

fn path(case: &Case, rest: &str) -> String {
    format!("{BASE}/{}/{rest}", case.decision.operation_id)
}

fn admission(case: &Case) -> NodeAdmissionDecisionRequest {
    let mut request =
        NodeAdmissionDecisionRequest::new(&case.request(), &case.decision(), SUITE, EpochMs(1)).unwrap();
    request.now_ms = None;
    request
}

fn step(case: &Case, node: u16, step: EffectStep) -> StepRequest<Nothing> {
    step_of(&case.call(node, step, 1, 1))
}

fn step_of(call: &Call) -> StepRequest<Nothing> {
    StepRequest { context: CallContext::new(call, Slot::Step).unwrap(), newest: None, body: Nothing {} }
}

#[tokio::test]
async fn every_route_answers_as_the_document_says() {
    let nodes = Nodes::open(2).await;
    let create = Case::key_create(100, KEY, 2, 2, SUITE);
    let keys = nodes.make_key(&create).await;
    // The promotion needs the receipts of all; their forms are checked by the cluster's test.
    let refused = StepRequest {
        context: CallContext::new(&create.call(0, EffectStep::CommitEpoch, 1, 1), Slot::Step).unwrap(),
        newest: None,
        body: json!({ "attempt": 1, "epoch_root": Hex32::ZERO, "staged": [] }),
    };
    let (status, answer) =
        nodes.send(0, "POST", &path(&create, "steps/commit-epoch"), Some(json!(refused))).await;
    assert_eq!((status, &answer["error"]), (StatusCode::CONFLICT, &json!("epoch_conflict")), "{answer}");
    let (_, view) = nodes.send(0, "GET", path(&create, "").trim_end_matches('/'), None).await;
    assert_eq!(view["phase"], "Executed");
    assert_eq!(keys.threshold(), 2);

    let other = Case::key_create(101, KeyId(Hex32::new([9; 32])), 2, 2, SUITE);
    let announced =
        NodeOperationSubmitRequest::new(&other.request(), &other.decision(), SUITE, EpochMs(1)).unwrap();
    let view = nodes.post(0, BASE, &announced).await;
    assert_eq!(view["phase"], "Submitted");
    let discard = StepRequest {
        context: CallContext::new(&create.call(0, EffectStep::Discard, 1, 1), Slot::Step).unwrap(),
        newest: None,
        body: create.discarding(),
    };
    nodes.post(0, &path(&create, "steps/discard"), discard).await;
    let second = create.call(0, EffectStep::Execute, 2, 2);
    let attempt = StepRequest {
        context: CallContext::new(&second, Slot::DiscardAttempt).unwrap(),
        newest: None,
        body: ExecuteBody::default(),
    };
    let answer = nodes.post(0, &path(&create, "steps/execute"), attempt).await;
    assert_eq!(answer["type"], "discarded");
    // What the caller lost: each receipt is the one that the step returned.
    let recovered = nodes.post(0, &path(&create, "steps/recover"), attempt_receipt(&second)).await;
    assert_eq!(recovered["receipts"].as_array().unwrap().len(), 1, "{recovered}");
    assert_eq!(recovered["receipts"][0]["receipt"], answer["receipt"]);
    nodes.post(0, "/v1/node/keys/missing-shares", json!({ "keys": [[KEY, before_creation()]] })).await;
    for probe in ["/v1/node/status", "/v1/node/log", "/v1/node/log/entries/0", "/healthz", "/v1/openapi.json"]
    {
        assert_eq!(nodes.send(0, "GET", probe, None).await.0, StatusCode::OK, "{probe}");
    }
    let covered = nodes.covered.lock().unwrap();
    let documented: BTreeSet<_> = SURFACE.routes.iter().map(|route| (route.method, route.path)).collect();
    let open: Vec<_> = documented.difference(&covered).map(|(_, path)| *path).collect();
    // These answer 200 only at the end of an operation, or with a key in force, which the cluster's test reaches.
    let contributions = "/v1/node/keys/contributions".to_owned();
    let steps = ["commit-epoch", "publish"].map(|step| format!("{BASE}/{{id}}/steps/{step}"));
    assert_eq!(open, [[contributions].as_slice(), &steps].concat());
}

/// The request for the receipts of an attempt that was discarded.
fn attempt_receipt(attempt: &Call) -> StepRequest<Nothing> {
    let effect = EffectId { step: EffectStep::Discard, ..attempt.effect };
    step_of(&Call { effect, ..*attempt })
}

#[tokio::test]
async fn receipts_of_a_step_are_returned_again_and_nothing_is_done() {
    let nodes = Nodes::open(2).await;
    let create = Case::key_create(100, KEY, 2, 2, SUITE);
    nodes.make_key(&create).await;
    let size = nodes.send(0, "GET", "/v1/node/log", None).await.1["head"]["size"].clone();
    let recover = path(&create, "steps/recover");
    let of = |step, attempt| step_of(&create.call(0, step, attempt, 1));
    for (wanted, n_receipts) in [
        (of(EffectStep::Admission, 1), 1),
        (of(EffectStep::PolicyReceipt, 1), 1),
        (of(EffectStep::Execute, 1), 1),
        (of(EffectStep::Execute, 2), 0),
        (of(EffectStep::CommitEpoch, 1), 0),
    ] {
        let answer = nodes.post(0, &recover, &wanted).await;
        let receipts = answer["receipts"].as_array().unwrap();
        assert_eq!(receipts.len(), n_receipts, "{wanted:?}");
        for shown in receipts {
            let shown: ShownReceipt = serde_json::from_value(shown.clone()).unwrap();
            assert_eq!(shown.statement.step, wanted.context.step.op_class);
            assert_eq!(shown.statement.transition_hash, shown.receipt.transition_hash);
        }
    }
    let again = of(EffectStep::PolicyReceipt, 1);
    let made = nodes.post(0, &path(&create, "steps/policy-receipt"), &again).await;
    assert_eq!(nodes.post(0, &recover, &again).await["receipts"][0]["receipt"], made["receipt"]);
    let mut other = of(EffectStep::Execute, 1);
    other.context.step.admission_hash = Hex32::ZERO;
    let (status, answer) = nodes.send(0, "POST", &recover, Some(json!(other))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "the session is that of another decision: {answer}");
    let unknown = Case::key_create(102, KeyId(Hex32::new([9; 32])), 2, 2, SUITE);
    let of_unknown = step(&unknown, 0, EffectStep::Execute);
    let answer = nodes.post(0, &path(&unknown, "steps/recover"), of_unknown).await;
    assert_eq!(answer["receipts"], json!([]));
    assert_eq!(nodes.send(0, "GET", "/v1/node/log", None).await.1["head"]["size"], size);
}

/// Each change to a valid request, with the status and the error of the answer.
#[tokio::test]
async fn bad_input_is_answered_with_one_clear_error_and_changes_nothing() {
    let nodes = Nodes::open(2).await;
    let case = Case::key_create(1, KEY, 2, 2, SUITE);
    let valid = json!(admission(&case));
    let changes: [(&str, Value, u16, &str, &str); 11] = [
        (
            "/decided_at_ms",
            json!(7),
            400,
            "invalid_json",
            "`/decided_at_ms` must be the decision's first valid instant",
        ),
        (
            "/decision/payload",
            json!("AA=="),
            400,
            "invalid_json",
            "`/decision/payload` must be an admission decision",
        ),
        (
            "/authority_set/key_ids",
            json!([]),
            400,
            "invalid_json",
            "`/authority_set/key_ids` must be the keys",
        ),
        (
            "/policy_bundle/bundle_hash",
            json!("11".repeat(32)),
            400,
            "invalid_json",
            "`/policy_bundle` must have the hashes",
        ),
        ("/submission/intent/version", json!(2), 400, "invalid_json", "`/intent/version` must be 1"),
        (
            "/submission/intent/key_id",
            json!("11".repeat(32)),
            400,
            "invalid_json",
            "`/submission` must be the announcement",
        ),
        ("/submission", Value::Null, 400, "invalid_json", "`/submission` is required"),
        ("/now_ms", json!(1), 503, "unavailable", "the clocks of the caller and of the node differ by"),
        ("/decision/signatures/0/sig", json!(""), 403, "admission_refused", ""),
        (
            "/domain_manifest/owner",
            json!(["default", "treasury"]),
            400,
            "invalid_json",
            "`/domain_manifest/owner` must be an object, not an array",
        ),
        ("/domain_manifest/x", json!(1), 400, "invalid_json", "`/domain_manifest"),
    ];
    for (pointer, value, status, error, message) in changes {
        let mut changed = valid.clone();
        match changed.pointer_mut(pointer) {
            Some(member) => *member = value,
            None => changed["domain_manifest"]["x"] = value,
        }
        let (found, answer) = nodes.send(0, "POST", &path(&case, "admission"), Some(changed)).await;
        assert_eq!(
            (found.as_u16(), answer["error"].as_str().unwrap()),
            (status, error),
            "{pointer}: {answer}"
        );
        assert!(answer["message"].as_str().unwrap().starts_with(message), "{pointer}: {answer}");
    }
    let (status, answer) = nodes.send(0, "GET", path(&case, "").trim_end_matches('/'), None).await;
    assert_eq!((status.as_u16(), &answer["error"]), (404, &json!("operation_not_found")));
}

/// As [`bad_input_is_answered_with_one_clear_error_and_changes_nothing`], for texts, paths and methods.
#[tokio::test]
async fn request_that_is_not_of_the_surface_is_refused() {
    let nodes = Nodes::open(1).await;
    let case = Case::key_create(1, KEY, 2, 2, SUITE);
    let valid = json!(admission(&case));
    let duplicate = format!("{{\"decision\":1,{}", &valid.to_string()[1..]);
    let request = Request::builder().method("POST").uri(path(&case, "admission"));
    let (status, answer) = nodes.send_text(0, request, duplicate).await;
    assert_eq!(status.as_u16(), 400);
    assert!(answer["message"].as_str().unwrap().contains("member `decision` appears twice"), "{answer}");
    for (method, uri, status, error) in [
        ("POST", format!("{BASE}/xyz/admission"), 400, "invalid_operation_id"),
        ("GET", "/v1/operations/sign".to_owned(), 404, "not_found"),
        ("PUT", BASE.to_owned(), 405, "method_not_allowed"),
    ] {
        let request = Request::builder().method(method).uri(uri);
        let (found, answer) = nodes.send_text(0, request, valid.to_string()).await;
        assert_eq!((found.as_u16(), &answer["error"]), (status, &json!(error)));
    }
    let mut discarding = json!(step(&case, 0, EffectStep::Discard));
    let receipt = json!({
        "participant": 1, "transition_hash": "11".repeat(32), "log_index": 0, "node_signature": "22".repeat(64), "x": 1,
    });
    discarding["body"] = json!({ "decision": case.request().envelope, "discarded_attempts": [receipt] });
    let (status, answer) = nodes.send(0, "POST", &path(&case, "steps/discard"), Some(discarding)).await;
    assert_eq!(status.as_u16(), 400);
    assert!(answer["message"].as_str().unwrap().contains("/body/discarded_attempts/0/x"), "{answer}");
    let request = Request::builder().method("POST").uri(BASE).header("content-type", "text/plain");
    assert_eq!(nodes.send_text(0, request, "{}".to_owned()).await.0.as_u16(), 415);
    // Announcements are kept, so that they are small.
    let request = Request::builder().method("POST").uri(BASE);
    assert_eq!(nodes.send_text(0, request, " ".repeat(16 * 1024 + 1)).await.0.as_u16(), 413);
}

/// Each member of a call's context that names another operation, key, epoch, intent, attempt or step is refused.
#[tokio::test]
async fn call_that_contradicts_the_stored_decision_is_refused() {
    let nodes = Nodes::open(2).await;
    let case = Case::key_create(1, KEY, 2, 2, SUITE);
    for node in 0..2 {
        nodes.post(node, "/v1/node/bundles", OfferBundleRequest::from(&offer(bundle()))).await;
        nodes.post(node, &path(&case, "admission"), admission(&case)).await;
    }
    let valid = json!(step(&case, 0, EffectStep::PolicyReceipt));
    let other = json!("11".repeat(32));
    let changes = [
        ("/operation_id", other.clone(), "invalid_json"),
        ("/session_id", other.clone(), "invalid_json"),
        ("/lane", json!(2), "invalid_json"),
        ("/step/step_seq", json!(3), "invalid_json"),
        ("/step/op_class", json!("execute"), "invalid_json"),
        ("/phase", json!("Executed"), "invalid_json"),
        ("/slot", json!("share"), "invalid_json"),
        ("/execution_profile/alg_id", json!("RSA"), "invalid_json"),
        ("/execution_profile/family_id", json!("gg20"), "invalid_json"),
        ("/key_id", other.clone(), "admission_conflict"),
        ("/epoch_id", other.clone(), "admission_conflict"),
        ("/request_digest", other.clone(), "admission_conflict"),
        ("/step/intent_hash", other.clone(), "admission_conflict"),
        ("/step/prev_transition_hash", other.clone(), "step_out_of_order"),
        ("/step/admission_hash", other, "invalid_json"),
    ];
    for (pointer, value, error) in changes {
        let mut changed = valid.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        let (_, answer) = nodes.send(0, "POST", &path(&case, "steps/policy-receipt"), Some(changed)).await;
        assert_eq!(answer["error"], error, "{pointer}: {answer}");
    }
    nodes.post(0, &path(&case, "steps/policy-receipt"), valid).await;
}
