//! Callers authenticated by a real identity provider or a real reverse proxy in front of the real process.

mod bound;
mod introspection;
mod jwks;
mod proxy;

use crate::harness::http::{Answer, Call};
use crate::harness::process::Process;
use crate::harness::provider::Provider;
use crate::harness::samples::{approval, path, payment, publication, with};
use crate::harness::secrets::write_private;
use crate::harness::wire::poll_within;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// A gateway that accepts tokens of this issuer, signed with the keys at its `/jwks`.
fn gateway(folder: &Path, issuer: &str) -> Process {
    gateway_with(folder, issuer, &[("jwks_url", &format!("{issuer}/jwks"))])
}

/// A gateway in the mode `jwks` with further settings.
fn gateway_with(folder: &Path, issuer: &str, overrides: &[(&str, &str)]) -> Process {
    let all = [("auth_mode", "jwks"), ("token_issuer", issuer), ("token_audience", "operation-gateway")];
    Process::start(folder, None, &[&all, overrides].concat())
}

/// A gateway that introspects tokens at the provider, with this client secret.
fn introspecting_gateway(folder: &Path, provider: &Provider, client_secret: &str) -> Process {
    let url = format!("{}/token/introspection", provider.issuer);
    let secret = folder.join("introspection.secret");
    write_private(&secret, client_secret);
    let settings = [
        ("auth_mode", "introspection"),
        ("introspection_url", url.as_str()),
        ("introspection_client_id", "gateway"),
        ("introspection_client_secret_file", secret.to_str().unwrap()),
        ("token_issuer", &provider.issuer),
        ("token_audience", "operation-gateway"),
    ];
    Process::start(folder, None, &settings)
}

/// A payment whose `client` is this one, with the subject, roles and scopes of an operator of tenant `acme`.
fn payment_of(client: &str, subject: &str, idempotency_key: &str) -> Value {
    let caller = json!({
        "client_id": client, "subject_id": subject, "roles": ["operator"], "scopes": ["operations.sign"], "tenant": "acme",
    });
    with(payment(idempotency_key), "/client", caller)
}

/// Publishes a payment: Carol submits, executes and publishes, Alice and Bob approve. `send` sends a request as a person.
/// Returns the last view.
fn publish_payment(client: &str, send: &dyn Fn(&str, Call) -> Answer) -> Value {
    let body = payment_of(client, "carol", "provider");
    let operation = send("carol", Call::post("/v1/operations/sign", &body)).ok()["operation"].clone();
    let approve = |subject: &str| Call::post(&path(&operation, "/approve"), &approval(subject));
    // Approving as another person is refused.
    send("alice", approve("bob")).fails(403, "approver_not_permitted");
    assert_eq!(send("alice", approve("alice")).ok()["state"], "pending_approval");
    assert_eq!(send("bob", approve("bob")).ok()["state"], "admitted");
    // An approver's scope does not permit submission.
    let execute = Call::post(&path(&operation, "/execute"), &json!({}));
    send("alice", execute.clone()).fails(403, "insufficient_scope");
    assert_eq!(send("carol", execute).ok()["state"], "executed");
    let publish = Call::post(&path(&operation, "/publish"), &publication());
    let view = send("carol", publish).ok();
    assert_eq!(view["runtime"]["phase"], "Published");
    assert_eq!(view["approvals"]["subjects"], json!(["alice", "bob"]));
    view
}

/// The scopes of a person in [`publish_payment`].
fn scope_of(person: &str) -> &'static str {
    match person {
        "carol" => "operations.sign",
        "alice" | "bob" => "operations.approve operations.read",
        other => panic!("unknown person {other}"),
    }
}

/// A request for an operation that does not exist: a caller with the scope `operations.read` gets 404.
fn unknown_operation() -> Call {
    Call::get(&format!("/v1/operations/{}", "0".repeat(64)))
}

/// The answer to [`unknown_operation`] with this token.
fn ask_with_token(gateway: &Process, token: &str) -> Answer {
    unknown_operation().bearer(token).send(&gateway.address).unwrap()
}

/// Repeats the call until the answer has the status `status`, and returns it. Earlier answers must have one of the statuses
/// `meanwhile`, and their calls must begin within `seconds`.
#[track_caller]
fn repeat_until(status: u16, meanwhile: &[u16], seconds: u64, call: &dyn Fn() -> Answer) -> Answer {
    poll_within(Duration::from_secs(seconds), call, |answer| {
        assert!(answer.status == status || meanwhile.contains(&answer.status), "{answer:?}");
        answer.status == status
    })
}
