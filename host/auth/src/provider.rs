//! The HTTP client for the identity provider: one URL, small answers, a deadline, no redirects, no proxy.

use crate::limits::{PROVIDER_CONNECT_TIMEOUT, PROVIDER_TIMEOUT};
use gateway_domain::error_chain;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Certificate, Client, RequestBuilder, StatusCode, Url, redirect};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use tokio::time::timeout;

/// The URL of an identity provider: over TLS, or on loopback.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderUrl(Url);

/// A text is not a URL that an identity provider may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an `https` URL, or an `http` one on loopback, without user, password and fragment")]
pub struct InvalidProvider;

/// A client for one URL of an identity provider.
#[derive(Clone)]
pub struct Provider {
    client: Client,
    url: ProviderUrl,
}

/// Why there is no usable answer, for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderFault {
    #[error("the identity provider does not answer")]
    NoAnswer(#[source] reqwest::Error),
    #[error("the identity provider did not answer within {} s", PROVIDER_TIMEOUT.as_secs())]
    Timeout,
    #[error("the identity provider answered with status {0}")]
    Status(StatusCode),
    #[error("the identity provider's answer is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the identity provider's answer is malformed: {0}")]
    Malformed(&'static str),
}

impl FromStr for ProviderUrl {
    type Err = InvalidProvider;

    fn from_str(text: &str) -> Result<Self, InvalidProvider> {
        let url = Url::parse(text).map_err(|_| InvalidProvider)?;
        let host = url.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_loopback = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback);
        let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        if is_safe && is_plain && !host.is_empty() { Ok(Self(url)) } else { Err(InvalidProvider) }
    }
}

impl ProviderUrl {
    /// The URL.
    #[must_use]
    pub const fn as_url(&self) -> &Url {
        &self.0
    }
}

impl fmt::Debug for ProviderUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl Provider {
    /// A client for the URL. `ca_pem`: certificate authorities that replace the system's.
    ///
    /// # Errors
    /// A message for the operator when the authorities cannot be read.
    pub fn new(url: ProviderUrl, ca_pem: Option<&[u8]>) -> Result<Self, String> {
        let client = Client::builder()
            // Neither a redirect nor a proxy of the environment may send requests to another host than the configured one.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(PROVIDER_CONNECT_TIMEOUT)
            .timeout(PROVIDER_TIMEOUT)
            .user_agent("operation-gateway");
        let authorities = match ca_pem {
            Some(pem) => Some(Certificate::from_pem_bundle(pem).map_err(|error| error.to_string())?),
            // Plain HTTP on loopback needs no authorities, and a container may have none installed.
            None if url.0.scheme() == "http" => Some(Vec::new()),
            None => None,
        };
        if ca_pem.is_some() && authorities.as_ref().is_some_and(Vec::is_empty) {
            return Err("the file has no certificate".to_owned());
        }
        let client = match authorities {
            Some(authorities) => client.tls_certs_only(authorities),
            None => client,
        };
        let client = client.build().map_err(|error| error_chain(&error))?;
        Ok(Self { client, url })
    }

    /// Gets at most `bytes_max` bytes.
    pub(crate) async fn get(&self, bytes_max: usize) -> Result<Vec<u8>, ProviderFault> {
        send(self.client.get(self.url.0.clone()), bytes_max).await
    }

    /// Posts a form; returns at most `bytes_max` bytes of the answer.
    pub(crate) async fn post(
        &self,
        authorization: HeaderValue,
        form: String,
        bytes_max: usize,
    ) -> Result<Vec<u8>, ProviderFault> {
        let request = self.client.post(self.url.0.clone()).header(http::header::AUTHORIZATION, authorization);
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        send(request.header(CONTENT_TYPE, form_type).body(form), bytes_max).await
    }
}

async fn send(request: RequestBuilder, bytes_max: usize) -> Result<Vec<u8>, ProviderFault> {
    let request = request.header(ACCEPT, HeaderValue::from_static("application/json"));
    timeout(PROVIDER_TIMEOUT, read_answer(request, bytes_max)).await.unwrap_or(Err(ProviderFault::Timeout))
}

async fn read_answer(request: RequestBuilder, bytes_max: usize) -> Result<Vec<u8>, ProviderFault> {
    // The log does not show the URL, which is the operator's setting.
    let no_answer = |error: reqwest::Error| ProviderFault::NoAnswer(error.without_url());
    let mut response = request.send().await.map_err(no_answer)?;
    if response.status() != StatusCode::OK {
        return Err(ProviderFault::Status(response.status()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(no_answer)? {
        if bytes.len().saturating_add(chunk.len()) > bytes_max {
            return Err(ProviderFault::TooLarge(bytes_max));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_url_must_use_tls_or_loopback() {
        for good in [
            "https://issuer.example/jwks",
            "https://10.0.0.1:8443/jwks?x=1",
            "http://localhost:3000/jwks",
            "http://127.0.0.1/jwks",
            "http://127.9.9.9:1/",
            "http://[::1]:3000/jwks",
        ] {
            assert!(good.parse::<ProviderUrl>().is_ok(), "{good}");
        }
        for wrong in [
            "http://issuer.example/jwks",
            "http://10.0.0.1/jwks",
            "http://localhost.evil.example/",
            "http://127.0.0.1.evil.example/",
            "http://user@127.0.0.1/",
            "https://user:secret@issuer.example/",
            "https://issuer.example/#keys",
            "file:///etc/passwd",
            "ftp://issuer.example/",
            "issuer.example",
            "https://",
            "",
        ] {
            assert_eq!(wrong.parse::<ProviderUrl>(), Err(InvalidProvider), "{wrong}");
        }
    }

    #[test]
    fn a_file_without_valid_authorities_is_rejected() {
        let url: ProviderUrl = "https://issuer.example/".parse().unwrap();
        assert!(Provider::new(url.clone(), Some(b"")).is_err());
        let wrong = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(Provider::new(url, Some(wrong)).is_err());
    }
}
