//! A gateway in each of the four authentication modes, with credentials for each mode.

use super::secrets::write_private;
use super::world::{Answer, World};
use axum::body::Body;
use axum::http::{HeaderValue, Request};
use gateway_auth::testing::{Behaviour, FakeProvider, Issuer, Signer};
use gateway_service::transport::Peer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// The address of the trusted proxy.
pub(crate) const PROXY: &str = "10.0.0.1";

/// An address that is not a trusted proxy's.
pub(crate) const UNTRUSTED_ADDRESS: &str = "192.0.2.66";

pub(crate) const ISSUER: &str = "https://issuer.example";

pub(crate) const MODES: [Mode; 4] = [Mode::Bypass, Mode::TrustedHeaders, Mode::Jwks, Mode::Introspection];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Bypass,
    TrustedHeaders,
    Jwks,
    Introspection,
}

/// The identity of a caller. `roles` and `scopes` are separated by spaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestCaller<'a> {
    pub(crate) client: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) roles: &'a str,
    pub(crate) scopes: &'a str,
    pub(crate) tenant: Option<&'a str>,
}

/// The headers of a request and the address that it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    pub(crate) headers: Vec<(&'static str, Vec<u8>)>,
    pub(crate) from: &'static str,
}

/// A gateway in one mode, with the identity provider of that mode.
pub(crate) struct Deployment {
    pub(crate) world: World,
    pub(crate) mode: Mode,
    pub(crate) issuer: Issuer,
    pub(crate) provider: FakeProvider,
    /// Tokens that introspection knows, with its answers.
    introspected: Mutex<BTreeMap<String, String>>,
}

/// A caller without a tenant, in the roles `approver` and `operator`.
pub(crate) fn test_caller<'a>(subject: &'a str, scopes: &'a str) -> TestCaller<'a> {
    TestCaller { client: "desk", subject, roles: "approver operator", scopes, tenant: None }
}

/// The settings of a mode. Writes the client secret for introspection into `folder`.
pub(crate) fn settings(mode: Mode, provider: &FakeProvider, folder: &Path) -> Vec<(&'static str, String)> {
    let secret = folder.join("client-secret");
    match mode {
        Mode::Bypass => Vec::new(),
        Mode::TrustedHeaders => {
            vec![("auth_mode", "trusted_headers".into()), ("trusted_proxies", format!("{PROXY},127.0.0.1"))]
        }
        Mode::Jwks => vec![
            ("auth_mode", "jwks".into()),
            ("jwks_url", provider.url()),
            ("token_issuer", ISSUER.into()),
            ("token_audience", "gateway".into()),
        ],
        Mode::Introspection => {
            write_private(&secret, "s3cret\n");
            vec![
                ("auth_mode", "introspection".into()),
                ("introspection_url", provider.url()),
                ("introspection_client_id", "gateway".into()),
                ("introspection_client_secret_file", secret.to_str().unwrap().into()),
                ("token_issuer", ISSUER.into()),
                ("token_audience", "gateway".into()),
            ]
        }
    }
}

