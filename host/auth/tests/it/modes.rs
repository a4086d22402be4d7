//! The credentials that each mode accepts, and their sources.

use crate::support::{Time, bearer, call, claims, headers, introspection, jwks, no_proxies, peer, provider};
use gateway_auth::testing::{Behaviour, FakeProvider, Issuer};
use gateway_auth::{Addresses, Authenticator, KeySource, Peer, Principal, Scope, Unauthenticated};
use gateway_domain::ids::Hex32;
use serde_json::json;
use std::collections::BTreeMap;

const ALICE: [(&str, &str); 5] = [
    ("x-client-id", "desk"),
    ("x-subject-id", "alice"),
    ("x-roles", "approver, operator"),
    ("x-scopes", "operations.read,audit.read  x"),
    ("x-tenant", "acme"),
];

fn proxies() -> Addresses {
    "10.0.0.0/24, 2001:db8::1".parse().unwrap()
}

#[tokio::test]
async fn the_bypass_enforces_the_identity_in_the_headers() {
    let authenticator = Authenticator::bypass();
    let call = |given: &[(&str, &str)]| {
        let headers = headers(given);
        let authenticator = &authenticator;
        async move { authenticator.authenticate(&headers, None).await }
    };
    assert_eq!(call(&[]).await, Ok(Principal::Unrestricted));
    assert_eq!(call(&[("authorization", "Bearer nonsense")]).await, Ok(Principal::Unrestricted));
    assert!(matches!(call(&[("x-scopes", "audit.read")]).await, Err(Unauthenticated::Required(_))));
    assert!(matches!(call(&[("x-tenant", "")]).await, Err(Unauthenticated::Required(_))));
    let caller = call(&ALICE).await.unwrap();
    assert!(caller.has_scope(Scope::AuditRead) && !caller.has_scope(Scope::OperationsSign));
}

#[tokio::test]
async fn identity_headers_are_read_from_trusted_proxies_only() {
    let authenticator = Authenticator::trusted_headers(proxies());
    for trusted in ["10.0.0.1", "::ffff:10.0.0.255", "2001:db8::1"] {
        let identity = call(&authenticator, &ALICE, &peer(trusted)).await.unwrap();
        assert_eq!((identity.client_id.as_str(), identity.subject_id.as_str()), ("desk", "alice"));
        assert_eq!(identity.roles, ["approver", "operator"]);
        assert_eq!(identity.scopes, ["operations.read", "audit.read", "x"]);
        assert_eq!(identity.tenant.unwrap().0, "acme");
        let anonymous = call(&authenticator, &[], &peer(trusted)).await;
        assert!(matches!(anonymous, Err(Unauthenticated::Required(_))));
    }
    for untrusted in ["10.0.1.1", "127.0.0.1", "::1", "2001:db8::2"] {
        let claims_to_be =
            [&ALICE[..], &[("x-forwarded-for", "10.0.0.1"), ("forwarded", "for=10.0.0.1")]].concat();
        let refused = call(&authenticator, &claims_to_be, &peer(untrusted)).await;
        assert!(matches!(refused, Err(Unauthenticated::Required(_))), "{untrusted}");
        // Malformed headers of an untrusted peer make no difference.
        let twice = [&ALICE[..], &ALICE[..]].concat();
        assert_eq!(call(&authenticator, &twice, &peer(untrusted)).await, refused, "{untrusted}");
    }
    let without_peer = authenticator.authenticate(&headers(&ALICE), None).await;
    assert!(matches!(without_peer, Err(Unauthenticated::Required(_))));
}

#[tokio::test]
async fn unreadable_identity_headers_are_rejected() {
    let authenticator = Authenticator::trusted_headers(proxies());
    let (long, many) = ("x".repeat(1025), ["r"; 257].join(","));
    for more in [
        ("x-subject-id", "mallory"),
        ("x-tenant", "acme"),
        ("x-scopes", "custody.*"),
        ("x-client-cert-sha256", "nonsense"),
    ] {
        let given = [&ALICE[..], &[more]].concat();
        let refused = call(&authenticator, &given, &peer("10.0.0.1")).await;
        assert!(
            matches!(refused, Err(Unauthenticated::Unreadable { name, .. }) if name == more.0),
            "{more:?}"
        );
    }
    for (name, value) in [
        ("x-client-id", "M\u{fc}nchen"),
        ("x-subject-id", &long),
        ("x-tenant", &long),
        ("x-roles", &many),
        ("x-scopes", &many),
        ("x-roles", &long),
    ] {
        let others = ALICE.into_iter().filter(|(other, _)| *other != name);
        let given: Vec<_> = others.chain([(name, value)]).collect();
        let refused = call(&authenticator, &given, &peer("10.0.0.1")).await;
        assert!(matches!(refused, Err(Unauthenticated::Unreadable { name: at, .. }) if at == name), "{name}");
    }
    for name in ["x-client-id", "x-subject-id"] {
        let without: Vec<_> = ALICE.into_iter().filter(|(other, _)| *other != name).collect();
        for given in [without.clone(), [&without[..], &[(name, "")]].concat()] {
            let refused = call(&authenticator, &given, &peer("10.0.0.1")).await;
            assert!(matches!(refused, Err(Unauthenticated::Required(_))), "{name}");
        }
    }
}

