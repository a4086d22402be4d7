//! Introspection of tokens.

use crate::support::{
    ISSUER, START_S, Time, bearer, bearer_with_certificate, eventually, introspection, introspection_with,
    is_unavailable, no_proxies, rules,
};
use gateway_auth::testing::{Behaviour, FakeProvider};
use gateway_auth::{Authenticator, TokenFault};
use gateway_domain::ids::Hex32;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

fn active() -> Value {
    json!({ "active": true, "client_id": "desk", "sub": "alice", "scope": "operations.read", "exp": START_S + 3600 })
}

fn knows(token: &str, answer: &Value) -> Behaviour {
    Behaviour::Introspects(BTreeMap::from([(token.to_owned(), answer.to_string())]))
}

fn authenticator(fake: &FakeProvider, time: &Time) -> Authenticator {
    Authenticator::introspection(introspection(&fake.url(), time), no_proxies())
}

/// Responses and failures that do not say whether the token is active.
fn invalid_answers() -> Vec<Behaviour> {
    vec![
        Behaviour::HangsUp,
        Behaviour::NeverEnds,
        Behaviour::Redirects("http://127.0.0.1:1/".to_owned()),
        Behaviour::Answers(500, active().to_string()),
        Behaviour::Answers(401, r#"{"error":"invalid_client"}"#.to_owned()),
        Behaviour::Answers(201, active().to_string()),
        Behaviour::Answers(200, String::new()),
        Behaviour::Answers(200, "<html>active: true</html>".to_owned()),
        Behaviour::Answers(200, "true".to_owned()),
        Behaviour::Answers(200, r#"{"active":"true","client_id":"desk"}"#.to_owned()),
        Behaviour::Answers(200, r#"{"client_id":"desk"}"#.to_owned()),
        Behaviour::Answers(200, r#"{"active":true,"active":true,"client_id":"desk"}"#.to_owned()),
        Behaviour::Answers(200, format!("{{\"active\":true,\"client_id\":\"{}\"}}", "x".repeat(70_000))),
    ]
}

#[tokio::test]
async fn an_active_token_is_cached_for_half_a_minute() {
    let fake = FakeProvider::start(knows("opaque-1", &active()));
    let time = Time::new();
    let authenticator = authenticator(&fake, &time);
    let identity = bearer(&authenticator, "opaque-1").await.unwrap();
    assert_eq!((identity.client_id.as_str(), identity.subject_id.as_str()), ("desk", "alice"));
    let request = &fake.requests()[0];
    assert!(request.starts_with("POST /endpoint HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("authorization: Basic Z2F0ZXdheTpzM2NyZXQ=\r\n"), "{request}");
    assert!(request.contains("content-type: application/x-www-form-urlencoded\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\ntoken=opaque-1&token_type_hint=access_token"), "{request}");
    time.pass(29_999);
    assert!(bearer(&authenticator, "opaque-1").await.is_ok());
    assert_eq!(fake.requests().len(), 1);
    time.pass(1);
    fake.behave(knows("other", &active()));
    assert_eq!(bearer(&authenticator, "opaque-1").await, Err(TokenFault::Inactive.into()));
    assert_eq!(fake.requests().len(), 2);
}

/// A provider reports any token that it issued as active, even one for another audience.
#[tokio::test]
async fn introspection_checks_issuer_and_audience() {
    let fake = FakeProvider::start(knows("opaque", &active()));
    let given = introspection_with(&fake.url(), &Time::new(), rules());
    let authenticator = Authenticator::introspection(given, no_proxies());
    let answer = async |members: Value| {
        let mut answer = active();
        answer.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        fake.behave(knows("opaque", &answer));
        bearer(&authenticator, "opaque").await.map(drop)
    };
    let (issuer, audience) = (Err(TokenFault::Issuer.into()), Err(TokenFault::Audience.into()));
    for (members, expected) in [
        (json!({}), &issuer),
        (json!({ "aud": "gateway" }), &issuer),
        (json!({ "iss": "https://other.example", "aud": "gateway" }), &issuer),
        (json!({ "iss": [ISSUER], "aud": "gateway" }), &issuer),
        (json!({ "iss": ISSUER }), &audience),
        (json!({ "iss": ISSUER, "aud": "payroll" }), &audience),
        (json!({ "iss": ISSUER, "aud": ["payroll", "gateway2"] }), &audience),
        (json!({ "iss": ISSUER, "aud": null }), &audience),
        // Last, because it is cached.
        (json!({ "iss": ISSUER, "aud": ["payroll", "gateway"] }), &Ok(())),
    ] {
        assert_eq!(answer(members.clone()).await, *expected, "{members}");
    }
}

#[tokio::test]
async fn an_inactive_answer_is_not_cached() {
    let fake = FakeProvider::start(knows("other", &active()));
    let authenticator = authenticator(&fake, &Time::new());
    for n in 1..=3 {
        assert_eq!(bearer(&authenticator, "opaque-1").await, Err(TokenFault::Inactive.into()));
        assert_eq!(fake.requests().len(), n);
    }
    fake.behave(knows("opaque-1", &active()));
    assert!(bearer(&authenticator, "opaque-1").await.is_ok());
}

#[tokio::test]
async fn a_cached_token_expires_at_its_exp() {
    let mut answer = active();
    answer["exp"] = json!(START_S + 10);
    let fake = FakeProvider::start(knows("opaque-1", &answer));
    let time = Time::new();
    let authenticator = authenticator(&fake, &time);
    assert!(bearer(&authenticator, "opaque-1").await.is_ok());
    time.pass(9_999);
    assert!(bearer(&authenticator, "opaque-1").await.is_ok());
    assert_eq!(fake.requests().len(), 1);
    time.pass(1);
    // After the expiry by our clock, the provider decides.
    assert!(bearer(&authenticator, "opaque-1").await.is_ok());
    assert_eq!(fake.requests().len(), 2);
    time.pass(60_000);
    assert_eq!(bearer(&authenticator, "opaque-1").await, Err(TokenFault::Expired.into()));
}

#[tokio::test]
async fn without_a_valid_answer_only_cached_active_tokens_are_accepted() {
    for behaviour in invalid_answers() {
        let fake = FakeProvider::start(knows("known", &active()));
        let time = Time::new();
        let authenticator = authenticator(&fake, &time);
        assert!(bearer(&authenticator, "known").await.is_ok());
        assert_eq!(authenticator.check().await, Ok(()));
        fake.behave(behaviour.clone());
        assert!(bearer(&authenticator, "known").await.is_ok(), "{behaviour:?}");
        assert!(is_unavailable(&bearer(&authenticator, "unknown").await), "{behaviour:?}");
        assert!(authenticator.check().await.is_err(), "{behaviour:?}");
        time.pass(30_000);
        assert!(is_unavailable(&bearer(&authenticator, "known").await), "{behaviour:?}");
        fake.behave(knows("known", &active()));
        time.pass(5_000);
        assert_eq!(authenticator.check().await, Ok(()), "{behaviour:?}");
        assert!(bearer(&authenticator, "known").await.is_ok(), "{behaviour:?}");
    }
}

#[tokio::test]
async fn an_active_token_with_bad_claims_is_rejected() {
    let time = Time::new();
    for (name, value, expected) in [
        ("exp", json!(START_S - 60), TokenFault::Expired),
        ("nbf", json!(START_S + 61), TokenFault::NotYetValid),
        ("client_id", json!(null), TokenFault::Claim("client_id")),
        ("client_id", json!(7), TokenFault::Claim("client_id")),
        ("scope", json!(7), TokenFault::Claim("scope")),
        ("cnf", json!({"jkt": "x"}), TokenFault::Unproved),
        ("token_type", json!("refresh_token"), TokenFault::Inactive),
    ] {
        let mut answer = active();
        answer[name] = value;
        let fake = FakeProvider::start(knows("opaque-1", &answer));
        assert_eq!(bearer(&authenticator(&fake, &time), "opaque-1").await, Err(expected.into()), "{answer}");
    }
}

#[tokio::test]
async fn a_cached_bound_token_requires_its_certificate_at_every_use() {
    let mut answer = active();
    answer["cnf"] = json!({"x5t#S256": "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s"});
    let fake = FakeProvider::start(knows("opaque-1", &answer));
    let authenticator = authenticator(&fake, &Time::new());
    let own = Some(Hex32::new([0xab; 32]));
    assert!(bearer_with_certificate(&authenticator, "opaque-1", own).await.is_ok());
    for other in [None, Some(Hex32::ZERO)] {
        let stolen = bearer_with_certificate(&authenticator, "opaque-1", other).await;
        assert_eq!(stolen, Err(TokenFault::Unproved.into()));
    }
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn concurrent_requests_with_one_token_send_one_introspection() {
    let fake = FakeProvider::start(Behaviour::Hangs);
    let authenticator = Arc::new(authenticator(&fake, &Time::new()));
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let authenticator = Arc::clone(&authenticator);
            tokio::spawn(async move { bearer(&authenticator, "opaque-1").await })
        })
        .collect();
    eventually("the provider gets the request", || fake.requests().len() == 1).await;
    // The caller that triggered the request disconnects; the others get the answer.
    calls[0].abort();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    fake.behave(knows("opaque-1", &active()));
    for call in calls.into_iter().skip(1) {
        assert!(call.await.unwrap().is_ok());
    }
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn different_tokens_never_share_a_cached_answer() {
    let answer = |subject: &str| json!({ "active": true, "client_id": "desk", "sub": subject }).to_string();
    let known = ["alice", "bob"].map(|subject| (format!("token-of-{subject}"), answer(subject)));
    let fake = FakeProvider::start(Behaviour::Introspects(known.into()));
    let authenticator = Arc::new(authenticator(&fake, &Time::new()));
    for _ in 0..3 {
        for subject in ["alice", "bob"] {
            assert_eq!(
                bearer(&authenticator, &format!("token-of-{subject}")).await.unwrap().subject_id,
                subject
            );
        }
        assert_eq!(bearer(&authenticator, "token-of-carol").await, Err(TokenFault::Inactive.into()));
    }
}