/// The current Unix time in seconds.
pub(crate) fn now_s() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "tokens are for the real gateway's clock")]
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Deployment {
    pub(crate) async fn start(mode: Mode) -> Self {
        Self::with(mode, &[]).await
    }

    pub(crate) async fn with(mode: Mode, overrides: &[(&str, &str)]) -> Self {
        Self::of(mode, overrides, false).await
    }

    /// In a world that is ticking, which records evaluations.
    pub(crate) async fn ticking_with(mode: Mode, overrides: &[(&str, &str)]) -> Self {
        Self::of(mode, overrides, true).await
    }

    async fn of(mode: Mode, overrides: &[(&str, &str)], is_ticking: bool) -> Self {
        let issuer = Issuer::with_one("k1");
        let provider = FakeProvider::start(match mode {
            Mode::Introspection => Behaviour::Introspects(BTreeMap::new()),
            Mode::Bypass | Mode::TrustedHeaders | Mode::Jwks => {
                Behaviour::Answers(200, issuer.jwks().to_string())
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(mode, &provider, folder.path());
        let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let overrides = [&settings[..], overrides].concat();
        let world =
            if is_ticking { World::ticking_with(&overrides).await } else { World::with(&overrides).await };
        Self { world, mode, issuer, provider, introspected: Mutex::default() }
    }

    /// The credentials with which this caller is authenticated.
    pub(crate) fn credentials(&self, caller: TestCaller<'_>) -> Credentials {
        match self.mode {
            Mode::Bypass | Mode::TrustedHeaders => {
                Credentials { headers: in_bytes(&caller.headers()), from: PROXY }
            }
            Mode::Jwks | Mode::Introspection => self.bearer(&self.token(&claims(caller))),
        }
    }

    /// A valid token with these claims. Call it only in the modes that use tokens.
    pub(crate) fn token(&self, claims: &Value) -> String {
        if self.mode == Mode::Jwks {
            return self.issuer.token(claims);
        }
        let mut answer = claims.clone();
        answer["active"] = json!(true);
        let mut introspected = self.introspected.lock().unwrap();
        let token = format!("opaque-{}", introspected.len());
        introspected.insert(token.clone(), answer.to_string());
        self.provider.behave(Behaviour::Introspects(introspected.clone()));
        token
    }

    pub(crate) fn bearer(&self, token: &str) -> Credentials {
        Credentials {
            headers: vec![("authorization", format!("Bearer {token}").into_bytes())],
            from: UNTRUSTED_ADDRESS,
        }
    }

    /// Requests without credentials, from the proxy and from another address.
    pub(crate) fn no_credentials(&self) -> Vec<Credentials> {
        [PROXY, UNTRUSTED_ADDRESS].map(|from| Credentials { headers: Vec::new(), from }).into()
    }

    /// Credentials that are invalid in this mode, each for another reason.
    pub(crate) fn invalid(&self) -> Vec<Credentials> {
        let all = TestCaller {
            tenant: Some("acme"),
            ..test_caller("mallory", "operations.* custody.* audit.read")
        };
        let mut invalid = Vec::new();
        let headers = in_bytes(&all.headers());
        let without_subject: Vec<_> =
            headers.iter().filter(|(name, _)| *name != "x-subject-id").cloned().collect();
        match self.mode {
            Mode::Bypass => invalid.push(Credentials { headers: without_subject, from: UNTRUSTED_ADDRESS }),
            Mode::TrustedHeaders => {
                invalid.push(Credentials { headers: without_subject, from: PROXY });
                invalid.push(Credentials { headers, from: UNTRUSTED_ADDRESS });
                invalid.push(Credentials { from: PROXY, ..self.bearer(&self.issuer.token(&claims(all))) });
            }
            Mode::Jwks | Mode::Introspection => {
                invalid.push(Credentials { headers, from: PROXY });
                invalid.push(self.bearer("nonsense"));
                invalid.push(self.bearer(&Signer::new("ES256", "k1").token(&claims(all))));
                let mut expired = claims(all);
                expired["exp"] = json!(now_s() - 120);
                invalid.push(self.bearer(&self.token(&expired)));
                let basic = ("authorization", b"Basic YTpi".to_vec());
                invalid.push(Credentials { headers: vec![basic], from: UNTRUSTED_ADDRESS });
            }
        }
        invalid
    }

    /// Sends a request with these credentials; no body if it is null.
    pub(crate) async fn call(&self, with: &Credentials, method: &str, path: &str, body: &Value) -> Answer {
        self.world.send(request(with, method, path, body)).await
    }

    /// Sends a request as this caller; no body if it is null.
    pub(crate) async fn call_as(
        &self,
        caller: TestCaller<'_>,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        self.call(&self.credentials(caller), method, path, body).await
    }
}

/// A request with these credentials; without a body if it is null.
pub(crate) fn request(with: &Credentials, method: &str, path: &str, body: &Value) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in &with.headers {
        request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
    }
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let mut request = request.body(body).unwrap();
    let peer = Peer { address: with.from.parse().unwrap(), certificate_sha256: None };
    request.extensions_mut().insert(peer);
    request.headers_mut().entry("host").or_insert(HeaderValue::from_static("gateway"));
    request
}

impl<'a> TestCaller<'a> {
    /// The identity headers that a trusted proxy would send for this caller.
    pub(crate) fn headers(self) -> Vec<(&'static str, &'a str)> {
        let mut headers = vec![
            ("x-client-id", self.client),
            ("x-subject-id", self.subject),
            ("x-roles", self.roles),
            ("x-scopes", self.scopes),
        ];
        headers.extend(self.tenant.map(|tenant| ("x-tenant", tenant)));
        headers
    }
}

fn in_bytes(headers: &[(&'static str, &str)]) -> Vec<(&'static str, Vec<u8>)> {
    headers.iter().map(|(name, value)| (*name, value.as_bytes().to_vec())).collect()
}

/// The claims of a token for this caller, valid for an hour.
pub(crate) fn claims(caller: TestCaller<'_>) -> Value {
    let mut claims = json!({
        "iss": ISSUER,
        "aud": "gateway",
        "client_id": caller.client,
        "sub": caller.subject,
        "roles": caller.roles.split(' ').collect::<Vec<_>>(),
        "scope": caller.scopes,
        "jti": "jti-5c1e",
        "exp": now_s() + 3600,
    });
    if let Some(tenant) = caller.tenant {
        claims["tenant"] = json!(tenant);
    }
    claims
}
