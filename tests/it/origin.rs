//! Requests that a browser may have sent for a page of another site are refused.

use crate::harness::http::Call;
use crate::harness::modes::PROXY;
use crate::harness::process::{Process, SIGN, text};
use crate::harness::samples::payment;
use crate::harness::world::{Answer, World};
use axum::body::Body;
use axum::http::Request;
use gateway_api::ROUTES;
use gateway_service::transport::Peer;
use serde_json::Value;

const ALLOWED: (&str, &str) = ("allowed_origins", "https://console.example, http://ui.example:3000");

/// In which modes a request with such headers is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepted {
    Always,
    /// In all modes except the bypass.
    Authenticated,
    Never,
}

use Accepted::{Always, Authenticated, Never};

type Headers = &'static [(&'static str, &'static str)];

#[rustfmt::skip]
/// What sends the request, whether it is accepted, and its headers.
const CASES: &[(&str, Accepted, Headers)] = &[
    ("no browser", Always, &[("host", "gateway.example")]),
    ("no browser, and HTTP/1.0", Always, &[]),
    ("node.js", Always, &[("host", "gateway.example"), ("accept-language", "*"), ("sec-fetch-mode", "cors")]),
    ("typed into the address bar", Always, &[("host", "localhost:9200"), ("sec-fetch-site", "none")]),
    ("own page", Always, &[("host", "localhost:9200"), ("sec-fetch-site", "same-origin"), ("origin", "http://localhost:9200")]),
    ("own page at 127.0.0.1", Always, &[("host", "127.0.0.1:9200"), ("origin", "http://127.0.0.1:9200")]),
    ("own page at ::1", Always, &[("host", "[::1]:9200"), ("origin", "http://[::1]:9200")]),
    ("own page, the host in capitals", Always, &[("host", "LOCALHOST:9200"), ("origin", "http://localhost:9200")]),
    ("own page, GET", Always, &[("host", "localhost"), ("sec-fetch-site", "same-origin")]),
    ("own page behind a proxy with TLS", Authenticated, &[("host", "gateway.example"), ("sec-fetch-site", "same-origin"), ("origin", "https://gateway.example")]),
    ("own page behind a proxy with TLS, with the port stated", Authenticated, &[("host", "gateway.example:443"), ("origin", "https://gateway.example")]),
    ("own page, GET, of a name that is not loopback", Authenticated, &[("host", "gateway.example"), ("sec-fetch-site", "same-origin")]),
    ("own page, old browser, GET over HTTP (DNS rebinding)", Authenticated, &[("host", "rebound.example:9200"), ("accept-language", "de")]),
    ("own page, GET over HTTP, the language emptied", Authenticated, &[("host", "rebound.example:9200"), ("accept-language", "")]),
    ("own page, POST (DNS rebinding)", Authenticated, &[("host", "rebound.example:9200"), ("origin", "http://rebound.example:9200")]),
    ("a name that begins like loopback", Authenticated, &[("host", "127.0.0.1.rebound.example"), ("sec-fetch-site", "same-origin")]),
    ("a name that begins like localhost", Authenticated, &[("host", "localhost.rebound.example"), ("sec-fetch-site", "same-origin")]),
    ("the address of every interface", Authenticated, &[("host", "0.0.0.0:9200"), ("sec-fetch-site", "same-origin")]),
    ("an allowed page", Always, &[("host", "localhost:9200"), ("sec-fetch-site", "cross-site"), ("origin", "https://console.example")]),
    ("an allowed page, with the port stated", Always, &[("host", "localhost:9200"), ("sec-fetch-site", "same-site"), ("origin", "https://console.example:443")]),
    ("an allowed page with a port", Always, &[("host", "localhost:9200"), ("origin", "http://ui.example:3000")]),
    ("an allowed origin's host is configured", Always, &[("host", "console.example"), ("sec-fetch-site", "same-origin"), ("origin", "https://console.example")]),
    ("an allowed origin's host is configured, GET", Always, &[("host", "ui.example:3000"), ("accept-language", "de")]),
    ("an allowed origin's host, another port", Authenticated, &[("host", "ui.example:3001"), ("sec-fetch-site", "same-origin")]),
    ("an allowed page behind a proxy that changes the host", Authenticated, &[("host", "gateway:9200"), ("sec-fetch-site", "same-origin"), ("origin", "https://console.example")]),
    ("an allowed host with another scheme", Never, &[("host", "localhost:9200"), ("origin", "http://console.example")]),
    ("an allowed host with another port", Never, &[("host", "localhost:9200"), ("origin", "https://console.example:8443")]),
    ("a page below an allowed host", Never, &[("host", "localhost:9200"), ("origin", "https://x.console.example")]),
    ("a page of another site", Never, &[("host", "localhost:9200"), ("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")]),
    ("a page of another site, old browser", Never, &[("host", "localhost:9200"), ("origin", "https://evil.example")]),
    ("a page of another site, GET", Never, &[("host", "localhost:9200"), ("sec-fetch-site", "cross-site")]),
    ("a page of a sibling", Never, &[("host", "gateway.example"), ("sec-fetch-site", "same-site"), ("origin", "https://blog.example")]),
    ("a page of another port", Never, &[("host", "localhost:9200"), ("sec-fetch-site", "same-site"), ("origin", "http://localhost:8080")]),
    ("a page of another port, old browser", Never, &[("host", "localhost:9200"), ("origin", "http://localhost:8080")]),
    ("a page of the same host without TLS", Never, &[("host", "gateway.example"), ("sec-fetch-site", "cross-site"), ("origin", "http://gateway.example")]),
    ("another default port than the scheme's", Never, &[("host", "gateway.example:80"), ("origin", "https://gateway.example")]),
    ("a page of no origin", Never, &[("host", "localhost:9200"), ("origin", "null")]),
    ("a page of no origin, same site", Never, &[("host", "localhost:9200"), ("sec-fetch-site", "same-origin"), ("origin", "null")]),
    ("an extension", Never, &[("host", "localhost:9200"), ("origin", "chrome-extension://localhost:9200")]),
    ("a file", Never, &[("host", "localhost:9200"), ("origin", "file://")]),
    ("an unknown word", Never, &[("host", "localhost:9200"), ("sec-fetch-site", "same-planet")]),
    ("an empty word", Never, &[("host", "localhost:9200"), ("sec-fetch-site", "")]),
    ("a word in capitals", Never, &[("host", "localhost:9200"), ("sec-fetch-site", "None")]),
    ("two words", Never, &[("host", "localhost:9200"), ("sec-fetch-site", "none"), ("sec-fetch-site", "none")]),
    ("an empty origin", Never, &[("host", "localhost:9200"), ("origin", "")]),
    ("two origins", Never, &[("host", "localhost:9200"), ("origin", "http://localhost:9200"), ("origin", "http://localhost:9200")]),
    ("two origins in one", Never, &[("host", "localhost:9200"), ("origin", "http://localhost:9200 https://evil.example")]),
    ("an origin with a path", Never, &[("host", "localhost:9200"), ("origin", "http://localhost:9200/")]),
    ("an origin with a user", Never, &[("host", "localhost:9200"), ("origin", "http://evil@localhost:9200")]),
    ("an origin with no port behind its colon", Never, &[("host", "localhost:80"), ("origin", "http://localhost:")]),
    ("an origin with an invalid port", Never, &[("host", "localhost:80"), ("origin", "http://localhost:65616")]),
    ("an origin without a scheme", Never, &[("host", "localhost:9200"), ("origin", "localhost:9200")]),
    ("a host with a user", Never, &[("host", "evil@localhost:9200"), ("sec-fetch-site", "same-origin")]),
    ("a host with no port behind its colon", Never, &[("host", "localhost:"), ("origin", "http://localhost")]),
    ("an empty host", Never, &[("host", ""), ("sec-fetch-site", "same-origin")]),
];

