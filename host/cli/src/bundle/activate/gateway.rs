//! Asks a gateway which bundle is active.

use crate::bundle::verify::LastActivation;
use crate::bundle::{Error, layout};
use gateway_domain::ids::Hex32;
use gateway_seal::key_file;
use gateway_service::client::read_at_most;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Certificate, Client, Url, redirect};
use serde::Deserialize;
use std::net::IpAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use zeroize::Zeroizing;

/// The exit codes of `bundle activate`, for its help text.
pub(crate) const EXIT_CODES: &str = "Exit code 0: the folder has the bundle and, with --gateway, the gateway uses it. 1: a check failed \
                                     and the folder is unchanged. 3: the folder has the bundle, but the gateway did not confirm it \
                                     in time, or refuses it, or the old folder is left; the last line says why.";

/// The variable with the token.
const TOKEN_VARIABLE: &str = "OPERATION_GATEWAY_TOKEN";

/// Largest token, in bytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 16 << 10;

/// The route that lists the gateway's bundles.
const PATH: &str = "/v1/policy/bundles?limit=1";

/// Timeout of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(200);

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The gateway that confirms an activation, and how to reach it.
#[derive(Debug, clap::Args)]
pub(crate) struct GatewayArgs {
    /// Compare the sequence with this gateway's, and wait until it uses the bundle: https://HOST[:PORT]
    #[arg(long = "gateway", value_name = "URL")]
    url: Option<String>,
    /// PEM certificate authorities of the gateway [default: the system's]
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
    /// The bearer token for the gateway, in a secret file [default: the variable OPERATION_GATEWAY_TOKEN]
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// How long to wait
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

impl GatewayArgs {
    /// A client of the gateway; `None` without `--gateway`. Sends nothing.
    pub(crate) fn client(&self) -> Result<Option<Gateway>, Error> {
        let Some(text) = &self.url else { return Ok(None) };
        let url = parse(text)?;
        let token = self.token()?;
        if token.is_some() && url.scheme() == "http" && !is_loopback(&url) {
            return Err(Error::TokenInPlainText(text.clone()));
        }
        let client = Client::builder()
            // A redirect or a proxy of the environment must not see the token.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .timeout(ANSWER_TIMEOUT)
            .default_headers(headers(token));
        let client = match self.authorities(&url)? {
            Some(authorities) => client.tls_certs_only(authorities),
            None => client,
        };
        let runtime = gateway_service::process::small_runtime();
        Ok(Some(Gateway {
            client: client.build().map_err(|fault| Error::Client(fault.into()))?,
            runtime: runtime.map_err(|fault| Error::Client(fault.into()))?,
            url,
        }))
    }

    pub(crate) const fn timeout(&self) -> Duration {
        Duration::from_secs(self.wait)
    }

    /// The certificate authorities that the gateway's certificate must come from; `None` for the system's.
    fn authorities(&self, url: &Url) -> Result<Option<Vec<Certificate>>, Error> {
        let Some(path) = &self.ca else {
            // Plain HTTP needs none, and a container may have none installed.
            return Ok((url.scheme() == "http").then(Vec::new));
        };
        if url.scheme() == "http" {
            return Err(Error::CertificatesWithoutTls(url.to_string()));
        }
        let unusable = |fault: String| Error::Certificates { path: path.clone(), fault };
        let found = Certificate::from_pem_bundle(&layout::read(path)?)
            .map_err(|fault| unusable(gateway_domain::error_chain(&fault)))?;
        if found.is_empty() { Err(unusable("it has no PEM certificate".to_owned())) } else { Ok(Some(found)) }
    }

    /// The header with the token. It is never an argument, which every user of the machine could see.
    fn token(&self) -> Result<Option<HeaderValue>, Error> {
        if let Some(path) = &self.token_file {
            let bytes = key_file::load_bytes(path, TOKEN_BYTES_MAX as u64)?;
            return bearer(&bytes, || format!("`{}`", path.display())).map(Some);
        }
        let variable = std::env::var_os(TOKEN_VARIABLE).filter(|value| !value.is_empty());
        let text = variable.map(|value| Zeroizing::new(value.into_encoded_bytes()));
        text.map(|text| bearer(&text, || format!("the variable `{TOKEN_VARIABLE}`"))).transpose()
    }
}

/// A gateway's API.
#[derive(Debug)]
pub(crate) struct Gateway {
    client: Client,
    runtime: Runtime,
    url: Url,
}

/// The members of an answer of `GET /v1/policy/bundles` that matter here.
#[derive(Debug, Deserialize)]
pub(super) struct Bundles {
    active: Option<Active>,
    /// Newest first.
    history: Vec<Active>,
    refused: Vec<Refused>,
}

impl Bundles {
    /// The gateway's last activation; `None` if there was none.
    pub(super) fn last_activation(&self) -> Option<LastActivation> {
        let Active { bundle_hash, activation_sequence: sequence } = *self.history.first()?;
        Some(LastActivation { sequence, bundle_hash })
    }

