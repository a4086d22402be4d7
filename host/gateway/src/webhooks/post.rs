//! Sends one event to a webhook, in the format of Standard Webhooks 1.0: signed, with a deadline, and never to another host than the
//! configured one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway_auth::Addresses;
use gateway_domain::error_chain;
use gateway_domain::time::EpochMs;
use hmac::{Hmac, Mac};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use sha2::Sha256;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// Time limit for opening a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Time limit for an answer.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// The part of an answer that is read, so that its connection can be used again.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// Time limit for reading it. Only the status matters.
const DRAINED_WITHIN: Duration = Duration::from_secs(1);

/// Addresses that are not of the public Internet, by the registries of special addresses (IANA, RFC 6890): a request to one could reach
/// services that trust their own network, such as the metadata service of a cloud. Of IPv6 only 2000::/3 is in use; its blocks that
/// translate to other addresses are here too.
static PRIVATE_BLOCKS: &str = "0.0.0.0/8,10.0.0.0/8,100.64.0.0/10,127.0.0.0/8,169.254.0.0/16,172.16.0.0/12,192.0.0.0/24,192.0.2.0/24,\
    192.88.99.0/24,192.168.0.0/16,198.18.0.0/15,198.51.100.0/24,203.0.113.0/24,224.0.0.0/3,\
    ::/3,4000::/2,8000::/1,2001::/23,2001:db8::/32,2002::/16,3fff::/20";

/// Addresses to which no request is sent unless the webhook allows it.
pub(super) struct Private(Addresses);

pub(super) static PRIVATE: LazyLock<Private> =
    LazyLock::new(|| Private(PRIVATE_BLOCKS.parse().unwrap_or_default()));

impl Private {
    fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(address)
    }

    /// Whether the host of the URL is a private address, without a name.
    pub(super) fn contains_literal(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse();
        literal.is_ok_and(|address| self.contains(address))
    }
}

/// Names are resolved for each connection, and one that leads to a private address is not used: it may lead elsewhere than when the
/// webhook was set up.
struct PublicOnly;

#[derive(Debug, thiserror::Error)]
#[error("has a name that leads only to private addresses")]
struct LeadsInside;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let (private, public): (Vec<SocketAddr>, Vec<_>) =
                found.into_iter().partition(|address| PRIVATE.contains(address.ip()));
            if public.is_empty() && !private.is_empty() {
                return Err(LeadsInside.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// What a webhook made of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted,
    /// It cannot use this event: it is passed over after some tries.
    Refused(String),
    /// It cannot use any event now: there is no answer, or one about itself. The event is sent until this changes.
    Failed(String),
}

/// The client of one webhook, with its secrets.
pub(super) struct Post {
    client: Client,
    url: Url,
    /// The newest first. All sign, so that a receiver can change from one to the next.
    secrets: Vec<Zeroizing<Vec<u8>>>,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Post(..)")
    }
}

impl Post {
    /// A client for the URL, whose host was checked if it is an address.
    pub(super) fn new(
        url: Url,
        secrets: Vec<Zeroizing<Vec<u8>>>,
        allows_private: bool,
    ) -> Result<Self, String> {
        let client = Client::builder()
            // Neither a redirect nor a proxy of the environment may send requests to another host than the configured one.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_WITHIN)
            .user_agent("operation-gateway");
        let client = if allows_private { client } else { client.dns_resolver(Arc::new(PublicOnly)) };
        // Plain HTTP on loopback needs no authorities, and a container may have none installed.
        let client = if url.scheme() == "http" { client.tls_certs_only([]) } else { client };
        let client = client.build().map_err(|error| error_chain(&error))?;
        Ok(Self { client, url, secrets })
    }

    /// Sends the body once.
    pub(super) async fn send(&self, id: &str, at: EpochMs, body: String) -> Answer {
        let seconds = at.0 / 1000;
        let request = self
            .client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", self.signatures(&format!("{id}.{seconds}.{body}")))
            .body(body);
        match timeout(ANSWER_WITHIN, request.send()).await {
            Ok(Ok(mut response)) => {
                let _too_long = timeout(DRAINED_WITHIN, drain(&mut response)).await;
                verdict(response.status())
            }
            Ok(Err(error)) => Answer::Failed(no_answer(&error).to_owned()),
            Err(_) => Answer::Failed(format!("did not answer within {} s", ANSWER_WITHIN.as_secs())),
        }
    }

