//! Authentication of callers, end to end: what is recorded about them, outages of the provider, metrics, starts, reloads.

use crate::harness::bundles::{Site, key, release};
use crate::harness::http::Call;
use crate::harness::modes::{Credentials, Deployment, ISSUER, Mode, PROXY, claims, settings, test_caller};
use crate::harness::process::Process;
use crate::harness::samples::{approval, path, payment, with};
use crate::harness::world::World;
use gateway_auth::testing::{Behaviour, FakeProvider, Issuer, Signer};
use gateway_domain::binding::CredentialDigest;
use gateway_domain::intent::Intent;
use gateway_domain::policy::Moment;
use serde_json::{Value, json};

const CERT_SHA256: &str = "abababababababababababababababababababababababababababababababab";

/// The body with Carol as its `client`, and further members of `client`.
fn with_client(body: Value, extra: &Value) -> Value {
    let mut client = json!({ "client_id": "desk", "subject_id": "carol", "roles": [], "scopes": [] });
    client.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    with(body, "/client", client)
}

/// The submitter that is stored with the operation.
async fn submitter(world: &World, operation: &Value) -> gateway_domain::binding::ClientBinding {
    let id = operation["operation_id"].as_str().unwrap().parse().unwrap();
    let record =
        gateway_engine::ports::ReadOperations::operation_load(&*world.store, id).await.unwrap().unwrap();
    record.operation.submitter.clone()
}

fn is_of(digest: &Option<CredentialDigest>, credential: &str) -> bool {
    digest.as_ref().is_some_and(|digest| digest.is_of(credential))
}

#[tokio::test]
async fn operation_records_the_authenticated_caller_and_a_mismatching_client_is_refused() {
    let sign = "/v1/operations/sign";
    for mode in [Mode::Jwks, Mode::Introspection] {
        let deployment = Deployment::start(mode).await;
        let caller = test_caller("carol", "operations.sign");
        for (name, extra) in
            [("minimal", json!({})), ("matching", json!({"token_jti": "jti-5c1e", "roles": ["operator"]}))]
        {
            let submitted =
                deployment.call_as(caller, "POST", sign, &with_client(payment(name), &extra)).await.ok();
            let submitter = submitter(&deployment.world, &submitted["operation"]).await;
            assert!(is_of(&submitter.token_jti, "jti-5c1e") && submitter.cert_sha256.is_none());
            assert_eq!(
                submitter.roles,
                ["approver", "operator"],
                "the authenticated roles, not those of the body"
            );
            assert_eq!(submitter.scopes, ["operations.sign"]);
        }
        for (member, other) in [
            ("token_jti", json!("another")),
            ("cert_sha256", json!(CERT_SHA256)),
            ("client_id", json!("another")),
            ("subject_id", json!("another")),
            ("tenant", json!("another")),
            ("roles", json!(["admin"])),
            ("scopes", json!(["operations.read"])),
        ] {
            let body = with_client(payment("mismatch"), &json!({ member: other }));
            let message =
                deployment.call_as(caller, "POST", sign, &body).await.fails(403, "client_binding_mismatch");
            assert!(message.contains(&format!("`client.{member}`")), "{message}");
        }
    }
    let deployment = Deployment::start(Mode::TrustedHeaders).await;
    let mut with_certificate = deployment.credentials(test_caller("carol", "operations.sign"));
    with_certificate.headers.push(("x-client-cert-sha256", CERT_SHA256.to_uppercase().into()));
    let body = with_client(payment("certified"), &json!({ "cert_sha256": CERT_SHA256 }));
    let submitted = deployment.call(&with_certificate, "POST", sign, &body).await.ok();
    assert!(is_of(&submitter(&deployment.world, &submitted["operation"]).await.cert_sha256, CERT_SHA256));
    let without = deployment.credentials(test_caller("carol", "operations.sign"));
    deployment.call(&without, "POST", sign, &body).await.fails(403, "client_binding_mismatch");
}

