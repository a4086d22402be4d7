use super::{introspecting_gateway, scope_of, unknown_operation, until, whole_life};
use crate::harness::http::Call;
use crate::harness::process::Process;
use crate::harness::provider::Provider;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

#[test]
fn payment_is_published_with_introspected_tokens() {
    let (folder, provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = introspecting_gateway(folder.path(), &provider);
    let send = |person: &str, call: Call| {
        call.bearer(&provider.person(person, scope_of(person), "opaque")).send(&gateway.address).unwrap()
    };
    whole_life("portal", &send);
}

#[test]
fn inactive_or_foreign_introspected_tokens_are_rejected() {
    let (folder, provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = introspecting_gateway(folder.path(), &provider);
    let call = |token: &str| unknown_operation().bearer(token).send(&gateway.address).unwrap();
    call("made-up").fails(401, "invalid_token");
    call(&Provider::start().person("alice", "operations.read", "opaque")).fails(401, "invalid_token");
    call(&provider.person("alice", "operations.read", "opaque&aud=another-service"))
        .fails(401, "invalid_token");
    call(&provider.person("alice", "audit.read", "opaque")).fails(403, "insufficient_scope");
    // A service's own token, which names no person.
    call(&provider.token("treasury", "operations.read", "opaque")).fails(404, "operation_not_found");
    // It expires when the provider revokes it, and no later than its `exp`.
    let brief = provider.person("alice", "operations.read", "opaque&ttl=2");
    until(401, &[404, 503], 30, &|| call(&brief)).fails(401, "invalid_token");
}

#[test]
fn introspected_token_is_accepted_for_30_seconds_of_provider_outage() {
    let (folder, mut provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = introspecting_gateway(folder.path(), &provider);
    let call = |token: &str| unknown_operation().bearer(token).send(&gateway.address).unwrap();
    let known = provider.person("alice", "operations.read", "opaque");
    let unknown = provider.person("bob", "operations.read", "opaque");
    let before = Instant::now();
    call(&known).fails(404, "operation_not_found");
    provider.kill();
    call(&unknown).fails(503, "authentication_unavailable");
    // It was requested after `before`; a second of leeway for comparing two clocks.
    until(503, &[404], 31, &|| call(&known)).fails(503, "authentication_unavailable");
    assert!(before.elapsed() >= Duration::from_secs(29), "kept out after {:?}", before.elapsed());
}

#[test]
fn wrong_introspection_credentials_authenticate_no_caller() {
    let (folder, provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let secret = folder.path().join("wrong.secret");
    fs::write(&secret, "not-the-secret").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let url = format!("{}/token/introspection", provider.issuer);
    let settings = [
        ("auth_mode", "introspection"),
        ("introspection_url", url.as_str()),
        ("introspection_client_id", "gateway"),
        ("introspection_client_secret_file", secret.to_str().unwrap()),
    ];
    let gateway = Process::start(folder.path(), None, &settings);
    let token = provider.person("alice", "operations.read", "opaque");
    let answer = unknown_operation().bearer(&token).send(&gateway.address).unwrap();
    answer.fails(503, "authentication_unavailable");
    assert!(!answer.text.contains("not-the-secret"), "{answer:?}");
}
