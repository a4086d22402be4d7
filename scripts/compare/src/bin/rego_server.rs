//! The default policy's conditions in Rego behind HTTP, for `scripts/peers`: what regorus in axum costs with nothing around it.
//! It has no authentication, no TLS, no limits, no signed policy, no sandbox and no record.
//!
//! ```sh
//! cargo run --release --bin rego_server -- 127.0.0.1:8181 [access]
//! ```
//!
//! `POST /decision` takes the body of the gateway's `/v1/policy/preview`, and answers with the policy's decision. With `access`,
//! it logs each request and its answer to standard error, as tower-http does for its users.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt as _;
use axum::{Json, Router, routing};
use regorus::languages::rego::compiler::Compiler;
use regorus::rvm::program::Program;
use regorus::rvm::vm::RegoVM;
use regorus::{Engine, Value};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use tokio::net::TcpListener;
use tower_http::trace::{DefaultMakeSpan, DefaultOnResponse, TraceLayer};
use tracing::Level;

const TEXT: &str = include_str!("../../payment_guard.rego");
const ENTRY: &str = "data.payment_guard.decision";

/// The deployment's settings, which the gateway passes to a policy as facts. The caller does not choose them.
const FACTS: [(&str, &str); 3] = [
    ("deployment.permitted_recipients", "acct-2,acct-3"),
    ("deployment.required_approvals", "2"),
    ("deployment.separation_of_duties", "true"),
];

/// The members that the policy reads. Their own members are not checked: a policy denies what it cannot find.
#[derive(Deserialize)]
struct Question {
    intent: Intent,
    approvals: Value,
}

#[derive(Deserialize)]
struct Intent {
    client: Value,
    payment: Value,
}

/// A policy that was compiled at the start, and the facts that each evaluation gets.
struct Policy {
    program: Arc<Program>,
    facts: Value,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("usage: rego_server ADDRESS:PORT [access]")?;
    let level = if arguments.next().as_deref() == Some("access") { Level::INFO } else { Level::ERROR };
    #[expect(clippy::disallowed_methods, reason = "the subscriber escapes what it writes")]
    tracing_subscriber::fmt().json().with_writer(std::io::stderr).with_max_level(level).init();
    let trace = TraceLayer::new_for_http()
        .make_span_with(DefaultMakeSpan::new().level(Level::INFO))
        .on_response(DefaultOnResponse::new().level(Level::INFO));
    let router = Router::new()
        .route("/healthz", routing::get(|| async {}))
        .route("/decision", routing::post(decide))
        .layer(trace)
        .with_state(Arc::new(Policy::compile()?));
    let listener = TcpListener::bind(address).await?.tap_io(|stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, router).await?)
}

async fn decide(State(policy): State<Arc<Policy>>, body: Bytes) -> Response {
    let question = match serde_json::from_slice(&body) {
        Ok(question) => question,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    match policy.evaluate(question) {
        Ok(decision) => Json(decision).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

impl Policy {
    fn compile() -> Result<Self, Box<dyn Error>> {
        let mut engine = Engine::new();
        engine.add_policy("payment_guard.rego".into(), TEXT.into())?;
        let compiled = engine.compile_with_entrypoint(&ENTRY.into())?;
        let program = Compiler::compile_from_policy(&compiled, &[ENTRY])?;
        Ok(Self { program, facts: object(FACTS.map(|(name, fact)| (name, fact.into()))) })
    }

    fn evaluate(&self, question: Question) -> Result<Value, Box<dyn Error>> {
        let mut machine = RegoVM::new();
        machine.load_program(Arc::clone(&self.program));
        machine.set_input(object([
            ("moment", "preview".into()),
            ("submitter", question.intent.client),
            ("payment", question.intent.payment),
            ("approvals", question.approvals),
            ("facts", self.facts.clone()),
        ]));
        Ok(machine.execute()?)
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::from(BTreeMap::from(members.map(|(name, value)| (Value::from(name), value))))
}