    /// A signature by each secret, separated by spaces.
    fn signatures(&self, signed: &str) -> String {
        let sign = |secret: &Zeroizing<Vec<u8>>| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
            mac.update(signed.as_bytes());
            Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
        };
        self.secrets.iter().filter_map(sign).collect::<Vec<_>>().join(" ")
    }
}

async fn drain(response: &mut Response) {
    let mut n_bytes = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        n_bytes += chunk.len();
        if n_bytes > ANSWER_BYTES_MAX {
            return;
        }
    }
}

fn verdict(status: StatusCode) -> Answer {
    let why = || format!("answers with status {}", status.as_u16());
    match status {
        // A conflict is with an event that it has: consumers answer so to an id that they know.
        _ if status.is_success() || status == StatusCode::CONFLICT => Answer::Accepted,
        StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::UNPROCESSABLE_ENTITY => Answer::Refused(why()),
        _ if status.is_redirection() => {
            Answer::Failed(format!("{}: a redirect, which is not followed", why()))
        }
        _ => Answer::Failed(why()),
    }
}

/// What is wrong with the connection. Callers of the API see it, so it names neither hosts nor addresses.
fn no_answer(error: &reqwest::Error) -> &'static str {
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if cause.is::<LeadsInside>() {
            return "has a name that leads only to private addresses";
        }
        let tls = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if tls.is_some_and(|tls| tls.is::<rustls::Error>()) {
            return "does not answer: the TLS handshake fails";
        }
        source = cause.source();
    }
    if error.is_connect() {
        "does not answer: no connection"
    } else {
        "does not answer: the connection ended"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(url: &str, allows_private: bool) -> Post {
        let secrets = vec![Zeroizing::new(vec![7; 24]), Zeroizing::new(vec![8; 32])];
        Post::new(url.parse().unwrap(), secrets, allows_private).unwrap()
    }

    #[test]
    fn addresses_inside_are_private() {
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "::1",
            "::",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(PRIVATE.contains(inside.parse().unwrap()), "{inside}");
        }
        for public in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "223.255.255.255", "2606:4700::1", "2a00::1"] {
            assert!(!PRIVATE.contains(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn address_is_found_however_the_url_writes_it() {
        for inside in
            ["https://127.1", "https://0x7f000001", "https://2130706433", "https://[::ffff:127.0.0.1]:8443/x"]
        {
            assert!(PRIVATE.contains_literal(&inside.parse().unwrap()), "{inside}");
        }
        for other in ["https://hooks.example", "https://1.1.1.1/127.0.0.1"] {
            assert!(!PRIVATE.contains_literal(&other.parse().unwrap()), "{other}");
        }
    }

    #[tokio::test]
    async fn name_that_leads_inside_is_not_asked() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
        let answer = post(&url, false).send("id", EpochMs(1_000), String::new()).await;
        let Answer::Failed(why) = answer else { panic!("{answer:?}") };
        assert_eq!(why, "has a name that leads only to private addresses");
        let connected = timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(connected.is_err(), "nothing connected");
        // The same name is asked where that is allowed.
        tokio::join!(async { drop(listener.accept().await.unwrap()) }, async {
            let Answer::Failed(why) = post(&url, true).send("id", EpochMs(1_000), String::new()).await else {
                panic!("there was no answer")
            };
            assert_eq!(why, "does not answer: the connection ended");
        });
    }

    #[test]
    fn every_secret_signs() {
        let signatures = post("https://hooks.example", false).signatures("id.1.{}");
        // HMAC-SHA256 by Python's `hmac`.
        let expected =
            "v1,a8T5g+WM+ocx5SfgDWAF/xeUQ/ryO04gO0NyTpX+VT0= v1,De7WuEV+mSwWRJgThpmTv9p8d1KC2fmJRJbZwr8hz9c=";
        assert_eq!(signatures, expected);
    }

    #[test]
    fn only_an_answer_about_the_event_passes_it_over() {
        let verdict = |status| verdict(StatusCode::from_u16(status).unwrap());
        assert_eq!([200, 204, 409].map(verdict), [Answer::Accepted, Answer::Accepted, Answer::Accepted]);
        for refused in [400, 413, 415, 422] {
            assert_eq!(verdict(refused), Answer::Refused(format!("answers with status {refused}")));
        }
        for failed in [100, 301, 302, 307, 401, 403, 404, 408, 410, 429, 500, 502, 503, 599] {
            assert!(matches!(verdict(failed), Answer::Failed(_)), "{failed}");
        }
    }
}
