use super::{ask_with_token, introspecting_gateway, publish_payment, repeat_until, scope_of};
use crate::harness::http::Call;
use crate::harness::provider::{GATEWAY_SECRET, Provider};
use std::time::{Duration, Instant};

#[test]
fn payment_is_published_with_introspected_tokens() {
    let (folder, provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = introspecting_gateway(folder.path(), &provider, GATEWAY_SECRET);
    let send = |person: &str, call: Call| {
        call.bearer(&provider.user_token(person, scope_of(person), "opaque")).send(&gateway.address).unwrap()
    };
    publish_payment("portal", &send);
}

#[test]
fn inactive_or_foreign_introspected_tokens_are_rejected() {
    let (folder, provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = introspecting_gateway(folder.path(), &provider, GATEWAY_SECRET);
    let call = |token: &str| ask_with_token(&gateway, token);
    call("made-up").fails(401, "invalid_token");
    call(&Provider::start().user_token("alice", "operations.read", "opaque")).fails(401, "invalid_token");
    call(&provider.user_token("alice", "operations.read", "opaque&aud=another-service"))
        .fails(401, "invalid_token");
    call(&provider.user_token("alice", "audit.read", "opaque")).fails(403, "insufficient_scope");
    // A token for a client itself, without a person.
    call(&provider.token("treasury", "operations.read", "opaque")).fails(404, "operation_not_found");
    // A token is rejected at the latest when it has expired.
    let short_lived = provider.user_token("alice", "operations.read", "opaque&ttl=2");
    repeat_until(401, &[404, 503], 30, &|| call(&short_lived)).fails(401, "invalid_token");
}

#[test]
fn introspected_token_is_accepted_for_30_seconds_of_provider_outage() {
    let (folder, mut provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = introspecting_gateway(folder.path(), &provider, GATEWAY_SECRET);
    let call = |token: &str| ask_with_token(&gateway, token);
    let known = provider.user_token("alice", "operations.read", "opaque");
    let unknown = provider.user_token("bob", "operations.read", "opaque");
    let before = Instant::now();
    call(&known).fails(404, "operation_not_found");
    provider.kill();
    call(&unknown).fails(503, "authentication_unavailable");
    // The provider was asked after `before`; a second of leeway for comparing two clocks.
    repeat_until(503, &[404], 31, &|| call(&known)).fails(503, "authentication_unavailable");
    assert!(before.elapsed() >= Duration::from_secs(29), "rejected after {:?}", before.elapsed());
}

#[test]
fn wrong_introspection_credentials_authenticate_no_caller() {
    let (folder, provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = introspecting_gateway(folder.path(), &provider, "not-the-secret");
    let token = provider.user_token("alice", "operations.read", "opaque");
    let answer = ask_with_token(&gateway, &token);
    answer.fails(503, "authentication_unavailable");
    assert!(!answer.text.contains("not-the-secret"), "{answer:?}");
}
