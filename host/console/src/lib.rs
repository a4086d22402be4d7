//! The console at `/console`: static files that are part of the binary. All that the page shows comes from the API, with the reader's own
//! credentials, so this crate knows neither operations nor callers.
//!
//! `page/` has the files, which browsers run as they are; nothing builds them. `page/checks.wasm` is `host/browser`, compiled by
//! `host/console/build.sh`; a test compares the two.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{LazyLock, OnceLock};

/// What the page may do: run its own scripts and WebAssembly, and ask its own gateway. No text becomes markup or script, no other site
/// shows it in a frame.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Headers of every file, besides its type and tag.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::CACHE_CONTROL, "no-cache"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "publickey-credentials-get=(self), publickey-credentials-create=(self)",
    ),
];

/// A file of the page.
struct File {
    content_type: &'static str,
    bytes: &'static [u8],
    /// The beginning of its SHA-256, in quotes.
    tag: HeaderValue,
    /// Compressed when it is first asked for so.
    compressed: OnceLock<Vec<u8>>,
}

impl File {
    fn compressed(&self) -> &[u8] {
        self.compressed.get_or_init(|| {
            let mut writer = GzEncoder::new(Vec::new(), Compression::best());
            // Memory takes everything.
            let written = writer.write_all(self.bytes).and_then(|()| writer.finish());
            written.unwrap_or_default()
        })
    }
}

/// The files by name. `index.html` is that of `/console/`.
static FILES: LazyLock<BTreeMap<&str, File>> = LazyLock::new(|| {
    let file = |(name, bytes): (&'static str, &'static [u8])| {
        let content_type = match name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("wasm") => "application/wasm",
            _ => "application/octet-stream",
        };
        let digest: String = hex::encode(Sha256::digest(bytes)).chars().take(32).collect();
        let tag = HeaderValue::try_from(format!("\"{digest}\"")).unwrap_or(HeaderValue::from_static("\"\""));
        (name, File { content_type, bytes, tag, compressed: OnceLock::new() })
    };
    [
        ("index.html", &include_bytes!("../page/index.html")[..]),
        ("style.css", include_bytes!("../page/style.css")),
        ("icon.svg", include_bytes!("../page/icon.svg")),
        ("console.js", include_bytes!("../page/console.js")),
        ("gateway.js", include_bytes!("../page/gateway.js")),
        ("elements.js", include_bytes!("../page/elements.js")),
        ("words.js", include_bytes!("../page/words.js")),
        ("lists.js", include_bytes!("../page/lists.js")),
        ("decisions.js", include_bytes!("../page/decisions.js")),
        ("operation.js", include_bytes!("../page/operation.js")),
        ("passkeys.js", include_bytes!("../page/passkeys.js")),
        ("evidence.js", include_bytes!("../page/evidence.js")),
        ("checks.js", include_bytes!("../page/checks.js")),
        ("checks.wasm", include_bytes!("../page/checks.wasm")),
    ]
    .into_iter()
    .map(file)
    .collect()
});

/// The routes of the console.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    // The page names its files relative to this path.
    let page = get(|headers: HeaderMap| async move { answer("index.html", &headers) });
    let file = get(|Path(name): Path<String>, headers: HeaderMap| async move { answer(&name, &headers) });
    Router::new()
        .route("/console", get(|| async { Redirect::permanent("console/") }))
        .route("/console/", page)
        .route("/console/{file}", file)
}

fn answer(name: &str, asked: &HeaderMap) -> Response {
    let Some(file) = FILES.get(name) else {
        return (StatusCode::NOT_FOUND, "the console has no such file\n").into_response();
    };
    let mut response = if asked.get(header::IF_NONE_MATCH) == Some(&file.tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if takes_gzip(asked) {
        ([(header::CONTENT_ENCODING, "gzip")], file.compressed()).into_response()
    } else {
        file.bytes.into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    headers.insert(header::ETAG, file.tag.clone());
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the client takes gzip; one that refuses it by `q=0` says so at the end of the word.
fn takes_gzip(asked: &HeaderMap) -> bool {
    let encodings = asked.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    encodings.is_some_and(|all| all.split(',').any(|one| one.trim().eq_ignore_ascii_case("gzip")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    async fn ask(path: &str, tag: Option<&str>) -> Response {
        let mut request = Request::get(path);
        if let Some(tag) = tag {
            request = request.header("if-none-match", tag);
        }
        router::<()>().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn text(path: &str) -> String {
        let body = ask(path, None).await.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn every_file_has_its_type_and_the_policy() {
        for (name, expected) in [
            ("", "text/html; charset=utf-8"),
            ("style.css", "text/css; charset=utf-8"),
            ("console.js", "text/javascript; charset=utf-8"),
            ("checks.wasm", "application/wasm"),
        ] {
            let answer = ask(&format!("/console/{name}"), None).await;
            assert_eq!(answer.status(), 200, "{name}");
            assert_eq!(answer.headers()["content-type"], expected);
            assert_eq!(answer.headers()["content-security-policy"], CONTENT_SECURITY_POLICY);
            assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
            let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
            let again = ask(&format!("/console/{name}"), Some(&tag)).await;
            assert_eq!(again.status(), 304);
            assert!(again.into_body().collect().await.unwrap().to_bytes().is_empty());
        }
        assert_eq!(ask("/console", None).await.headers()["location"], "console/", "also behind a path");
        for missing in ["nothing.js", "..%2fCargo.toml", "%2e%2e"] {
            assert_eq!(ask(&format!("/console/{missing}"), None).await.status(), 404, "{missing}");
        }
    }

    #[tokio::test]
    async fn files_are_compressed_for_those_who_take_it() {
        for (encodings, expected) in
            [("gzip, deflate, br", true), ("br;q=1.0, GZIP", true), ("gzip;q=0", false), ("br", false)]
        {
            let request = Request::get("/console/checks.wasm").header("accept-encoding", encodings);
            let answer = router::<()>().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(answer.headers().contains_key("content-encoding"), expected, "{encodings}");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let mut read = Vec::new();
            if expected {
                std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&body[..]), &mut read).unwrap();
                assert!(body.len() < read.len() / 2);
            } else {
                read.extend_from_slice(&body);
            }
            assert_eq!(read, FILES["checks.wasm"].bytes);
        }
    }

    /// The first view loads these; the program of checks is loaded when something is checked.
    #[tokio::test]
    async fn first_view_has_at_most_150_kilobytes_and_names_no_other_site() {
        let mut n_bytes = 0;
        for name in FILES.keys().filter(|name| **name != "checks.wasm") {
            let text = text(&format!("/console/{name}")).await;
            n_bytes += text.len();
            let others = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!others.contains("http://") && !others.contains("https://"), "{name}");
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!text.contains(forbidden), "{name} has {forbidden}");
            }
        }
        println!("{n_bytes} bytes");
        assert!(n_bytes <= 150_000, "{n_bytes}");
    }

    #[test]
    fn every_file_of_the_page_is_served() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/page")).unwrap();
        let mut found: Vec<_> = folder.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        found.sort();
        assert_eq!(found, FILES.keys().copied().collect::<Vec<_>>());
    }
}
