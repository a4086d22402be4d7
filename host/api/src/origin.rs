//! Cross-site requests: what a browser sends because a page of another site told it to is refused, on every route and before
//! authentication.
//!
//! A page can send requests to any address that its reader's browser reaches: to a developer's gateway on loopback, or through
//! a proxy that takes a cookie for a login. The browser says so, in `Sec-Fetch-Site` (Fetch Metadata) and `Origin` (the Fetch
//! standard), which no page can alter. A client that is no browser sends neither, and is not held to anything here.
//!
//! The scheme of the gateway's own origin is not compared: a proxy in front may speak TLS. A page at `http://` of the same
//! host is another site to a browser, which says so in `Sec-Fetch-Site`.

use crate::counters;
use crate::error::{ApiError, Code};
use crate::state::App;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Origins whose pages may send requests, besides the gateway's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedOrigins(BTreeSet<Origin>);

impl FromStr for AllowedOrigins {
    type Err = String;

    /// Reads `https://host:port,...`.
    fn from_str(text: &str) -> Result<Self, String> {
        let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        let parsed = |text: &str| {
            Origin::parse(text)
                .ok_or_else(|| format!("`{text}` is not `http(s)://HOST` or `http(s)://HOST:PORT`"))
        };
        texts.map(parsed).collect::<Result<_, _>>().map(Self)
    }
}

impl AllowedOrigins {
    /// Whether an allowed origin is at this host and port.
    fn has_host(&self, host: &Authority) -> bool {
        self.0.iter().any(|origin| origin.is_at(host))
    }
}

/// Where a page is from (RFC 6454): a scheme, a host in lower case, and a port.
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
    /// None for `null`, for lists, and for other schemes, as those of browsers' extensions.
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

    /// Whether a request of a page of this origin to its own host has this `Host`: a browser leaves the port out that its scheme
    /// has by default.
    fn is_at(&self, host: &Authority) -> bool {
        self.host == host.host && self.port == host.port.unwrap_or(self.scheme.port())
    }
}

/// What a `Host` header has: a host in lower case, and a port unless it is the scheme's own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Authority {
    host: String,
    port: Option<u16>,
}

impl Authority {
    fn parse(text: &str) -> Option<Self> {
        let authority: axum::http::uri::Authority = text.parse().ok()?;
        let (host, port) = (authority.host(), authority.port_u16());
        // A user, or a port that is no port.
        let length = host.len() + port.map_or(0, |port| 1 + port.to_string().len());
        (text.len() == length).then(|| Self { host: host.to_ascii_lowercase(), port })
    }

    /// Whether the host is this machine by its own name or address. A name of another site that resolves to a loopback address
    /// is not.
    fn is_loopback(&self) -> bool {
        let address = self.host.trim_start_matches('[').trim_end_matches(']');
        self.host == "localhost"
            || address.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
            || address.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback())
    }
}

/// Refuses what a page of another site sent.
pub async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let verdict =
        permitted(request.headers(), &app.options().allowed_origins, app.authenticator().is_bypass());
    match verdict {
        Ok(()) => next.run(request).await,
        Err(why) => {
            counters::refused(Code::OriginNotPermitted.as_str());
            ApiError::new(Code::OriginNotPermitted, why).into_response()
        }
    }
}

/// Whether no browser sent it, or one that says that the gateway's own page, an allowed one, or its user did.
fn permitted(headers: &HeaderMap, allowed: &AllowedOrigins, is_bypass: bool) -> Result<(), &'static str> {
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
        return Err("the browser says that a page of another site sent this (`Sec-Fetch-Site`); \
                    the setting `allowed_origins` lists origins whose pages may");
    }
    // Another site's name can be made to lead to this machine (DNS rebinding): to the browser its page is the gateway's own.
    if is_bypass && !host.is_loopback() && !allowed.has_host(&host) {
        return Err(
            "without authentication, a browser must name the gateway `localhost` or a loopback address, \
                    or by the host of an origin in the setting `allowed_origins`",
        );
    }
    Ok(())
}

const OTHER_ORIGIN: &str = "the `Origin` of this request is not the gateway's own, by its `Host`; \
                            the setting `allowed_origins` lists others that may send requests";

/// Over plain HTTP to a name that is not loopback, a browser sends neither `Sec-Fetch-Site` nor, with a GET of a page to its own
/// host, `Origin`. It always sends `Accept-Language`, which a page can change and not remove. Programs that send that too, as
/// Node.js does, send `Sec-Fetch-Mode` with it, which no page can set.
fn may_be_unmarked_browser(headers: &HeaderMap) -> bool {
    headers.contains_key("accept-language") && !headers.contains_key("sec-fetch-mode")
}

/// The header's value, which may be there once.
fn once<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, &'static str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| UNREADABLE),
        (Some(_), Some(_)) => Err(UNREADABLE),
    }
}

const UNREADABLE: &str =
    "`Origin`, `Sec-Fetch-Site` and `Host` must be there once at most, in readable ASCII";

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
