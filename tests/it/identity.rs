//! The caller as evidence records it, and answers when no caller can be authenticated.

use crate::harness::bundles::{Site, key, release};
use crate::harness::http::Call;
use crate::harness::modes::{Credentials, Deployment, ISSUER, Mode, PROXY, claims, settings, test_caller};
use crate::harness::process::Process;
use crate::harness::samples::{payment, with};
use crate::harness::world::World;
use gateway_auth::testing::{Behaviour, FakeProvider, Issuer, Signer};
use gateway_domain::binding::CredentialDigest;
use serde_json::{Value, json};

const CERTIFICATE: &str = "abababababababababababababababababababababababababababababababab";

fn own(body: Value, more: &Value) -> Value {
    let mut client = json!({ "client_id": "desk", "subject_id": "carol", "roles": [], "scopes": [] });
    client.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    with(body, "/client", client)
}

/// The caller in the first event, with all fields disclosed.
async fn submitter(world: &World, operation: &Value) -> gateway_domain::binding::ClientBinding {
    let id = operation["operation_id"].as_str().unwrap().parse().unwrap();
    let record =
        gateway_engine::ports::ReadOperations::operation_load(&*world.store, id).await.unwrap().unwrap();
    record.operation.submitter
}

fn is_of(digest: &Option<CredentialDigest>, credential: &str) -> bool {
    digest.as_ref().is_some_and(|digest| digest.is_of(credential))
}

#[tokio::test]
async fn evidence_records_the_credentials_of_the_caller() {
    let sign = "/v1/operations/sign";
    for mode in [Mode::Jwks, Mode::Introspection] {
        let deployment = Deployment::start(mode).await;
        let caller = test_caller("carol", "operations.sign");
        for (name, more) in
            [("silent", json!({})), ("agreeing", json!({"token_jti": "jti-5c1e", "roles": ["operator"]}))]
        {
            let submitted = deployment.call_as(caller, "POST", sign, &own(payment(name), &more)).await.ok();
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
            ("cert_sha256", json!(CERTIFICATE)),
            ("client_id", json!("another")),
            ("subject_id", json!("another")),
            ("tenant", json!("another")),
            ("roles", json!(["admin"])),
            ("scopes", json!(["operations.read"])),
        ] {
            let body = own(payment("posing"), &json!({ member: other }));
            let message =
                deployment.call_as(caller, "POST", sign, &body).await.fails(403, "client_binding_mismatch");
            assert!(message.contains(&format!("`client.{member}`")), "{message}");
        }
    }
    let deployment = Deployment::start(Mode::TrustedHeaders).await;
    let mut with_certificate = deployment.credentials(test_caller("carol", "operations.sign"));
    with_certificate.headers.push(("x-client-cert-sha256", CERTIFICATE.to_uppercase().into()));
    let body = own(payment("certified"), &json!({ "cert_sha256": CERTIFICATE }));
    let submitted = deployment.call(&with_certificate, "POST", sign, &body).await.ok();
    assert!(is_of(&submitter(&deployment.world, &submitted["operation"]).await.cert_sha256, CERTIFICATE));
    let without = deployment.credentials(test_caller("carol", "operations.sign"));
    deployment.call(&without, "POST", sign, &body).await.fails(403, "client_binding_mismatch");
}

#[tokio::test]
async fn provider_outage_rejects_unknown_tokens_with_503() {
    let deployment = Deployment::start(Mode::Jwks).await;
    let known = deployment.credentials(test_caller("alice", "audit.read"));
    let unknown = Signer::new("ES256", "k2").token(&claims(test_caller("alice", "audit.read")));
    let unknown = deployment.bearer(&unknown);
    deployment.call(&unknown, "GET", "/v1/log/key", &Value::Null).await.fails(401, "invalid_token");
    assert_eq!(deployment.world.get("/readyz").await.ok()["checks"]["authentication"]["status"], "ok");
    let answer = deployment.call(&known, "GET", "/v1/log/key", &Value::Null).await;
    assert_eq!(answer.status.as_u16(), 200);

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

/// The real process, in production: it starts while its provider is down, and identity headers count only in the one mode in
/// which they come from a proxy.
#[test]
fn production_gateway_starts_in_every_authenticated_mode_without_its_provider() {
    for mode in [Mode::TrustedHeaders, Mode::Jwks, Mode::Introspection] {
        let site = Site::new();
        site.offer(&release(1_000, &key(1)));
        // Production does not create keys; a development start does it here in place of an operator.
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
                log.contains(&format!("production runs without a protection\",\"exception\":\"{exception}")),
                "{log}"
            );
            assert!(readiness.contains(&format!("\"{exception}\"")), "{readiness}");
        }
        for secret in ["s3cret", "czNjcmV0", &token] {
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
fn sighup_reloads_the_jwks_file() {
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
    process.wait_for_line("the issuer's keys were read again");
    key(&process, &withdrawn).fails(401, "invalid_token");
    key(&process, &current).ok();
    std::fs::write(&file, "{").unwrap();
    process.sighup();
    process.wait_for_line("the issuer's keys could not be read again");
    key(&process, &current).ok();
}