/// A claim is the gateway's word to a node, so it is stated only while nothing follows from it but a refusal.
#[tokio::test]
async fn claims_that_policies_may_read_are_facts_of_submissions_and_previews_only() {
    let sign = "/v1/operations/sign";
    for mode in [Mode::Jwks, Mode::Introspection] {
        let named = [("token_fact_claims", "department=/org/department")];
        let deployment = Deployment::ticking_with(mode, &named).await;
        let departments = || {
            let evaluations = std::mem::take(&mut *deployment.world.evaluations.lock().unwrap());
            let of_payments = evaluations.into_iter().filter(|one| matches!(one.intent, Intent::Payment(_)));
            of_payments.map(|one| (one.moment, one.department)).collect::<Vec<_>>()
        };
        let of = |department: Value| {
            let mut claims = claims(test_caller("carol", "operations.sign"));
            claims["org"] = json!({ "department": department });
            deployment.bearer(&deployment.token(&claims))
        };
        let mut states = Vec::new();
        for (reference, department) in
            [("text", json!("treasury")), ("list", json!(["a", 1])), ("none", Value::Null)]
        {
            let body = with_client(payment(reference), &json!({}));
            states
                .push(deployment.call(&of(department), "POST", sign, &body).await.ok()["operation"].clone());
        }
        let submitted = ["treasury", "[\"a\",1]"].map(|text| (Moment::Submit, Some(text.to_owned())));
        assert_eq!(departments(), [&submitted[..], &[(Moment::Submit, None)]].concat());
        let preview = json!({ "intent": with_client(payment("preview"), &json!({})), "approvals": [] });
        deployment.call(&of(json!("treasury")), "POST", "/v1/policy/preview", &preview).await.ok();
        assert_eq!(departments(), [(Moment::Preview, Some("treasury".to_owned()))]);
        for subject in ["alice", "bob"] {
            let mut claims = claims(test_caller(subject, "operations.approve"));
            claims["org"] = json!({ "department": "security" });
            let approver = deployment.bearer(&deployment.token(&claims));
            let approve = path(&states[0], "/approve");
            deployment.call(&approver, "POST", &approve, &approval(subject)).await.ok();
        }
        let later = [Moment::Approval, Moment::Approval, Moment::Admission].map(|moment| (moment, None));
        assert_eq!(departments(), later, "nodes and authorities could not check it");
        let too_long = of(json!("x".repeat(1025)));
        let body = with_client(payment("long"), &json!({}));
        let refused = deployment.call(&too_long, "POST", sign, &body).await;
        assert!(refused.fails(401, "invalid_token").contains("`token_fact_claims`"));
    }
}

#[tokio::test]
async fn token_of_an_unknown_signing_key_is_401() {
    let deployment = Deployment::start(Mode::Jwks).await;
    let known = deployment.credentials(test_caller("alice", "audit.read"));
    let unknown = Signer::new("ES256", "k2").token(&claims(test_caller("alice", "audit.read")));
    let unknown = deployment.bearer(&unknown);
    deployment.call(&unknown, "GET", "/v1/log/key", &Value::Null).await.fails(401, "invalid_token");
    assert_eq!(deployment.world.get("/readyz").await.ok()["checks"]["authentication"]["status"], "ok");
    let answer = deployment.call(&known, "GET", "/v1/log/key", &Value::Null).await;
    assert_eq!(answer.status.as_u16(), 200);
}

#[tokio::test]
async fn introspection_outage_is_503_for_tokens_that_are_not_cached() {
    let deployment = Deployment::start(Mode::Introspection).await;
    let known = deployment.credentials(test_caller("alice", "audit.read"));
    let answer = deployment.call(&known, "GET", "/v1/log/key", &Value::Null).await;
    assert_eq!(answer.status.as_u16(), 200);
    deployment.provider.behave(Behaviour::Answers(200, "<html>".to_owned()));
    let other = deployment.bearer("opaque-other");
    let answer = deployment.call(&other, "GET", "/v1/log/key", &Value::Null).await;
    assert_eq!((answer.header("retry-after"), answer.header("www-authenticate")), ("5", ""));
    let message = answer.fails(503, "authentication_unavailable");
    assert!(!message.contains("opaque-other") && !message.contains("127.0.0.1"), "{message}");
    assert_eq!(deployment.call(&known, "GET", "/v1/log/key", &Value::Null).await.status.as_u16(), 200);
    let ready = deployment.world.get("/readyz").await;
    assert_eq!(
        (ready.status.as_u16(), &ready.json["checks"]["authentication"]["status"]),
        (503, &json!("failed"))
    );
    assert_eq!(deployment.world.get("/healthz").await.status.as_u16(), 200);
}

#[tokio::test]
async fn refusal_metrics_have_no_label_that_a_caller_can_choose() {
    let deployment = Deployment::start(Mode::Jwks).await;
    let forged = Signer::new("ES256", "k1").token(&claims(test_caller("canary-subject", "audit.read")));
    for with in [
        Credentials { headers: Vec::new(), from: PROXY },
        deployment.bearer(&forged),
        deployment.bearer("canary-token"),
        deployment.credentials(test_caller("alice", "operations.read")),
    ] {
        deployment.call(&with, "GET", "/v1/log/key", &Value::Null).await;
    }
    let text = deployment.world.text("/metrics").await;
    for reason in ["credentials_required", "token_signature", "token_malformed", "insufficient_scope"] {
        let line = format!("operation_gateway_callers_refused_total{{reason=\"{reason}\"}} ");
        assert!(text.contains(&line), "`{line}` is not in {text}");
    }
    assert!(!text.contains("canary"));
}

