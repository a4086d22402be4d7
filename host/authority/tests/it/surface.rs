//! The authority's endpoints over their router, in process: the bundle, then the decision.

use crate::asked::chain;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
use gateway_domain::admission::{self, Authorities};
use gateway_domain::approval::SigningRule;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::ids::{KeyRef, Tenant};
use gateway_domain::intent::{PublicationMode, key_id};
use gateway_domain::operation::{KeySlot, Submission, open, replay};
use gateway_domain::policy::facts::{Rules, facts_for};
use gateway_domain::policy::{Moment, Recorded};
use gateway_domain::testing::samples::{Kind, intent, submission};
use gateway_domain::time::EpochMs;
use gateway_policy::testing::{committed, committed_trust, engine, key, signed, verify};
use gateway_policy::{BundleFiles, BundleOffer, Evaluator, OfferBundleRequest, Pins, Trust};
use gateway_service::quota::{QuotaLimits, Quotas};
use gateway_service::transport::Caller;
use http_body_util::BodyExt;
use hyper::body::Frame;
use policy_authority::routes;
use policy_authority::{Authority, DecisionAnswer, DecisionRequest, Policies, Record, Verifier};
use serde::Serialize;
use serde_json::Value;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::ServiceExt;

const TTL_MS: u64 = 60_000;

fn authority() -> Authority {
    Authority::new(&[1; 32])
}

/// Development's rules for the creation of a key.
fn rules() -> Rules {
    Rules { permitted_recipients: "*".into(), required_approvals: 0, separation_of_duties: false }
}

const CALLERS: [&str; 2] = ["one.localhost", "two.localhost"];

fn router(requests_max: usize) -> Router {
    let trust = Trust::new(true);
    trust.replace(Ok(&serde_json::to_vec(&committed_trust()).unwrap()), Pins::default()).unwrap();
    let verifier = Verifier {
        signed_approvals: SigningRule::Off,
        rules: rules(),
        keys_without_approvals: true,
        decision_ttl_max_ms: TTL_MS,
        policies: Policies::new(trust, Arc::default()),
        record: Record::in_memory(),
        authorities: Authorities::new([authority().public_key()], 1).unwrap(),
    };
    let limits = QuotaLimits { requests_max, per_second: 1000, burst: 1000 };
    let quotas = Quotas::new(CALLERS.map(Arc::from), limits);
    routes::router(Arc::new(authority()), Arc::new(verifier), Arc::new(quotas))
}

/// The request of an honest gateway.
fn request(now: EpochMs) -> DecisionRequest {
    let (tenant, key_ref) = (Tenant("default".into()), KeyRef("treasury".into()));
    let slot = KeySlot { key_id: key_id(&tenant, &key_ref).unwrap(), key_ref };
    let created = Submission { key: slot, ..submission(intent(Kind::KeyCreate, PublicationMode::Manual), 0) };
    let events = open(created, now);
    let operation = replay(&events).unwrap();
    let bundle = verify(committed(), &committed_trust()).unwrap();
    let evaluator = Evaluator::load(&engine(), &bundle).unwrap();
    let asked = operation.request(Moment::Admission, &operation.approvals);
    let facts = facts_for(&rules(), None, None, None, now);
    let outcome = evaluator.evaluate(&asked, &facts, evaluator.fuel_max());
    DecisionRequest {
        events: chain(events),
        bundle_hash: outcome.bundle_hash,
        policy: Recorded::from(&outcome),
        key: None,
        derivation: None,
        not_before_ms: EpochMs(now.0 - CLOCK_SKEW_MS),
        not_after_ms: now.plus_ms(TTL_MS),
    }
}

async fn post(router: &Router, path: &str, body: &impl Serialize) -> (u16, Value) {
    send(router, CALLERS[0], path, Body::from(serde_json::to_vec(body).unwrap())).await
}

async fn send(router: &Router, caller: &str, path: &str, body: Body) -> (u16, Value) {
    let request = Request::post(path).header("content-type", "application/json");
    let mut request = request.body(body).unwrap();
    request.extensions_mut().insert(Caller(caller.into()));
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap())
}

fn offer(files: BundleFiles) -> OfferBundleRequest {
    OfferBundleRequest::from(&BundleOffer { files, activation: None })
}

const DECISIONS: &str = "/v1/authority/decisions";
const BUNDLES: &str = "/v1/authority/bundles";

#[tokio::test]
async fn authority_asks_for_the_bundle_and_decides_once_it_has_verified_it() {
    let router = router(8);
    let request = request(gateway_service::now());
    let (status, refused) = post(&router, DECISIONS, &request).await;
    let expected = (409, "bundle_unknown".into(), request.bundle_hash.to_string().into());
    assert_eq!((status, refused["error"].clone(), refused["message"].clone()), expected);
    let (status, refused) = post(&router, BUNDLES, &offer(signed(&committed(), &[&key(66)], |_| {}))).await;
    assert_eq!((status, refused["error"].as_str()), (403, Some("policy_refused")), "{refused}");
    let mut malformed = offer(committed());
    malformed.activation = Some("?".into());
    let (status, refused) = post(&router, BUNDLES, &malformed).await;
    assert_eq!((status, refused["error"].as_str()), (400, Some("invalid_json")), "{refused}");
    assert_eq!(post(&router, BUNDLES, &offer(committed())).await, (200, serde_json::json!({})));
    let mut other_fuel = request.clone();
    other_fuel.policy.fuel_used += 1;
    let (status, refused) = post(&router, DECISIONS, &other_fuel).await;
    assert_eq!((status, refused["error"].as_str()), (403, Some("decision_disputed")), "{refused}");
    let (status, answer) = post(&router, DECISIONS, &request).await;
    assert_eq!(status, 200, "{answer}");
    let DecisionAnswer { decision } = serde_json::from_value(answer).unwrap();
    let pinned = Authorities::new([authority().public_key()], 1).unwrap();
    let read = admission::verify(&decision, &pinned, gateway_service::now()).unwrap();
    assert_eq!(read.decision.bundle_hash, request.bundle_hash);
}

/// A body that never comes.
struct Pending;

impl HttpBody for Pending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

/// The clock stands still while the others run, so that a slow body is not given up.
#[tokio::test(start_paused = true)]
async fn bundles_that_one_caller_sends_slowly_keep_no_other_waiting() {
    let router = router(100);
    let mut slow = JoinSet::new();
    for _ in 0..50 {
        let router = router.clone();
        slow.spawn(async move { send(&router, CALLERS[0], BUNDLES, Body::new(Pending)).await.0 });
    }
    // The paused clock: a second passes once all of them wait.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let body = Body::from(serde_json::to_vec(&offer(committed())).unwrap());
    let started = Instant::now();
    assert_eq!(send(&router, CALLERS[1], BUNDLES, body).await, (200, serde_json::json!({})));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(slow.join_all().await.into_iter().all(|status| [408, 503].contains(&status)));
}

#[tokio::test]
async fn caller_beyond_its_quota_gets_429_from_every_endpoint() {
    let busy = router(0);
    for path in [DECISIONS, BUNDLES] {
        assert_eq!(post(&busy, path, &Value::Null).await.0, 429, "{path}");
    }
}
