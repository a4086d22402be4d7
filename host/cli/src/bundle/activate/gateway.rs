//! Requests a gateway's active bundle over plain HTTP/1.1: on the same machine, or through a proxy that adds TLS.

use crate::bundle::Error;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// The route that lists the gateway's bundles.
const PATH: &str = "/v1/policy/bundles";

/// Timeout of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(200);

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    authority: String,
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let authority = text.strip_prefix("http://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        let is_authority = |it: &&str| {
            it.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
                && !it.contains(['/', '?', '#', '@', ' ', '\r', '\n'])
        };
        let authority = authority.filter(is_authority).ok_or_else(|| Error::Url(text.to_owned()))?;
        Ok(Self { authority: authority.to_owned() })
    }
}

/// Polls until `hash` is the active bundle, the gateway reports that it refused it, or the time is over.
pub(super) fn wait(url: &Url, hash: &str, timeout: Duration) -> Result<(), Error> {
    let started = Instant::now();
    let shown = || format!("http://{}", url.authority);
    loop {
        let answer = bundles(url)?;
        let active = text(&answer, "/active/bundle_hash");
        if active == Some(hash) {
            return Ok(());
        }
        if let Some(why) = refusal(&answer, hash) {
            return Err(Error::Refused { url: shown(), why: why.to_owned() });
        }
        if started.elapsed() >= timeout {
            let found = active.map_or_else(|| "none".to_owned(), |found| format!("`{found}`"));
            let (hash, seconds) = (hash.to_owned(), timeout.as_secs());
            return Err(Error::NotActive { url: shown(), hash, seconds, found });
        }
        thread::sleep(PAUSE);
    }
}

fn text<'a>(answer: &'a Value, pointer: &str) -> Option<&'a str> {
    answer.pointer(pointer)?.as_str()
}

/// The reason why the gateway refused this bundle, if it did.
fn refusal<'a>(answer: &'a Value, hash: &str) -> Option<&'a str> {
    let refused = answer.get("refused")?.as_array()?;
    let ours = refused.iter().find(|it| text(it, "/bundle_hash") == Some(hash))?;
    text(ours, "/why")
}

fn bundles(url: &Url) -> Result<Value, Error> {
    let shown = || format!("http://{}", url.authority);
    let answer = get(&url.authority).map_err(|source| Error::Gateway { url: shown(), source })?;
    let unreadable = || Error::Gateway { url: shown(), source: io::ErrorKind::InvalidData.into() };
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(unreadable)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(unreadable)?;
    if status != 200 {
        return Err(Error::GatewayStatus { url: shown(), status });
    }
    serde_json::from_str(body).map_err(|_| unreadable())
}

/// Sends the request and reads until the gateway closes the connection.
fn get(authority: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(authority)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    write!(stream, "GET {PATH} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{Url, refusal};

    #[test]
    fn url_is_plain_http_with_a_port_and_no_path() {
        for url in ["http://127.0.0.1:9200", "http://gateway:80/", "http://[::1]:9200"] {
            assert!(url.parse::<Url>().is_ok(), "{url}");
        }
        for url in
            ["", "gateway:80", "https://gateway:443", "http://gateway", "http://:80", "http://a:b@c:80"]
        {
            assert!(url.parse::<Url>().is_err(), "{url}");
        }
        for url in ["http://gateway:80/v1", "http://gateway:80\r\nx: y:80", "http://gateway:99999"] {
            assert!(url.parse::<Url>().is_err(), "{url}");
        }
    }

    #[test]
    fn refusal_of_another_bundle_is_ignored() {
        let answer = serde_json::json!({ "refused": [{ "bundle_hash": "aa", "why": "too old" }] });
        assert_eq!((refusal(&answer, "aa"), refusal(&answer, "bb")), (Some("too old"), None));
    }
}
