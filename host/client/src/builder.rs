//! [`Builder`]: the gateway's address, the credentials, and how requests are repeated.

use crate::error::Error;
use crate::gateway::{Gateway, Retries};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Url, redirect};
use std::net::IpAddr;
use std::time::Duration;
use zeroize::Zeroizing;

/// Time limit for opening a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Makes a [`Gateway`].
pub struct Builder {
    base: Url,
    headers: HeaderMap,
    authorities: Option<Vec<Certificate>>,
    retries: Retries,
}

impl Gateway {
    /// Makes a client of the gateway at this address, such as `https://gateway.example`, or `https://example.com/gateway` for one behind a
    /// path of a proxy.
    pub fn builder(base: &str) -> Result<Builder, Error> {
        // The text may have credentials.
        let invalid = || {
            Error::Unusable(
                "the gateway's URL is not http(s)://HOST[:PORT][/PATH], without a name, a query and a fragment"
                    .to_owned(),
            )
        };
        let mut url = Url::parse(base).map_err(|_| invalid())?;
        let is_bare = url.query().is_none() && url.fragment().is_none();
        let is_plain = url.username().is_empty() && url.password().is_none();
        if !["http", "https"].contains(&url.scheme()) || !is_bare || !is_plain || url.host_str().is_none() {
            return Err(invalid());
        }
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Ok(Builder::new(url))
    }
}

impl Builder {
    fn new(base: Url) -> Self {
        // A repeat is the same operation. Another body under the same idempotency key is a mistake, which must not look like success.
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("idempotency-mismatch"),
            HeaderValue::from_static("reject"),
        )]);
        Self { base, headers, authorities: None, retries: Retries::default() }
    }

    /// Sends this bearer token. Over plain HTTP only to loopback.
    pub fn token(mut self, token: &str) -> Result<Self, Error> {
        if self.base.scheme() == "http" && !is_loopback(&self.base) {
            return Err(Error::Unusable("a token is sent over TLS, or to loopback".to_owned()));
        }
        let value = Zeroizing::new(format!("Bearer {}", token.trim()));
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| Error::Unusable("the token has a character that a header cannot have".to_owned()))?;
        value.set_sensitive(true);
        self.headers.insert(AUTHORIZATION, value);
        Ok(self)
    }

    /// Sends a header with every request, such as the identity headers that a development gateway accepts.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let unusable = || Error::Unusable(format!("`{name}` cannot be a header with this value"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?;
        self.headers.insert(name, HeaderValue::from_str(value).map_err(|_| unusable())?);
        Ok(self)
    }

    /// Trusts these certificate authorities, PEM, in place of the system's.
    pub fn authorities(mut self, pem: &[u8]) -> Result<Self, Error> {
        let authorities = Certificate::from_pem_bundle(pem).ok().filter(|found| !found.is_empty());
        let none = || Error::Unusable("there is no PEM certificate of an authority".to_owned());
        self.authorities = Some(authorities.ok_or_else(none)?);
        Ok(self)
    }

    /// Repeats requests like this.
    #[must_use]
    pub const fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// The client.
    pub fn build(self) -> Result<Gateway, Error> {
        let client = reqwest::Client::builder()
            // A redirect or a proxy of the environment must not see the token.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_WITHIN)
            .default_headers(self.headers)
            .user_agent("operation-gateway-client");
        let authorities = match (self.authorities, self.base.scheme()) {
            // Plain HTTP needs none, and a container may have none installed.
            (None, "http") => Some(Vec::new()),
            (authorities, _) => authorities,
        };
        let client = match authorities {
            Some(authorities) => client.tls_certs_only(authorities),
            None => client,
        };
        let client = client.build().map_err(|error| Error::Unusable(error.to_string()))?;
        Ok(Gateway { client, base: self.base, retries: self.retries })
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_goes_over_tls_or_to_loopback_only() {
        for good in
            ["https://gateway.example", "http://localhost:9200", "http://127.0.0.1:1", "http://[::1]:1"]
        {
            assert!(Gateway::builder(good).unwrap().token("secret").is_ok(), "{good}");
        }
        assert!(Gateway::builder("http://gateway.example").unwrap().token("secret").is_err());
        assert!(Gateway::builder("https://gateway.example").unwrap().token("a\nb").is_err());
        for wrong in [
            "gateway.example",
            "ftp://gateway.example",
            "https://u:p@gateway.example",
            "https://u@gateway.example/",
            "https://gateway.example/?x",
            "https://gateway.example/#x",
            "https://gateway.example/x?tenant=one",
            "",
        ] {
            let refused = Gateway::builder(wrong).err().unwrap().to_string();
            assert!(!refused.contains("u:p"), "{refused}");
        }
        let client =
            Gateway::builder("https://gateway.example").unwrap().token("s3cret").unwrap().build().unwrap();
        assert!(!format!("{client:?}").contains("s3cret"));
    }
}