/// The real process, in production: it starts while its provider is down, and accepts identity headers only in the mode
/// `trusted-headers`.
#[test]
fn production_gateway_starts_in_every_authenticated_mode_without_its_provider() {
    for mode in [Mode::TrustedHeaders, Mode::Jwks, Mode::Introspection] {
        let site = Site::new();
        site.offer(&release(1_000, &key(1)));
        // The production profile does not generate keys; a start in development generates them here.
        assert!(site.start(0, None).terminate().0.success());
        let issuer = Issuer::with_one("k1");
        let provider = FakeProvider::start(Behaviour::HangsUp);
        let given = settings(mode, &provider, &site.path("."));
        let given: Vec<_> = given.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let exceptions = "unsigned_approvals,embedded_nodes,embedded_authority";
        let production = [
            ("profile", "production"),
            ("log_origin", "operation-gateway.local/log"),
            ("log", "trace"),
            ("production_exceptions", exceptions),
        ];
        let process = site.start_with(&[&production[..], &given].concat(), None);
        let readiness = crate::harness::process::text(&process.address, "/readyz");
        assert_eq!(status(&process, &[]), 401, "{mode:?}");
        let identity = [
            ("x-client-id", "desk"),
            ("x-subject-id", "alice"),
            ("x-scopes", "audit.read"),
            ("x-tenant", "acme"),
        ];
        assert_eq!(status(&process, &identity[..3]), 401, "{mode:?}: without a tenant");
        let token = issuer.token(&claims(test_caller("alice", "audit.read")));
        let with_headers = status(&process, &identity);
        let with_token = status(&process, &[("authorization", &format!("Bearer {token}"))]);
        let (headers, tokens) = match mode {
            // 127.0.0.1 is a trusted proxy here.
            Mode::TrustedHeaders => (200, 401),
            Mode::Bypass | Mode::Jwks | Mode::Introspection => (401, 503),
        };
        assert_eq!(with_headers, headers, "{mode:?}");
        assert_eq!(with_token, tokens, "{mode:?}");
        let (exit, log) = process.terminate();
        assert!(exit.success());
        let log = log.join("\n");
        assert!(log.contains("caller refused"));
        for exception in exceptions.split(',') {
            assert!(
                log.contains(&format!("a production safeguard is disabled\",\"exception\":\"{exception}")),
                "{log}"
            );
            assert!(readiness.contains(&format!("\"{exception}\"")), "{readiness}");
        }
        // The client credentials as sent to the provider: base64 of `gateway:s3cret`, without the padding.
        let basic = "Z2F0ZXdheTpzM2NyZXQ";
        for secret in ["s3cret", basic, &token] {
            assert!(!log.contains(secret), "{mode:?}: `{secret}` is in the log");
        }
    }
}

fn status(process: &Process, headers: &[(&str, &str)]) -> u16 {
    let call = Call::get("/v1/log/key");
    let call = headers.iter().fold(call, |call, (name, value)| call.header(name, value));
    call.send(&process.address).unwrap().status
}

#[test]
fn sighup_reloads_the_jwks_file_and_keeps_the_old_keys_if_it_is_invalid() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    let (withdrawn, current) = (Issuer::with_one("k1"), Issuer::with_one("k2"));
    std::fs::write(&file, withdrawn.jwks().to_string()).unwrap();
    let given = [
        ("auth_mode", "jwks"),
        ("jwks_file", file.to_str().unwrap()),
        ("token_issuer", ISSUER),
        ("token_audience", "gateway"),
    ];
    let mut process = Process::start(folder.path(), None, &given);
    let key = |process: &Process, issuer: &Issuer| {
        let call =
            Call::get("/v1/log/key").bearer(&issuer.token(&claims(test_caller("alice", "audit.read"))));
        call.send(&process.address).unwrap()
    };
    key(&process, &withdrawn).ok();
    std::fs::write(&file, current.jwks().to_string()).unwrap();
    process.sighup();
    process.wait_for_line("reloaded the issuer's keys");
    key(&process, &withdrawn).fails(401, "invalid_token");
    key(&process, &current).ok();
    std::fs::write(&file, "{").unwrap();
    process.sighup();
    process.wait_for_line("could not reload the issuer's keys");
    key(&process, &current).ok();
}
