//! The issuer's keys: fetched, cached, revoked, and unavailable.

use crate::jwks::{authenticator, publishes, setup};
use crate::support::{HOUR_MS, Time, bearer, claims, eventually, is_unavailable, jwks, no_proxies, peer};
use gateway_auth::testing::{Behaviour, FakeProvider, Issuer, Signer};
use gateway_auth::{Authenticator, Identity, KeySource, TokenFault, Unauthenticated};
use http::HeaderMap;
use serde_json::json;
use std::sync::Arc;

fn is_unknown(answer: &Result<Identity, Unauthenticated>) -> bool {
    *answer == Err(TokenFault::UnknownKey.into())
}

/// Responses and failures from which no key set can be read.
fn invalid_answers() -> Vec<Behaviour> {
    vec![
        Behaviour::HangsUp,
        Behaviour::NeverEnds,
        Behaviour::Answers(500, Issuer::with_one("k1").jwks().to_string()),
        Behaviour::Answers(404, "{}".to_owned()),
        Behaviour::Answers(200, "<html>".to_owned()),
        Behaviour::Answers(200, "{}".to_owned()),
        Behaviour::Answers(200, r#"{"keys":7}"#.to_owned()),
        Behaviour::Answers(200, r#"{"keys":[7]}"#.to_owned()),
        Behaviour::Answers(200, r#"{"keys":[],"keys":[]}"#.to_owned()),
        Behaviour::Answers(200, format!("{{\"keys\":[],\"x\":\"{}\"}}", "y".repeat(300_000))),
        Behaviour::Redirects("http://127.0.0.1:1/".to_owned()),
    ]
}

#[tokio::test]
async fn without_keys_tokens_are_unavailable_and_not_invalid() {
    let no_keys = Behaviour::Answers(200, json!({ "keys": [] }).to_string());
    for behaviour in invalid_answers().into_iter().chain([no_keys]) {
        let issuer = Issuer::with_one("k1");
        let fake = FakeProvider::start(behaviour.clone());
        let time = Time::new();
        let authenticator = authenticator(&fake, &time);
        let token = issuer.token(&claims());
        assert!(is_unavailable(&bearer(&authenticator, &token).await), "{behaviour:?}");
        assert!(authenticator.check().await.is_err(), "{behaviour:?}");
        // As soon as the provider answers, tokens are accepted.
        fake.behave(publishes(&issuer));
        time.pass(60_000);
        assert!(bearer(&authenticator, &token).await.is_ok(), "{behaviour:?}");
        assert_eq!(authenticator.check().await, Ok(()));
    }
}

#[tokio::test]
async fn known_keys_work_while_the_provider_is_down_and_unknown_ones_are_unavailable() {
    for behaviour in invalid_answers() {
        let (issuer, fake, time, authenticator) = setup();
        let (known, unknown) = (issuer.token(&claims()), Signer::new("ES256", "k2").token(&claims()));
        assert!(bearer(&authenticator, &known).await.is_ok());
        assert!(is_unknown(&bearer(&authenticator, &unknown).await), "the keys were fetched just now");
        fake.behave(behaviour.clone());
        time.pass(60_000);
        assert!(is_unavailable(&bearer(&authenticator, &unknown).await), "{behaviour:?}");
        for _ in 0..3 {
            assert!(bearer(&authenticator, &known).await.is_ok(), "{behaviour:?}");
            assert!(is_unavailable(&bearer(&authenticator, &unknown).await), "{behaviour:?}");
            time.pass(60_000);
        }
        assert_eq!(authenticator.check().await, Ok(()));
    }
}

#[tokio::test]
async fn keys_are_not_used_a_day_after_their_last_fetch() {
    let (issuer, fake, time, authenticator) = setup();
    let known = issuer.token(&claims());
    assert!(bearer(&authenticator, &known).await.is_ok());
    drop(fake);
    time.pass(23 * HOUR_MS);
    assert!(bearer(&authenticator, &known).await.is_ok());
    assert!(is_unavailable(&bearer(&authenticator, &Signer::new("ES256", "k2").token(&claims())).await));
    // Keys that were not confirmed for a day are not used.
    time.pass(HOUR_MS);
    assert!(is_unavailable(&bearer(&authenticator, &known).await));
    assert!(authenticator.check().await.is_err());
}

#[tokio::test]
async fn unknown_kid_refreshes_jwks_at_most_once_per_minute() {
    let (issuer, fake, time, authenticator) = setup();
    let next = Signer::new("ES256", "k2");
    let unknown = next.token(&claims());
    for minute in 1..=3 {
        for _ in 0..50 {
            assert!(is_unknown(&bearer(&authenticator, &unknown).await));
            time.pass(1_000);
        }
        assert_eq!(fake.requests().len(), minute);
        time.pass(10_000);
    }
    // The provider rotates: the new key is fetched within the minute, and the old one is gone.
    let rotated = Issuer { signers: vec![next] };
    fake.behave(publishes(&rotated));
    assert!(bearer(&authenticator, &unknown).await.is_ok());
    assert!(is_unknown(&bearer(&authenticator, &issuer.token(&claims())).await));
    assert_eq!(fake.requests().len(), 4);
}

#[tokio::test]
async fn a_clock_set_back_does_not_stop_key_refresh() {
    let (issuer, fake, time, authenticator) = setup();
    assert!(bearer(&authenticator, &issuer.token(&claims())).await.is_ok());
    let next = Issuer::with_one("k2");
    fake.behave(publishes(&next));
    time.go_back(HOUR_MS);
    assert!(bearer(&authenticator, &next.token(&claims())).await.is_ok());
}

/// Publishes two keys, uses the old one, and revokes it. Returns a token under each key.
async fn revoke_old_key(fake: &FakeProvider, authenticator: &Authenticator) -> [String; 2] {
    let issuer = Issuer { signers: vec![Signer::new("ES256", "old"), Signer::new("ES256", "new")] };
    fake.behave(publishes(&issuer));
    let tokens = ["old", "new"].map(|key| issuer.signer(key).token(&claims()));
    assert!(bearer(authenticator, &tokens[0]).await.is_ok());
    fake.behave(Behaviour::Answers(200, json!({ "keys": [issuer.signer("new").jwk()] }).to_string()));
    tokens
}

#[tokio::test]
async fn a_revoked_key_is_rejected_within_minutes() {
    let (fake, time) = (FakeProvider::start(Behaviour::HangsUp), Time::new());
    let authenticator = authenticator(&fake, &time);
    let [old, new] = revoke_old_key(&fake, &authenticator).await;
    time.pass(299_999);
    assert!(bearer(&authenticator, &old).await.is_ok());
    time.pass(1);
    // This caller does not wait; it triggers the fetch for later ones.
    assert!(bearer(&authenticator, &old).await.is_ok());
    eventually("the keys are fetched", || fake.requests().len() == 2).await;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_unknown(&bearer(&authenticator, &old).await) {
        assert!(tokio::time::Instant::now() < deadline, "the revoked key is still accepted");
        tokio::task::yield_now().await;
    }
    assert!(bearer(&authenticator, &new).await.is_ok());
    // All keys are revoked: tokens are unavailable, not invalid.
    fake.behave(Behaviour::Answers(200, r#"{"keys":[]}"#.to_owned()));
    time.pass(60_000);
    assert!(is_unavailable(&bearer(&authenticator, &old).await));
    assert!(is_unavailable(&bearer(&authenticator, &new).await));
    assert!(authenticator.check().await.is_err());
}

/// Otherwise, with a wrong claim name in the settings, all callers would share the tenant `default`.
#[tokio::test]
async fn a_caller_without_a_tenant_is_rejected_where_one_is_required() {
    let (issuer, _fake, _, authenticator) = setup();
    let mut of_tenant = claims();
    of_tenant["tenant"] = json!("acme");
    let [without, with] = [claims(), of_tenant].map(|claims| issuer.signer("k1").token(&claims));
    assert!(bearer(&authenticator, &without).await.is_ok());
    let authenticator = authenticator.require_tenant(true);
    let refused = bearer(&authenticator, &without).await;
    assert!(
        matches!(refused, Err(Unauthenticated::InvalidToken(TokenFault::Claim("tenant")))),
        "{refused:?}"
    );
    assert!(bearer(&authenticator, &with).await.is_ok());
    let proxy = Authenticator::trusted_headers("192.0.2.7".parse().unwrap()).require_tenant(true);
    for (tenant, is_accepted) in [(None, false), (Some("acme"), true)] {
        let mut headers = HeaderMap::new();
        let all = [("x-client-id", Some("desk")), ("x-subject-id", Some("alice")), ("x-tenant", tenant)];
        for (name, value) in all.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            headers.insert(name, value.parse().unwrap());
        }
        let answer = proxy.authenticate(&headers, Some(&peer("192.0.2.7"))).await;
        assert_eq!(answer.is_ok(), is_accepted, "{answer:?}");
    }
}

#[tokio::test]
async fn a_key_revoked_during_an_idle_period_is_rejected_at_the_next_request() {
    let (fake, time) = (FakeProvider::start(Behaviour::HangsUp), Time::new());
    let authenticator = authenticator(&fake, &time);
    let [old, new] = revoke_old_key(&fake, &authenticator).await;
    time.pass(600_000);
    assert!(
        is_unknown(&bearer(&authenticator, &old).await),
        "the first token after the idle period is accepted"
    );
    assert!(bearer(&authenticator, &new).await.is_ok());
    // The provider does not answer: known keys are used, and callers do not wait for it after the first failure.
    fake.behave(Behaviour::Answers(500, String::new()));
    time.pass(600_000);
    assert!(bearer(&authenticator, &new).await.is_ok());
    let n_requests = fake.requests().len();
    assert!(bearer(&authenticator, &new).await.is_ok());
    assert_eq!(fake.requests().len(), n_requests);
}

#[tokio::test]
async fn a_flood_of_unknown_kids_causes_one_fetch() {
    let (issuer, fake, time, authenticator) = setup();
    let authenticator = Arc::new(authenticator);
    let known = issuer.token(&claims());
    assert!(bearer(&authenticator, &known).await.is_ok());
    fake.behave(Behaviour::Hangs);
    time.pass(60_000);
    let forger = Signer::new("ES256", "x");
    let flood: Vec<_> = (0..200)
        .map(|i| {
            let token = forger.token_with(&json!({"alg": "ES256", "kid": format!("x{i}")}), &claims());
            let authenticator = Arc::clone(&authenticator);
            tokio::spawn(async move { bearer(&authenticator, &token).await })
        })
        .collect();
    eventually("the keys are fetched", || fake.requests().len() == 2).await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(flood.iter().all(|one| !one.is_finished()));
    fake.behave(publishes(&issuer));
    for one in flood {
        assert!(is_unknown(&one.await.unwrap()));
    }
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test]
async fn callers_with_known_keys_do_not_wait_for_a_hanging_provider() {
    let (issuer, fake, time, authenticator) = setup();
    let authenticator = Arc::new(authenticator);
    let known = issuer.token(&claims());
    assert!(bearer(&authenticator, &known).await.is_ok());
    fake.behave(Behaviour::Hangs);
    time.pass(300_000);
    let unknown = {
        let (authenticator, token) = (Arc::clone(&authenticator), Signer::new("ES256", "x").token(&claims()));
        tokio::spawn(async move { bearer(&authenticator, &token).await })
    };
    eventually("the fetch has started", || fake.requests().len() == 2).await;
    // The provider hangs throughout: a caller that waited for it would run into its deadline.
    for _ in 0..10 {
        assert!(bearer(&authenticator, &known).await.is_ok());
    }
    assert!(!unknown.is_finished());
    assert_eq!(fake.requests().len(), 2);
    assert!(is_unavailable(&unknown.await.unwrap()));
}

#[tokio::test]
async fn disconnecting_does_not_trigger_another_fetch() {
    let issuer = Issuer::with_one("k1");
    let fake = FakeProvider::start(Behaviour::Hangs);
    let authenticator = Arc::new(authenticator(&fake, &Time::new()));
    let token = issuer.token(&claims());
    for _ in 0..20 {
        let (authenticator, token) = (Arc::clone(&authenticator), token.clone());
        let call = tokio::spawn(async move { bearer(&authenticator, &token).await });
        eventually("the provider gets the request", || fake.requests().len() == 1).await;
        call.abort();
        assert!(call.await.is_err());
    }
    fake.behave(publishes(&issuer));
    assert!(bearer(&authenticator, &token).await.is_ok());
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn a_changed_key_file_replaces_the_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    let (first, second) = (Issuer::with_one("k1"), Issuer::with_one("k2"));
    let time = Time::new();
    let authenticator = Authenticator::jwks(jwks(KeySource::File(path.clone()), &time), no_proxies());
    assert!(is_unavailable(&bearer(&authenticator, &first.token(&claims())).await));
    std::fs::write(&path, first.jwks().to_string()).unwrap();
    time.pass(5_000);
    assert!(bearer(&authenticator, &first.token(&claims())).await.is_ok());
    std::fs::write(&path, second.jwks().to_string()).unwrap();
    time.pass(60_000);
    assert!(bearer(&authenticator, &second.token(&claims())).await.is_ok());
    assert!(is_unknown(&bearer(&authenticator, &first.token(&claims())).await));
}

#[tokio::test]
async fn reload_replaces_the_issuers_keys_immediately() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    let (first, second) = (Issuer::with_one("k1"), Issuer::with_one("k2"));
    std::fs::write(&path, first.jwks().to_string()).unwrap();
    let time = Time::new();
    let authenticator = Authenticator::jwks(jwks(KeySource::File(path.clone()), &time), no_proxies());
    assert!(bearer(&authenticator, &first.token(&claims())).await.is_ok());
    std::fs::write(&path, second.jwks().to_string()).unwrap();
    assert!(bearer(&authenticator, &first.token(&claims())).await.is_ok(), "not reloaded yet");
    assert_eq!(authenticator.reload_keys().await, Some(Ok(())));
    assert!(bearer(&authenticator, &second.token(&claims())).await.is_ok());
    assert!(is_unknown(&bearer(&authenticator, &first.token(&claims())).await));
    // After a failed reload the keys in use stay, and the reason is named.
    std::fs::write(&path, "{").unwrap();
    assert!(authenticator.reload_keys().await.unwrap().unwrap_err().contains("could not be fetched"));
    assert!(bearer(&authenticator, &second.token(&claims())).await.is_ok());
    assert_eq!(Authenticator::bypass().reload_keys().await, None);
}

#[tokio::test]
async fn unusable_keys_are_treated_as_absent() {
    let good = Signer::new("ES256", "good");
    let changed = |kid: &str, name: &str, value: serde_json::Value| {
        let mut jwk = good.jwk();
        jwk["kid"] = json!(kid);
        jwk[name] = value;
        jwk
    };
    let rsa = Signer::new("RS256", "rsa");
    let unnamed_rsa = {
        let mut jwk = rsa.jwk();
        jwk.as_object_mut().unwrap().remove("alg");
        jwk
    };
    let keys = json!({ "keys": [
        good.jwk(),
        unnamed_rsa,
        changed("for-encryption", "use", json!("enc")),
        changed("for-wrapping", "key_ops", json!(["wrapKey"])),
        changed("another-alg", "alg", json!("ES384")),
        changed("private", "d", json!("AAAA")),
        changed("twice", "use", json!("sig")),
        changed("twice", "use", json!("sig")),
        changed("short", "x", json!("AAAA")),
        { "kty": "oct", "kid": "secret", "k": "c2VjcmV0" },
        { "kty": "AKP", "kid": "unheard-of", "alg": "ML-DSA-44", "pub": "AAAA" },
        { "kty": "EC", "crv": "secp256k1", "kid": "another-curve", "x": "AAAA", "y": "AAAA" },
    ]});
    let fake = FakeProvider::start(Behaviour::Answers(200, keys.to_string()));
    let authenticator = authenticator(&fake, &Time::new());
    assert!(bearer(&authenticator, &good.token(&claims())).await.is_ok());
    assert!(
        bearer(&authenticator, &rsa.token(&claims())).await.is_ok(),
        "an RSA key without `alg` is for RS256"
    );
    for kid in
        ["for-encryption", "for-wrapping", "another-alg", "private", "twice", "short", "secret", "unheard-of"]
    {
        let token = good.token_with(&json!({"alg": "ES256", "kid": kid}), &claims());
        assert!(is_unknown(&bearer(&authenticator, &token).await), "{kid}");
    }
}
