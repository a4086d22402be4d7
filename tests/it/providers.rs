//! Callers authenticated by a real identity provider or a real reverse proxy in front of the real process.

mod bound;
mod introspection;
mod jwks;
mod proxy;

use crate::harness::http::{Answer, Call};
use crate::harness::process::Process;
use crate::harness::provider::{GATEWAY_SECRET, Provider};
use crate::harness::samples::{approval, path, payment, publication, with};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// A gateway that accepts tokens of this issuer.
fn gateway(folder: &Path, issuer: &str) -> Process {
    gateway_with(folder, issuer, &[("jwks_url", &format!("{issuer}/jwks"))])
}

/// The same with further settings.
fn gateway_with(folder: &Path, issuer: &str, given: &[(&str, &str)]) -> Process {
    let all = [("auth_mode", "jwks"), ("token_issuer", issuer), ("token_audience", "operation-gateway")];
    Process::start(folder, None, &[&all, given].concat())
}

/// A gateway that introspects each token at the provider.
fn introspecting_gateway(folder: &Path, provider: &Provider) -> Process {
    let url = format!("{}/token/introspection", provider.issuer);
    let secret = folder.join("introspection.secret");
    fs::write(&secret, GATEWAY_SECRET).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
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

/// A payment as submitted by one of the provider's or the proxy's callers.
fn payment_of(client: &str, subject: &str, idempotency_key: &str) -> Value {
    let caller = json!({
        "client_id": client, "subject_id": subject, "roles": ["operator"], "scopes": ["operations.sign"], "tenant": "acme",
    });
    with(payment(idempotency_key), "/client", caller)
}

/// A payment from submission to publication, each step by the person in charge. `send`: a request as that person.
fn whole_life(client: &str, send: &dyn Fn(&str, Call) -> Answer) -> Value {
    let body = payment_of(client, "carol", "whole-life");
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

/// The scopes of each person in [`whole_life`].
fn scope_of(person: &str) -> &'static str {
    match person {
        "carol" => "operations.sign",
        "alice" | "bob" => "operations.approve operations.read",
        other => panic!("unknown person {other}"),
    }
}

/// An operation that does not exist: an authenticated caller gets 404.
fn unknown_operation() -> Call {
    Call::get(&format!("/v1/operations/{}", "0".repeat(64)))
}

/// Calls until the answer's status is `status`. Every earlier answer has one of the statuses `meanwhile`, and its call was made
/// within the given seconds; how long an answer takes depends on the machine.
#[track_caller]
fn until(status: u16, meanwhile: &[u16], seconds: u64, call: &dyn Fn() -> Answer) -> Answer {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        let called = Instant::now();
        let answer = call();
        if answer.status == status {
            return answer;
        }
        assert!(meanwhile.contains(&answer.status), "{answer:?}");
        assert!(called < deadline, "still {answer:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