    /// The refusal of this bundle as the one to activate, if it is refused now.
    fn refusal(&self, hash: Hex32) -> Option<&Refused> {
        self.refused.iter().find(|it| it.offer == "bundle" && it.bundle_hash == Some(hash))
    }
}

#[derive(Debug, Deserialize)]
struct Active {
    bundle_hash: Hex32,
    activation_sequence: u64,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Refused {
    offer: String,
    bundle_hash: Option<Hex32>,
    why: String,
    at_ms: u64,
}

impl Gateway {
    /// Polls until `hash` is the active bundle, the gateway reports that it refused it after its answer `before`, or the time is
    /// over. Within the time, a gateway that does not answer is asked again.
    pub(super) fn wait_until_active(
        &self,
        hash: Hex32,
        before: &Bundles,
        timeout: Duration,
    ) -> Result<(), Error> {
        let started = Instant::now();
        let refused = |why: &Refused| Err(Error::Refused { url: self.shown(), why: why.why.clone() });
        loop {
            let asked = self.bundles();
            if let Ok(bundles) = &asked {
                if bundles.active.as_ref().is_some_and(|active| active.bundle_hash == hash) {
                    return Ok(());
                }
                // An earlier refusal may be of the same bundle with fewer signatures, which its hash does not cover.
                if let Some(why) = bundles.refusal(hash).filter(|why| !before.refused.contains(why)) {
                    return refused(why);
                }
            }
            if started.elapsed() >= timeout {
                let bundles = asked?;
                if let Some(why) = bundles.refusal(hash) {
                    return refused(why);
                }
                let active = bundles.active;
                let found =
                    active.map_or_else(|| "none".to_owned(), |active| format!("`{}`", active.bundle_hash));
                return Err(Error::NotActive { url: self.shown(), hash, seconds: timeout.as_secs(), found });
            }
            thread::sleep(PAUSE);
        }
    }

    /// The gateway's bundles.
    pub(super) fn bundles(&self) -> Result<Bundles, Error> {
        let unexpected = |fault: String| Error::GatewayAnswer { url: self.shown(), fault };
        let bytes = self.runtime.block_on(self.get())?;
        let bytes = bytes.ok_or_else(|| unexpected(format!("it has more than {ANSWER_BYTES_MAX} bytes")))?;
        serde_json::from_slice(&bytes).map_err(|fault| unexpected(fault.to_string()))
    }

    /// The body of the answer; `None` if it is too large.
    async fn get(&self) -> Result<Option<Vec<u8>>, Error> {
        let failed =
            |source: reqwest::Error| Error::Gateway { url: self.shown(), source: source.without_url() };
        let url = format!("{}{PATH}", self.shown());
        let mut answer = self.client.get(url).send().await.map_err(failed)?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(Error::GatewayStatus { url: self.shown(), status: answer.status().as_u16() });
        }
        read_at_most(&mut answer, ANSWER_BYTES_MAX).await.map_err(failed)
    }

    /// The URL without the `/` at its end.
    fn shown(&self) -> String {
        self.url.as_str().trim_end_matches('/').to_owned()
    }
}

/// A URL of a scheme and an authority.
fn parse(text: &str) -> Result<Url, Error> {
    let invalid = || Error::Url(text.to_owned());
    let url = Url::parse(text).map_err(|_| invalid())?;
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let is_plain = url.username().is_empty() && url.password().is_none();
    let has_host = url.host_str().is_some_and(|host| !host.is_empty());
    if ["http", "https"].contains(&url.scheme()) && is_bare && is_plain && has_host {
        Ok(url)
    } else {
        Err(invalid())
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The header `Authorization` with this token, without its end of line. `origin` names the token in an error.
fn bearer(token: &[u8], origin: impl FnOnce() -> String) -> Result<HeaderValue, Error> {
    let token = token.strip_suffix(b"\n").unwrap_or(token);
    let token = token.strip_suffix(b"\r").unwrap_or(token);
    let is_one_word = (1..=TOKEN_BYTES_MAX).contains(&token.len()) && token.iter().all(u8::is_ascii_graphic);
    let text = Zeroizing::new([b"Bearer ", token].concat());
    let value = if is_one_word { HeaderValue::from_bytes(&text).ok() } else { None };
    let mut value = value.ok_or_else(|| Error::Token { origin: origin() })?;
    value.set_sensitive(true);
    Ok(value)
}

fn headers(token: Option<HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.extend(token.map(|token| (AUTHORIZATION, token)));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_a_scheme_and_an_authority() {
        for url in ["http://127.0.0.1:9200", "https://gateway", "https://gateway:443/", "http://[::1]:9200"] {
            assert!(parse(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "gateway:80",
            "https://",
            "http://:80",
            "ftp://gateway",
            "http://a:b@c:80",
            "https://user@gateway",
            "http://gateway:80/v1",
            "http://gateway?x",
            "http://gateway#x",
            "http://gateway:99999",
        ] {
            assert!(matches!(parse(url), Err(Error::Url(text)) if text == url), "{url}");
        }
    }

    #[test]
    fn token_is_one_word_and_never_shown() {
        for good in ["t0ken", "t0ken\n", "t0ken\r\n"] {
            let value = bearer(good.as_bytes(), String::new).unwrap();
            assert_eq!(value.as_bytes(), b"Bearer t0ken");
            assert!(!format!("{value:?}").contains("t0ken"), "{value:?}");
        }
        for wrong in ["", "\n", "two words", "two\nlines", "t\u{e9}", &"x".repeat(TOKEN_BYTES_MAX + 1)] {
            let refused = bearer(wrong.as_bytes(), || "`t`".to_owned()).unwrap_err().to_string();
            assert!(refused.starts_with("the token in `t` is not one line of 1 to 16384"), "{refused}");
        }
    }

    #[test]
    fn refusal_of_another_bundle_or_offer_is_ignored() {
        let (ours, other) = (Hex32::new([1; 32]), Hex32::new([2; 32]));
        let refused = |offer: &str| Refused {
            offer: offer.to_owned(),
            bundle_hash: Some(ours),
            why: "too old".to_owned(),
            at_ms: 1,
        };
        let bundles = |offer| Bundles { active: None, history: vec![], refused: vec![refused(offer)] };
        assert_eq!(bundles("bundle").refusal(ours), Some(&refused("bundle")));
        assert_eq!((bundles("bundle").refusal(other), bundles("candidate").refusal(ours)), (None, None));
    }
}
