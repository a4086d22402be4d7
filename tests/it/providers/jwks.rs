use super::{
    ask_with_token, gateway, payment_of, publish_payment, repeat_until, scope_of, unknown_operation,
};
use crate::harness::http::{Answer, Call};
use crate::harness::process::SIGN;
use crate::harness::provider::Provider;
use crate::harness::samples::path;
use serde_json::json;

#[test]
fn payment_is_published_with_tokens_of_a_real_provider() {
    let (folder, provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = gateway(folder.path(), &provider.issuer);
    let send = |person: &str, call: Call| {
        call.bearer(&provider.user_token(person, scope_of(person), "")).send(&gateway.address).unwrap()
    };
    let view = publish_payment("portal", &send);
    // The evidence has the client of the token.
    let evidence = send("carol", Call::get(&path(&view, "/evidence"))).ok();
    assert!(evidence.to_string().contains("\"portal\""), "{evidence}");
}

#[test]
fn only_the_supported_signature_algorithms_are_accepted() {
    let (folder, provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = gateway(folder.path(), &provider.issuer);
    for algorithm in ["RS256", "PS256", "ES256", "ES384", "EdDSA"] {
        let token = provider.token("treasury", "operations.read", &format!("alg={algorithm}"));
        ask_with_token(&gateway, &token).fails(404, "operation_not_found");
    }
    let token = provider.token("treasury", "operations.read", "alg=RS512");
    ask_with_token(&gateway, &token).fails(401, "invalid_token");
}

#[test]
fn valid_tokens_for_another_service_time_or_scope_are_rejected() {
    let (folder, provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = gateway(folder.path(), &provider.issuer);
    let answer = |client: &str, scope: &str, altered: &str| {
        let answer = ask_with_token(&gateway, &provider.token(client, scope, altered));
        (answer.status, answer.json()["error"].as_str().unwrap().to_owned(), answer.headers)
    };
    for altered in ["aud=another-service", "iss=https://elsewhere.test", "shift=-7200", "shift=7200"] {
        let (status, code, headers) = answer("treasury", "operations.read", altered);
        assert_eq!((status, code.as_str()), (401, "invalid_token"), "{altered}");
        assert!(headers["www-authenticate"].contains("error=\"invalid_token\""), "{altered} {headers:?}");
    }
    let (status, code, _) = answer("auditor", "audit.read", "");
    assert_eq!((status, code.as_str()), (403, "insufficient_scope"));
    // Within the leeway a token is still valid.
    let late = provider.token("treasury", "operations.read", "ttl=600&shift=-620");
    ask_with_token(&gateway, &late).fails(404, "operation_not_found");
    // No token, a cut token, another scheme.
    let none = unknown_operation().send(&gateway.address).unwrap();
    none.fails(401, "authentication_required");
    let token = provider.token("treasury", "operations.read", "");
    ask_with_token(&gateway, &token[..token.len() - 2]).fails(401, "invalid_token");
    let basic =
        unknown_operation().header("authorization", "Basic dHJlYXN1cnk6eA==").send(&gateway.address).unwrap();
    assert_eq!(basic.status, 401);
    // Identity headers have no effect in this mode.
    let call = unknown_operation().header("x-client-id", "treasury").header("x-subject-id", "carol");
    let answer = call.header("x-scopes", "operations.*").send(&gateway.address).unwrap();
    answer.fails(401, "authentication_required");
}

#[test]
fn token_of_another_tenant_sees_nothing() {
    let (folder, provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = gateway(folder.path(), &provider.issuer);
    let token = provider.token("treasury", "operations.sign", "");
    let submit = Call::post(SIGN, &payment_of("treasury", "treasury", "ours"));
    let operation = submit.bearer(&token).send(&gateway.address).unwrap().ok()["operation"].clone();
    let rival = provider.token("rival", "operations.sign operations.read", "");
    let theirs = Call::get(&path(&operation, "")).bearer(&rival).send(&gateway.address).unwrap();
    let unknown = ask_with_token(&gateway, &rival);
    theirs.fails(404, "operation_not_found");
    let without_request_id = |answer: &Answer| answer.text.replace(&answer.headers["x-request-id"], "");
    assert_eq!(without_request_id(&theirs), without_request_id(&unknown));
    Call::get(&path(&operation, "")).bearer(&token).send(&gateway.address).unwrap().ok();
    // A body cannot name another caller than the token.
    let spoofed = payment_of("treasury", "treasury", "lies");
    let spoofed = Call::post(SIGN, &spoofed).bearer(&rival).send(&gateway.address).unwrap();
    spoofed.fails(403, "client_binding_mismatch");
}

#[test]
fn jwks_outage_keeps_known_keys_valid_and_rejects_unknown_ones() {
    let (folder, mut provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = gateway(folder.path(), &provider.issuer);
    let used = provider.token("treasury", "operations.read", "");
    let unused = provider.token("treasury", "operations.read", "alg=ES256");
    let unknown = Provider::start().token("treasury", "operations.read", "");
    ask_with_token(&gateway, &used).fails(404, "operation_not_found");
    provider.kill();
    for token in [&used, &unused] {
        ask_with_token(&gateway, token).fails(404, "operation_not_found");
    }
    // The token is invalid while the keys may not be fetched again, and unverifiable once the gateway tries to.
    let answer = repeat_until(503, &[401], 61, &|| ask_with_token(&gateway, &unknown));
    answer.fails(503, "authentication_unavailable");
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
    ask_with_token(&gateway, &used).fails(404, "operation_not_found");
    unknown_operation().send(&gateway.address).unwrap().fails(401, "authentication_required");
    Call::get("/healthz").send(&gateway.address).unwrap().ok();

    // A gateway that never fetched the keys authenticates no caller.
    drop(gateway);
    let gateway = super::gateway(folder.path(), &provider.issuer);
    ask_with_token(&gateway, &used).fails(503, "authentication_unavailable");
    let provider = provider.restart();
    let token = provider.token("treasury", "operations.read", "");
    repeat_until(404, &[503, 401], 130, &|| ask_with_token(&gateway, &token));
}

#[test]
fn new_jwks_keys_work_within_a_minute_and_withdrawn_ones_stop() {
    let (folder, provider) = (tempfile::tempdir().unwrap(), Provider::start());
    let gateway = gateway(folder.path(), &provider.issuer);
    let old = provider.token("treasury", "operations.read", "");
    ask_with_token(&gateway, &old).fails(404, "operation_not_found");
    let provider = provider.restart();
    let new = provider.token("treasury", "operations.read", "");
    // Two minutes: the first fetch may fail if the provider answers too slowly.
    repeat_until(404, &[401, 503], 130, &|| ask_with_token(&gateway, &new));
    ask_with_token(&gateway, &old).fails(401, "invalid_token");
    let view = Call::post(SIGN, &json!({})).bearer(&new).send(&gateway.address).unwrap();
    view.fails(403, "insufficient_scope");
}