#[tokio::test]
async fn token_modes_ignore_identity_headers() {
    let issuer = Issuer::with_one("k1");
    let keys = FakeProvider::start(Behaviour::Answers(200, issuer.jwks().to_string()));
    let known =
        BTreeMap::from([("opaque".to_owned(), json!({"active": true, "client_id": "robot"}).to_string())]);
    let tokens = FakeProvider::start(Behaviour::Introspects(known));
    let time = Time::new();
    let source = KeySource::Provider(provider(&keys.url()));
    for (authenticator, token, subject) in [
        (Authenticator::jwks(jwks(source, &time), proxies()), issuer.token(&claims()), "alice"),
        (
            Authenticator::introspection(introspection(&tokens.url(), &time), proxies()),
            "opaque".to_owned(),
            "robot",
        ),
    ] {
        let mallory = [
            ("x-client-id", "mallory"),
            ("x-subject-id", "mallory"),
            ("x-subject-id", "twice"),
            ("x-roles", "admin"),
            ("x-scopes", "operations.* custody.* audit.read"),
            ("x-tenant", "other"),
        ];
        for from in ["10.0.0.1", "192.0.2.1"] {
            let refused = call(&authenticator, &mallory, &peer(from)).await;
            assert!(matches!(refused, Err(Unauthenticated::Required(_))), "{from}");
            let bearer = format!("Bearer {token}");
            let both = [&mallory[..], &[("authorization", bearer.as_str())]].concat();
            let identity = call(&authenticator, &both, &peer(from)).await.unwrap();
            assert_eq!(
                (identity.subject_id.as_str(), identity.roles.len(), identity.tenant),
                (subject, 0, None)
            );
        }
        let given = headers(&[("authorization", &format!("Bearer {token}"))]);
        assert!(
            authenticator.authenticate(&given, None).await.is_err(),
            "the address of the connection is unknown"
        );
    }
}

#[tokio::test]
async fn the_client_certificate_comes_from_the_tls_terminator() {
    let own = Hex32::new([0xab; 32]);
    let hex = own.to_string();
    let thumbprint = "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s";
    let issuer = Issuer::with_one("k1");
    let keys = FakeProvider::start(Behaviour::Answers(200, issuer.jwks().to_string()));
    let source = KeySource::Provider(provider(&keys.url()));
    let authenticator = Authenticator::jwks(jwks(source, &Time::new()), proxies());
    let mut claims = claims();
    claims["cnf"] = json!({ "x5t#S256": thumbprint });
    let bearer = format!("Bearer {}", issuer.token(&claims));
    let with_header = [("authorization", bearer.as_str()), ("x-client-cert-sha256", hex.as_str())];
    let is_accepted = |given: Vec<(&'static str, String)>, peer: Peer| {
        let authenticator = &authenticator;
        async move {
            let given: Vec<_> = given.iter().map(|(name, value)| (*name, value.as_str())).collect();
            call(authenticator, &given, &peer).await.is_ok()
        }
    };
    let owned =
        |given: &[(&'static str, &str)]| given.iter().map(|(n, v)| (*n, (*v).to_owned())).collect::<Vec<_>>();
    let with = |address: &str, certificate| Peer { certificate_sha256: certificate, ..peer(address) };
    assert!(is_accepted(owned(&with_header), with("10.0.0.1", None)).await);
    // The header proves nothing when the client itself sends it.
    assert!(!is_accepted(owned(&with_header), with("192.0.2.1", None)).await);
    // The connection's certificate counts; the header has no effect.
    assert!(is_accepted(owned(&with_header[..1]), with("192.0.2.1", Some(own))).await);
    assert!(!is_accepted(owned(&with_header), with("192.0.2.1", Some(Hex32::ZERO))).await);
    // The proxy's own certificate is not the client's.
    assert!(!is_accepted(owned(&with_header[..1]), with("10.0.0.1", Some(own))).await);
    // In trusted-headers mode it belongs to the identity.
    let trusting = Authenticator::trusted_headers(proxies());
    let given = [&ALICE[..], &[("x-client-cert-sha256", hex.as_str())]].concat();
    assert_eq!(call(&trusting, &given, &peer("10.0.0.1")).await.unwrap().cert_sha256, Some(own));
    assert_eq!(call(&trusting, &ALICE, &with("10.0.0.1", Some(own))).await.unwrap().cert_sha256, None);
}

#[tokio::test]
async fn a_request_without_a_token_is_rejected() {
    let keys = FakeProvider::start(Behaviour::Answers(200, Issuer::with_one("k1").jwks().to_string()));
    let source = KeySource::Provider(provider(&keys.url()));
    let authenticator = Authenticator::jwks(jwks(source, &Time::new()), no_proxies());
    for given in
        [&[][..], &[("authorization", "Basic YTpi")], &[("cookie", "token=x")], &[("authorization", "")]]
    {
        let refused = call(&authenticator, given, &peer("192.0.2.1")).await;
        assert!(matches!(refused, Err(Unauthenticated::Required(_))), "{given:?}");
    }
    assert!(matches!(bearer(&authenticator, "x").await, Err(Unauthenticated::InvalidToken(_))));
    assert!(keys.requests().is_empty(), "a request was sent to the provider");
}