/// The headers of a page of another site.
const CROSS_SITE: Headers =
    &[("host", "localhost:9200"), ("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
/// The headers of the gateway's own page.
const SAME_ORIGIN: Headers =
    &[("host", "localhost:9200"), ("origin", "http://localhost:9200"), ("sec-fetch-site", "same-origin")];

/// Sends a request with these headers from the trusted proxy's address.
async fn send(world: &World, method: &str, path: &str, headers: Headers, body: String) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let peer = Peer { address: PROXY.parse().unwrap(), certificate_sha256: None };
    world.send(request.extension(peer).body(Body::from(body)).unwrap()).await
}

#[tokio::test]
async fn origin_sec_fetch_site_and_host_decide_which_requests_pass() {
    let bypass = World::with(&[ALLOWED]).await;
    let trusted = World::with(&[ALLOWED, ("auth_mode", "trusted_headers"), ("trusted_proxies", PROXY)]).await;
    for (what, accepted, headers) in CASES {
        for (world, permitted) in [(&bypass, *accepted == Always), (&trusted, *accepted != Never)] {
            let answer = send(world, "GET", "/healthz", headers, String::new()).await;
            if permitted {
                assert_eq!(answer.ok()["status"], "ok", "{what}");
            } else {
                assert_eq!(answer.json["error"], "origin_not_permitted", "{what}: {}", answer.json);
                let message = answer.fails(403, "origin_not_permitted");
                assert!(!message.contains("evil"), "{what}: {message}");
            }
        }
    }
}

#[tokio::test]
async fn cross_site_requests_are_refused_on_every_route_before_authentication() {
    let overrides = [("auth_mode", "trusted_headers"), ("trusted_proxies", "192.0.2.1")];
    let world = World::with(&overrides).await;
    let unknown = [("GET", "/v1/none"), ("DELETE", "/healthz"), ("OPTIONS", SIGN)];
    let known = ROUTES.iter().map(|(method, path, _)| (*method, *path));
    for (method, path) in known.chain(unknown) {
        let path = path.replace("{operationId}", &"0".repeat(64)).replace("{keyRef}", "k");
        let answer = send(&world, method, &path, CROSS_SITE, String::new()).await;
        assert!(!answer.header("x-request-id").is_empty() && answer.header("cache-control") == "no-store");
        answer.fails(403, "origin_not_permitted");
    }
}

#[tokio::test]
async fn cross_site_submission_creates_nothing() {
    let world = World::start().await;
    let body = payment("cross-site").to_string();
    let answer = send(&world, "POST", SIGN, CROSS_SITE, body.clone()).await;
    answer.fails(403, "origin_not_permitted");
    let answer = send(&world, "POST", SIGN, SAME_ORIGIN, body).await;
    assert_eq!(answer.header("idempotency-replayed"), "", "the refused request created it");
    answer.ok();
}

#[test]
fn cross_site_requests_are_refused_and_counted_on_both_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[("admin_bind", "127.0.0.1:0")]);
    let admin = process.admin_address.clone().unwrap();
    let cross_site =
        |call: Call| call.header("origin", "https://evil.example").header("sec-fetch-site", "cross-site");
    let body = payment("cross-site");
    let submission = cross_site(Call::post(SIGN, &body));
    submission.send(&process.address).unwrap().fails(403, "origin_not_permitted");
    for path in ["/healthz", "/readyz", "/metrics"] {
        cross_site(Call::get(path)).send(&admin).unwrap().fails(403, "origin_not_permitted");
    }
    // The host of these requests is `gateway`, which is not loopback: a DNS rebinding.
    let rebound = Call::get("/v1/log/key").header("sec-fetch-site", "same-origin");
    rebound.send(&process.address).unwrap().fails(403, "origin_not_permitted");
    let submitted: Value = Call::post(SIGN, &body).send(&process.address).unwrap().ok();
    assert_eq!(submitted["operation"]["state"], "pending_approval");
    let metrics = text(&admin, "/metrics");
    let counted = "operation_gateway_callers_refused_total{reason=\"origin_not_permitted\"} 5";
    assert!(metrics.contains(counted), "{metrics}");
}

/// A link in a message, or the return from an identity provider, opens the console; nothing else is opened so.
#[tokio::test]
async fn pages_of_other_sites_may_open_the_console_and_nothing_else() {
    let world = World::start().await;
    let opened = |method: &str, path: &str, dest: &str| {
        let request = Request::builder().method(method).uri(path).header("host", "localhost:9200");
        let request = request.header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "navigate");
        world.send(request.header("sec-fetch-dest", dest).body(Body::empty()).unwrap())
    };
    for path in ["/console", "/console/"] {
        let answer = opened("GET", path, "document").await;
        assert!(["200", "308"].contains(&answer.status.as_str()), "{path}: {}", answer.status);
    }
    for (method, path, dest) in [
        ("GET", "/console/", "iframe"),
        ("POST", "/console/", "document"),
        ("GET", "/console/console.js", "document"),
        ("GET", "/v1/operations", "document"),
        ("GET", "/console/../v1/operations", "document"),
    ] {
        assert_eq!(opened(method, path, dest).await.status, 403, "{method} {path} {dest}");
    }
}
