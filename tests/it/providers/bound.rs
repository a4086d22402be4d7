//! Tokens bound to a client certificate (RFC 8705), which the provider issues over TLS, and its keys fetched over TLS.

use super::{ask_with_token, gateway, gateway_with, unknown_operation};
use crate::harness::certificates::{Authority, Certified};
use crate::harness::http::Call;
use crate::harness::provider::{Provider, access_token, token_call};
use crate::harness::tls::{Files, Trust};
use std::fs;

/// An authority, a provider with TLS, and the certificate of its client `bank`.
fn bank() -> (Authority, Provider, Certified) {
    let authority = Authority::new("bank authority");
    let provider = Provider::start_with_tls(&authority, &authority.server());
    let bank = authority.client("bank", "Acme");
    (authority, provider, bank)
}

fn bank_token_call() -> Call {
    token_call("bank", &[("grant_type", "client_credentials"), ("scope", "operations.read")], "", &[])
}

/// A token issued to the bank over TLS with its certificate.
fn bound_token(authority: &Authority, provider: &Provider, bank: &Certified) -> String {
    let answer = bank_token_call().send_tls(&provider.tls_address(), &Trust::new(authority, Some(bank)));
    access_token(&answer.unwrap())
}

#[test]
fn certificate_bound_token_is_rejected_without_its_certificate() {
    let (folder, (authority, provider, bank)) = (tempfile::tempdir().unwrap(), bank());
    let token = bound_token(&authority, &provider, &bank);
    // The provider issues no token to another certificate.
    let other = Trust::new(&authority, Some(&authority.client("another", "Acme")));
    assert_eq!(bank_token_call().send_tls(&provider.tls_address(), &other).unwrap().status, 401);

    let plain = gateway(folder.path(), &provider.issuer);
    ask_with_token(&plain, &token).fails(401, "invalid_token");
    let unbound = provider.token("treasury", "operations.read", "");
    ask_with_token(&plain, &unbound).fails(404, "operation_not_found");
    // A certificate hash in a header from an untrusted address does not count.
    let with = |sha256: &str| unknown_operation().bearer(&token).header("x-client-cert-sha256", sha256);
    with(&bank.sha256()).send(&plain.address).unwrap().fails(401, "invalid_token");
    drop(plain);

    // A trusted proxy may state the hash of its client's certificate.
    let keys = format!("{}/jwks", provider.issuer);
    let overrides = [("jwks_url", keys.as_str()), ("trusted_proxies", "127.0.0.1/32")];
    let behind = gateway_with(folder.path(), &provider.issuer, &overrides);
    with(&bank.sha256()).send(&behind.address).unwrap().fails(404, "operation_not_found");
    with(&"0".repeat(64)).send(&behind.address).unwrap().fails(401, "invalid_token");
    ask_with_token(&behind, &token).fails(401, "invalid_token");
    with(&bank.sha256()).send_from(2, &behind.address).unwrap().fails(401, "invalid_token");
}

#[test]
fn certificate_bound_token_is_checked_against_the_tls_client_certificate() {
    let (folder, (authority, provider, bank)) = (tempfile::tempdir().unwrap(), bank());
    let token = bound_token(&authority, &provider, &bank);
    let files = Files::write(folder.path(), &authority.server(), &authority);
    let keys = format!("{}/jwks", provider.issuer);
    let overrides = [files.settings("optional"), vec![("jwks_url", keys.as_str())]].concat();
    let gateway = gateway_with(folder.path(), &provider.issuer, &overrides);
    let ask = |client: Option<&Certified>| {
        let trust = Trust::new(&authority, client);
        unknown_operation().bearer(&token).send_tls(&gateway.address, &trust).unwrap()
    };
    ask(Some(&bank)).fails(404, "operation_not_found");
    ask(Some(&authority.client("another", "Acme"))).fails(401, "invalid_token");
    ask(Some(&authority.client("bank", "Acme"))).fails(401, "invalid_token");
    ask(None).fails(401, "invalid_token");
    // A header does not replace a certificate, not even beside one.
    let claimed = unknown_operation().bearer(&token).header("x-client-cert-sha256", &bank.sha256());
    let other = Trust::new(&authority, Some(&authority.client("another", "Acme")));
    claimed.send_tls(&gateway.address, &other).unwrap().fails(401, "invalid_token");
}

#[test]
fn jwks_over_tls_is_accepted_only_from_the_configured_authority() {
    let (folder, (authority, provider, _)) = (tempfile::tempdir().unwrap(), bank());
    let token = provider.token("treasury", "operations.read", "");
    let keys = format!("https://{}/jwks", provider.tls_address());
    let ca = folder.path().join("ca.pem");
    let gateway = |authority: &Authority| {
        fs::write(&ca, authority.pem()).unwrap();
        let overrides = [("jwks_url", keys.as_str()), ("identity_provider_ca", ca.to_str().unwrap())];
        gateway_with(folder.path(), &provider.issuer, &overrides)
    };
    let with_right_ca = gateway(&authority);
    ask_with_token(&with_right_ca, &token).fails(404, "operation_not_found");
    drop(with_right_ca);
    let with_wrong_ca = gateway(&Authority::new("bank authority"));
    ask_with_token(&with_wrong_ca, &token).fails(503, "authentication_unavailable");
}
