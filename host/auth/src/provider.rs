//! Speaking to the identity provider: one address, small answers, no patience, no detours.

use crate::limits::{PROVIDER_CONNECT_WITHIN, PROVIDER_WITHIN};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Certificate, Client, RequestBuilder, StatusCode, Url, redirect};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use tokio::time::timeout;

/// Where an identity provider is: over TLS, or on this very machine.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderUrl(Url);

/// What an identity provider's address must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an `https` URL, or an `http` one on loopback, without user, password and fragment")]
pub struct InvalidProvider;

/// One address of an identity provider.
#[derive(Clone)]
pub struct Provider {
    client: Client,
    url: ProviderUrl,
}

/// Why there is no answer; for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderFault {
    #[error("the identity provider does not answer")]
    Silent(#[source] reqwest::Error),
    #[error("the identity provider did not answer within {} s", PROVIDER_WITHIN.as_secs())]
    Late,
    #[error("the identity provider answered with status {0}")]
    Status(StatusCode),
    #[error("the identity provider's answer is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the identity provider's answer is not what it has to be: {0}")]
    Garbage(&'static str),
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

impl fmt::Debug for ProviderUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl Provider {
    /// A way to the address. `ca_pem`: the authorities its certificate may be of, in the place of the system's.
    ///
    /// # Errors
    /// Why there is no way to any address, for an operator: the authorities can not be read.
    pub fn new(url: ProviderUrl, ca_pem: Option<&[u8]>) -> Result<Self, String> {
        let client = Client::builder()
            // Where it answers is where it was said to be: redirects and proxies of the environment lead elsewhere.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(PROVIDER_CONNECT_WITHIN)
            .timeout(PROVIDER_WITHIN)
            .user_agent("operation-gateway");
        let authorities = match ca_pem {
            Some(pem) => Some(Certificate::from_pem_bundle(pem).map_err(|error| error.to_string())?),
            // Nothing is authenticated on loopback, and a container need not have authorities for it.
            None if url.0.scheme() == "http" => Some(Vec::new()),
            None => None,
        };
        if ca_pem.is_some() && authorities.as_ref().is_some_and(Vec::is_empty) {
            return Err("there is no certificate in it".to_owned());
        }
        let client = match authorities {
            Some(authorities) => client.tls_certs_only(authorities),
            None => client,
        };
        let client = client.build().map_err(|error| chain(&error))?;
        Ok(Self { client, url })
    }

    /// What is there, at most so many bytes of it.
    pub(crate) async fn get(&self, bytes_max: usize) -> Result<Vec<u8>, ProviderFault> {
        answer(self.client.get(self.url.0.clone()), bytes_max).await
    }

    /// What it says to a form.
    pub(crate) async fn post(
        &self,
        authorization: HeaderValue,
        form: String,
        bytes_max: usize,
    ) -> Result<Vec<u8>, ProviderFault> {
        let request = self.client.post(self.url.0.clone()).header(http::header::AUTHORIZATION, authorization);
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        answer(request.header(CONTENT_TYPE, form_type).body(form), bytes_max).await
    }
}

async fn answer(request: RequestBuilder, bytes_max: usize) -> Result<Vec<u8>, ProviderFault> {
    let request = request.header(ACCEPT, HeaderValue::from_static("application/json"));
    timeout(PROVIDER_WITHIN, read(request, bytes_max)).await.unwrap_or(Err(ProviderFault::Late))
}

async fn read(request: RequestBuilder, bytes_max: usize) -> Result<Vec<u8>, ProviderFault> {
    // The address is the operator's and not for every reader of the log.
    let silent = |error: reqwest::Error| ProviderFault::Silent(error.without_url());
    let mut response = request.send().await.map_err(silent)?;
    if response.status() != StatusCode::OK {
        return Err(ProviderFault::Status(response.status()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(silent)? {
        if bytes.len().saturating_add(chunk.len()) > bytes_max {
            return Err(ProviderFault::TooLarge(bytes_max));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// An error and what is behind it, on one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let texts = std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string);
    texts.collect::<Vec<_>>().join(": ").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_over_tls_or_on_this_machine() {
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
    fn authorities_that_are_none_are_refused() {
        let url: ProviderUrl = "https://issuer.example/".parse().unwrap();
        assert!(Provider::new(url.clone(), Some(b"")).is_err());
        let wrong = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(Provider::new(url, Some(wrong)).is_err());
    }
}
