//! Signed tokens: the valid ones, and those that are rejected.

use crate::support::{START_S, Time, bearer, bearer_with_certificate, claims, jwks, no_proxies, provider};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gateway_auth::testing::{Behaviour, FakeProvider, Issuer, Signer};
use gateway_auth::{Authenticator, KeySource, TokenFault, Unauthenticated};
use gateway_domain::ids::Hex32;
use serde_json::{Value, json};

pub(crate) fn publishes(issuer: &Issuer) -> Behaviour {
    Behaviour::Answers(200, issuer.jwks().to_string())
}

pub(crate) fn authenticator(fake: &FakeProvider, time: &Time) -> Authenticator {
    let source = KeySource::Provider(provider(&fake.url()));
    Authenticator::jwks(jwks(source, time), no_proxies())
}

/// An issuer with one key, a provider that publishes it, a clock, and an authenticator that uses them.
pub(crate) fn setup() -> (Issuer, FakeProvider, Time, Authenticator) {
    let issuer = Issuer::with_one("k1");
    let fake = FakeProvider::start(publishes(&issuer));
    let time = Time::new();
    let authenticator = authenticator(&fake, &time);
    (issuer, fake, time, authenticator)
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

async fn fault(authenticator: &Authenticator, token: &str) -> TokenFault {
    match bearer(authenticator, token).await {
        Err(Unauthenticated::InvalidToken(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tokens_of_every_supported_algorithm_are_accepted() {
    let issuer = Issuer::new();
    let fake = FakeProvider::start(publishes(&issuer));
    let authenticator = authenticator(&fake, &Time::new());
    for signer in &issuer.signers {
        let identity = bearer(&authenticator, &signer.token(&claims())).await.unwrap();
        assert_eq!(
            (identity.client_id.as_str(), identity.subject_id.as_str()),
            ("desk", "alice"),
            "{}",
            signer.alg()
        );
        assert_eq!(identity.scopes, ["operations.read"]);
    }
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn a_token_must_use_the_algorithm_of_its_key() {
    let issuer = Issuer::new();
    let fake = FakeProvider::start(publishes(&issuer));
    let authenticator = authenticator(&fake, &Time::new());
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    // Unsigned, with and without bytes in place of a signature.
    for alg in ["none", "None", "NONE", "nOnE"] {
        let unsigned = format!("{}.{}.", encode(&json!({"alg": alg, "kid": "RS256"})), encode(&claims()));
        assert_eq!(fault(&authenticator, &unsigned).await, TokenFault::Malformed);
        assert_eq!(fault(&authenticator, &format!("{unsigned}AAAA")).await, TokenFault::Algorithm);
    }
    // HMAC with the public key as the secret, in its likely encodings.
    for kid in ["RS256", "ES256", "EdDSA"] {
        let jwk = issuer.signer(kid).jwk();
        for secret in [jwk.to_string().into_bytes(), public_bytes(&jwk)] {
            for alg in ["HS256", "HS384", "HS512"] {
                let forged = hmac_token(alg, kid, &secret);
                assert_eq!(fault(&authenticator, &forged).await, TokenFault::Algorithm, "{alg} under {kid}");
            }
        }
    }
    // Genuine tokens, each with the `alg` of another algorithm.
    for signer in &issuer.signers {
        for other in issuer.signers.iter().filter(|other| other.alg() != signer.alg()) {
            let renamed = signer.token_with(&json!({"alg": other.alg(), "kid": signer.kid}), &claims());
            assert_eq!(fault(&authenticator, &renamed).await, TokenFault::Algorithm);
            let misled = signer.token_with(&json!({"alg": other.alg(), "kid": other.kid}), &claims());
            assert_eq!(fault(&authenticator, &misled).await, TokenFault::Signature);
        }
    }
}

/// Keycloak gives a key for encryption the `kid` of the one for signatures.
#[tokio::test]
async fn key_that_cannot_verify_does_not_hide_one_with_its_id() {
    let issuer = Issuer::with_one("k1");
    let signing = issuer.signer("k1").jwk();
    let mut encrypting = Signer::new("RS256", "k1").jwk();
    (encrypting["use"], encrypting["alg"]) = (json!("enc"), json!("RSA-OAEP"));
    let another = Signer::new("ES256", "k1").jwk();
    for (keys, is_used) in [
        (vec![&encrypting, &signing], true),
        (vec![&signing, &encrypting], true),
        (vec![&signing, &another], false),
        (vec![&signing, &encrypting, &another], false),
    ] {
        let fake = FakeProvider::start(Behaviour::Answers(200, json!({ "keys": keys }).to_string()));
        let answer = bearer(&authenticator(&fake, &Time::new()), &issuer.signer("k1").token(&claims())).await;
        assert_eq!(answer.is_ok(), is_used, "{answer:?}");
    }
}

/// RFC 9864 names the algorithm as the curve.
#[tokio::test]
async fn token_may_name_ed25519_as_either_specification_does() {
    let issuer = Issuer::new();
    let fake = FakeProvider::start(publishes(&issuer));
    let authenticator = authenticator(&fake, &Time::new());
    for alg in ["EdDSA", "Ed25519"] {
        let token = issuer.signer("EdDSA").token_with(&json!({ "alg": alg, "kid": "EdDSA" }), &claims());
        bearer(&authenticator, &token).await.unwrap();
    }
    let token = issuer.signer("EdDSA").token_with(&json!({ "alg": "Ed448", "kid": "EdDSA" }), &claims());
    assert_eq!(fault(&authenticator, &token).await, TokenFault::Algorithm);
}

fn public_bytes(jwk: &Value) -> Vec<u8> {
    let part = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap_or_default()).unwrap();
    ["n", "x", "y"].map(part).concat()
}

fn hmac_token(alg: &str, kid: &str, secret: &[u8]) -> String {
    use aws_lc_rs::hmac;
    let with = match alg {
        "HS256" => hmac::HMAC_SHA256,
        "HS384" => hmac::HMAC_SHA384,
        _ => hmac::HMAC_SHA512,
    };
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let input = format!("{}.{}", encode(&json!({"alg": alg, "kid": kid})), encode(&claims()));
    let tag = hmac::sign(&hmac::Key::new(with, secret), input.as_bytes());
    format!("{input}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

#[tokio::test]
async fn keys_in_the_token_header_are_ignored() {
    let issuer = Issuer::with_one("k1");
    let fake = FakeProvider::start(publishes(&issuer));
    let elsewhere = FakeProvider::start(publishes(&Issuer::with_one("k1")));
    let authenticator = authenticator(&fake, &Time::new());
    let forger = Signer::new("ES256", "k1");
    for header in [
        json!({"alg": "ES256", "kid": "k1", "jwk": forger.jwk()}),
        json!({"alg": "ES256", "kid": "k1", "jku": elsewhere.url()}),
        json!({"alg": "ES256", "kid": "k1", "x5u": elsewhere.url(), "x5c": ["AAAA"]}),
    ] {
        assert_eq!(
            fault(&authenticator, &forger.token_with(&header, &claims())).await,
            TokenFault::Signature
        );
    }
    let without_kid = forger.token_with(&json!({"alg": "ES256", "jwk": forger.jwk()}), &claims());
    assert_eq!(fault(&authenticator, &without_kid).await, TokenFault::UnknownKey);
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_genuine_token_with_bad_claims_is_rejected() {
    let (issuer, _fake, _, authenticator) = setup();
    for (name, value, expected) in [
        ("iss", json!("https://other.example"), TokenFault::Issuer),
        ("iss", json!(null), TokenFault::Issuer),
        ("aud", json!("other"), TokenFault::Audience),
        ("aud", json!(null), TokenFault::Audience),
        ("exp", json!(START_S - 60), TokenFault::Expired),
        ("exp", json!(null), TokenFault::Claim("exp")),
        ("nbf", json!(START_S + 61), TokenFault::NotYetValid),
        ("sub", json!(null), TokenFault::Claim("sub")),
        ("client_id", json!(""), TokenFault::Claim("client_id")),
        ("scope", json!({}), TokenFault::Claim("scope")),
        ("cnf", json!({"jkt": "x"}), TokenFault::Unproved),
    ] {
        assert_eq!(
            fault(&authenticator, &issuer.token(&with(name, value.clone()))).await,
            expected,
            "{name} {value}"
        );
    }
    let without_exp = {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove("exp");
        issuer.token(&claims)
    };
    assert_eq!(fault(&authenticator, &without_exp).await, TokenFault::Claim("exp"));
    let header = json!({"alg": "ES256", "kid": "k1"}).to_string();
    let twice = claims().to_string().replace("{\"aud\"", "{\"sub\":\"mallory\",\"aud\"");
    for payload in [twice.as_bytes(), b"[]", b"null", b"alice", b"", b"{\"sub\":\"\xff\"}"] {
        let token = issuer.signers[0].token_of(header.as_bytes(), payload);
        assert_eq!(fault(&authenticator, &token).await, TokenFault::Malformed, "{payload:?}");
    }
    let huge = issuer.token(&with("padding", json!("x".repeat(16 * 1024))));
    assert_eq!(fault(&authenticator, &huge).await, TokenFault::TooLarge);
}

#[tokio::test]
async fn expiry_and_not_before_have_a_minute_of_leeway() {
    let (issuer, _fake, time, authenticator) = setup();
    let mut claims = with("nbf", json!(START_S + 60));
    claims["exp"] = json!(START_S + 120);
    let token = issuer.token(&claims);
    assert!(bearer(&authenticator, &token).await.is_ok());
    time.pass(179_999);
    assert!(bearer(&authenticator, &token).await.is_ok());
    time.pass(1);
    assert_eq!(fault(&authenticator, &token).await, TokenFault::Expired);
    time.go_back(180_001);
    assert_eq!(fault(&authenticator, &token).await, TokenFault::NotYetValid);
}

#[tokio::test]
async fn a_flipped_bit_in_any_character_of_a_token_is_rejected() {
    let issuer = Issuer::new();
    let fake = FakeProvider::start(publishes(&issuer));
    let authenticator = authenticator(&fake, &Time::new());
    for signer in &issuer.signers {
        let token = signer.token(&claims()).into_bytes();
        for index in 0..token.len() {
            let mut flipped = token.clone();
            flipped[index] ^= 1 << (index % 7);
            let Ok(text) = String::from_utf8(flipped) else { continue };
            if text.bytes().all(|byte| byte.is_ascii_graphic()) {
                assert!(bearer(&authenticator, &text).await.is_err(), "{} at {index}", signer.alg());
            }
        }
    }
}

#[tokio::test]
async fn a_signed_bound_token_requires_its_certificate() {
    let (issuer, _fake, _, authenticator) = setup();
    let own = Hex32::new([0x5a; 32]);
    let thumbprint = BASE64_URL_SAFE_NO_PAD.encode(own.as_bytes());
    let bound = issuer.token(&with("cnf", json!({"x5t#S256": thumbprint})));
    let identity = bearer_with_certificate(&authenticator, &bound, Some(own)).await.unwrap();
    assert_eq!(identity.cert_sha256, Some(own));
    for other in [None, Some(Hex32::ZERO)] {
        let refused = bearer_with_certificate(&authenticator, &bound, other).await;
        assert_eq!(refused, Err(TokenFault::Unproved.into()));
    }
}
