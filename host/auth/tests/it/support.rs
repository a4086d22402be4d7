//! Fixtures: headers, a clock that tests move, and rules that fit the tokens.

use gateway_auth::{
    Addresses, Authenticator, ClaimRules, ClientSecret, Clock, Identity, Introspection, IntrospectionConfig,
    Jwks, JwksConfig, KeySource, Peer, Principal, Provider, Unauthenticated,
};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const ISSUER: &str = "https://issuer.example";
pub(crate) const START_S: u64 = 1_700_000_000;
pub(crate) const HOUR_MS: u64 = 3_600_000;

/// A clock that stands still until it is moved.
#[derive(Clone)]
pub(crate) struct Time(Arc<AtomicU64>);

impl Time {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START_S * 1000)))
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    pub(crate) fn go_back(&self, ms: u64) {
        self.0.fetch_sub(ms, Ordering::SeqCst);
    }

    pub(crate) fn clock(&self) -> Clock {
        let time = Arc::clone(&self.0);
        Arc::new(move || EpochMs(time.load(Ordering::SeqCst)))
    }
}

pub(crate) fn rules() -> ClaimRules {
    ClaimRules {
        issuer: Some(ISSUER.to_owned()),
        audience: Some("gateway".to_owned()),
        client: vec!["client_id".parse().unwrap(), "azp".parse().unwrap()],
        scopes: vec!["scope".parse().unwrap(), "scp".parse().unwrap()],
        roles: "roles".parse().unwrap(),
        tenant: "tenant".parse().unwrap(),
        facts: BTreeMap::new(),
        client_is_subject: false,
    }
}

pub(crate) fn claims() -> Value {
    json!({
        "iss": ISSUER,
        "aud": "gateway",
        "sub": "alice",
        "client_id": "desk",
        "scope": "operations.read",
        "exp": START_S + 365 * 86_400,
    })
}

pub(crate) fn provider(url: &str) -> Provider {
    Provider::new(url.parse().unwrap(), None).unwrap()
}

pub(crate) fn jwks(source: KeySource, time: &Time) -> Jwks {
    let max_age = Duration::from_millis(24 * HOUR_MS);
    Jwks::new(JwksConfig { source, max_age, rules: rules(), clock: time.clock() })
}

pub(crate) fn introspection(url: &str, time: &Time) -> Introspection {
    introspection_with(
        url,
        time,
        ClaimRules { issuer: None, audience: None, client_is_subject: true, ..rules() },
    )
}

pub(crate) fn introspection_with(url: &str, time: &Time, rules: ClaimRules) -> Introspection {
    let secret = "s3cret".to_owned().into();
    Introspection::new(IntrospectionConfig {
        provider: provider(url),
        client_id: "gateway".to_owned(),
        client_secret: ClientSecret::parse(&secret).unwrap(),
        rules,
        clock: time.clock(),
    })
    .unwrap()
}

pub(crate) fn no_proxies() -> Addresses {
    Addresses::default()
}

pub(crate) fn headers(given: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    headers
}

pub(crate) fn peer(address: &str) -> Peer {
    Peer { address: address.parse().unwrap(), certificate_sha256: None }
}

pub(crate) async fn call(
    authenticator: &Authenticator,
    given: &[(&str, &str)],
    peer: &Peer,
) -> Result<Identity, Unauthenticated> {
    match authenticator.authenticate(&headers(given), Some(peer)).await? {
        Principal::Identified(identity) => Ok(identity),
        Principal::Unrestricted => panic!("the caller is unrestricted"),
    }
}

pub(crate) async fn bearer(authenticator: &Authenticator, token: &str) -> Result<Identity, Unauthenticated> {
    call(authenticator, &[("authorization", &format!("Bearer {token}"))], &peer("192.0.2.7")).await
}

pub(crate) async fn bearer_with_certificate(
    authenticator: &Authenticator,
    token: &str,
    certificate: Option<Hex32>,
) -> Result<Identity, Unauthenticated> {
    let peer = Peer { certificate_sha256: certificate, ..peer("192.0.2.7") };
    call(authenticator, &[("authorization", &format!("Bearer {token}"))], &peer).await
}

pub(crate) fn is_unavailable(answer: &Result<Identity, Unauthenticated>) -> bool {
    matches!(answer, Err(Unauthenticated::Unavailable(_)))
}

/// Polls until the condition is true.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::task::yield_now().await;
    }
}
