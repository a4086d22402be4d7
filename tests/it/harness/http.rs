//! HTTP requests with any headers, from any loopback address, over TCP or TLS.

use super::tls::{Trust, connect};
use super::wire::{TIMEOUT, connect_from};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Result, Write};
use std::net::TcpStream;

#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// By name in lower case; of several with one name, the last.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) text: String,
}

impl Call {
    pub(crate) fn new(method: &str, path: &str, body: String) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), headers: Vec::new(), body }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path, String::new())
    }

    pub(crate) fn post(path: &str, body: &Value) -> Self {
        Self::new("POST", path, body.to_string())
    }

    /// A POST with the fields as `application/x-www-form-urlencoded`.
    pub(crate) fn form(path: &str, fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter().map(|(name, value)| format!("{name}={}", percent_encode(value)));
        let body = fields.collect::<Vec<_>>().join("&");
        Self::new("POST", path, body).header("content-type", "application/x-www-form-urlencoded")
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Sends the request on a new connection.
    pub(crate) fn send(&self, address: &str) -> Result<Answer> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        self.exchange(stream)
    }

    /// As [`Self::send`], from the loopback address 127.0.0.`last`.
    pub(crate) fn send_from(&self, last: u8, address: &str) -> Result<Answer> {
        self.exchange(connect_from(last, address)?)
    }

    /// As [`Self::send`], over TLS.
    pub(crate) fn send_tls(&self, address: &str, trust: &Trust) -> Result<Answer> {
        self.exchange(connect(address, trust)?)
    }

    fn exchange(&self, mut stream: impl Read + Write) -> Result<Answer> {
        let mut head =
            format!("{} {} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        write!(stream, "{head}content-length: {}\r\n\r\n{}", self.body.len(), self.body)?;
        let mut bytes = Vec::new();
        // A peer that closes TLS without a close_notify has still answered.
        let read = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, text)) = text.split_once("\r\n\r\n") else {
            return Err(read.err().unwrap_or_else(|| std::io::ErrorKind::UnexpectedEof.into()));
        };
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(std::io::ErrorKind::InvalidData)?;
        let headers = head.lines().filter_map(|line| line.split_once(": "));
        let headers: BTreeMap<_, _> =
            headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        if text.len() < length {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        Ok(Answer { status, headers, text: if chunked { decode_chunked(text) } else { text.to_owned() } })
    }
}

impl Answer {
    /// The body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// The JSON body; the status must be 200.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// Asserts the status and the error code.
    #[track_caller]
    pub(crate) fn fails(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.json()["error"].as_str()), (status, Some(code)), "{self:?}");
    }
}

/// Decodes a body in chunked transfer encoding.
fn decode_chunked(mut text: &str) -> String {
    let mut joined = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        joined += &rest[..length];
        text = rest[length..].strip_prefix("\r\n").unwrap_or_default();
    }
    joined
}

fn percent_encode(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    text.bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
