//! Cross-site requests: rejects requests that a browser sends for a page of another site, on every route and before
//! authentication (ADR 27).
//!
//! A page can send requests to every address that its reader's browser reaches: a developer's gateway on loopback, or one
//! behind a proxy that authenticates by cookie. The browser reveals that in `Sec-Fetch-Site` (Fetch Metadata) and `Origin`
//! (the Fetch standard), which a page cannot alter. Most other clients send neither header, and are not checked.
//!
//! The scheme of the gateway's own origin is not compared, because a proxy in front may speak TLS. To a browser, a page at
//! `http://` of the same host is another site, and `Sec-Fetch-Site` shows it.

use crate::counters;
use crate::error::{ApiError, Code};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

/// Origins whose pages may send requests, besides the gateway's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedOrigins(BTreeSet<Origin>);

impl FromStr for AllowedOrigins {
    type Err = String;

    /// Reads `https://host:port,...`.
    fn from_str(text: &str) -> Result<Self, String> {
        let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        let parse = |text: &str| {
            Origin::parse(text)
                .ok_or_else(|| format!("`{text}` is not `http(s)://HOST` or `http(s)://HOST:PORT`"))
        };
        texts.map(parse).collect::<Result<_, _>>().map(Self)
    }
}

impl AllowedOrigins {
    /// Whether an allowed origin is at this host and port.
    fn has_host(&self, host: &Authority) -> bool {
        self.0.iter().any(|origin| origin.is_at(host))
    }
}

/// The rules for requests of browsers.
#[derive(Clone, Debug)]
pub struct OriginRules {
    /// Origins whose pages may send requests, besides the gateway's own.
    pub allowed: AllowedOrigins,
    /// Whether the gateway runs without authentication, so that every page that reaches it acts as anyone.
    pub is_bypass: bool,
}

/// The origin of a page (RFC 6454): a scheme, a host in lower case, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Origin {
    scheme: Scheme,
    host: String,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Origin {
    /// `None` for `null`, for lists, and for other schemes, such as those of browser extensions.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let Authority { host, port } = Authority::parse(authority)?;
        Some(Self { scheme, host, port: port.unwrap_or(scheme.port()) })
    }

    /// Whether `host` is the `Host` header of a request from a page of this origin to its own server: a browser omits the
    /// scheme's default port.
    fn is_at(&self, host: &Authority) -> bool {
        self.host == host.host && self.port == host.port.unwrap_or(self.scheme.port())
    }
}

/// The content of a `Host` header: a host in lower case, and a port unless it is the scheme's default.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Authority {
    host: String,
    port: Option<u16>,
}

impl Authority {
    fn parse(text: &str) -> Option<Self> {
        let authority: axum::http::uri::Authority = text.parse().ok()?;
        let (host, port) = (authority.host(), authority.port_u16());
        // Rejects a user part, and a port that is not a number.
        let length = host.len() + port.map_or(0, |port| 1 + port.to_string().len());
        (text.len() == length).then(|| Self { host: host.to_ascii_lowercase(), port })
    }

    /// Whether the host is `localhost` or a loopback address. Another name is not, even if it resolves to one.
    fn is_loopback(&self) -> bool {
        let address = self.host.trim_start_matches('[').trim_end_matches(']');
        self.host == "localhost"
            || address.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
            || address.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback())
    }
}

/// Middleware that answers `origin_not_permitted` to requests from pages of other sites.
pub async fn check(State(rules): State<Arc<OriginRules>>, request: Request, next: Next) -> Response {
    let checked = match opens_page(&request) {
        true => Ok(()),
        false => check_headers(request.headers(), &rules.allowed, rules.is_bypass),
    };
    match checked {
        Ok(()) => next.run(request).await,
        Err(why) => {
            counters::count_refusal(Code::OriginNotPermitted.as_str());
            ApiError::new(Code::OriginNotPermitted, why).into_response()
        }
    }
}

/// Whether a browser opens a page in a window of its own, by a link in a message or after signing in at another site. The page has no
/// data, what it asks for is checked, and no other page can read it or show it in a frame.
fn opens_page(request: &Request) -> bool {
    let is = |name: &str, value: &str| once(request.headers(), name) == Ok(Some(value));
    let is_page = ["/console", "/console/", "/docs", "/docs/"].contains(&request.uri().path());
    is_page
        && request.method() == Method::GET
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// Accepts requests that no browser sent, those that a user makes directly, and those from pages of the gateway or of an
/// allowed origin.
fn check_headers(headers: &HeaderMap, allowed: &AllowedOrigins, is_bypass: bool) -> Result<(), &'static str> {
    let site = once(headers, "sec-fetch-site")?;
    let origin = once(headers, "origin")?;
    if site.is_none() && origin.is_none() && !(is_bypass && may_be_unmarked_browser(headers)) {
        return Ok(());
    }
    let host = once(headers, "host")?.and_then(Authority::parse);
    let host =
        host.ok_or("the `Host` header of a browser's request must be a host, with a port or without")?;
    let origin = origin.map(|text| Origin::parse(text).ok_or(OTHER_ORIGIN)).transpose()?;
    let is_allowed = origin.as_ref().is_some_and(|origin| allowed.0.contains(origin));
    if origin.is_some_and(|origin| !is_allowed && !origin.is_at(&host)) {
        return Err(OTHER_ORIGIN);
    }
    if site.is_some_and(|site| !is_allowed && !matches!(site, "same-origin" | "none")) {
        return Err("the browser reports that a page of another site sent this request (`Sec-Fetch-Site`); \
                    the setting `allowed_origins` lists the origins whose pages may");
    }
    // With DNS rebinding, the name of another site resolves to this machine, and the browser takes that site's page for the
    // gateway's own.
    if is_bypass && !host.is_loopback() && !allowed.has_host(&host) {
        return Err(
            "without authentication, a browser must reach the gateway as `localhost`, by a loopback address, \
                    or by the host of an origin in the setting `allowed_origins`",
        );
    }
    Ok(())
}

const OTHER_ORIGIN: &str = "the `Origin` of this request is not the gateway's own, which its `Host` names; \
                            the setting `allowed_origins` lists others that may send requests";

/// Whether a browser may have sent a request without `Sec-Fetch-Site` and `Origin`. Over plain HTTP to a name that is not
/// loopback, a browser omits the first, and for a GET from a page to its own host also the second. It always sends
/// `Accept-Language`, which a page can change but not remove. Programs that send it too, such as Node.js, add `Sec-Fetch-Mode`,
/// which a page cannot set.
fn may_be_unmarked_browser(headers: &HeaderMap) -> bool {
    headers.contains_key("accept-language") && !headers.contains_key("sec-fetch-mode")
}

/// The value of a header that may be given once.
fn once<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, &'static str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| UNREADABLE),
        (Some(_), Some(_)) => Err(UNREADABLE),
    }
}

const UNREADABLE: &str = "`Origin`, `Sec-Fetch-Site` and `Host` must be given at most once, in ASCII";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_origin_is_a_scheme_a_host_and_a_port() {
        let allowed: AllowedOrigins = " https://Console.example ,,http://[::1]:3000".parse().unwrap();
        for at in ["console.example", "console.example:443", "[::1]:3000"] {
            assert!(allowed.has_host(&Authority::parse(at).unwrap()), "{at}");
        }
        for at in ["console.example:80", "console.example:9200", "[::1]"] {
            assert!(!allowed.has_host(&Authority::parse(at).unwrap()), "{at}");
        }
        assert_eq!("".parse(), Ok(AllowedOrigins::default()));
        for wrong in [
            "*",
            "null",
            "console.example",
            "https://",
            "https://a/",
            "https://a,b",
            "ftp://a",
            "https://u@a",
            "HTTPS://a",
        ] {
            assert!(wrong.parse::<AllowedOrigins>().is_err(), "{wrong}");
        }
    }
}
