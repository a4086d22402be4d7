//! A minimal HTTP client, which sends one request at a time on one connection, and the requests of the benchmarks.

use crate::Measured;
use gateway_domain::testing::requests::approval;
use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// The bytes of a POST request.
pub(crate) fn post(path: &str, body: &Value) -> Vec<u8> {
    request(path, &body.to_string())
}

/// As [`post`], without a body.
pub(crate) fn post_nothing(path: &str) -> Vec<u8> {
    request(path, "")
}

fn request(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Measured<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// Sends a request and returns the body of its response, which must be 200.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Measured<&[u8]> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the connection was closed".into());
            }
            let Some((head, length)) = head(&self.buffer) else { continue };
            if self.buffer.len() < head + length {
                continue;
            }
            let is_ok = self.buffer.starts_with(b"HTTP/1.1 200");
            let body = self.buffer.get(head..head + length).unwrap_or_default();
            return if is_ok {
                Ok(body)
            } else {
                Err(String::from_utf8_lossy(&self.buffer).into_owned().into())
            };
        }
    }
}

/// The lengths of the head and of the body, once the head is complete.
fn head(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    Some((end, length.parse().ok()?))
}

/// Submits an operation and approves it twice; returns its id.
pub(crate) async fn submit_and_approve(
    client: &mut Client,
    path: &str,
    body: &Value,
    operations: &str,
) -> Measured<String> {
    let submitted = std::str::from_utf8(client.send(&post(path, body)).await?)?;
    let id = submitted.split("\"operation_id\":\"").nth(1).and_then(|rest| rest.get(..64));
    let id = id.ok_or("no operation id")?.to_owned();
    for subject in ["alice", "bob"] {
        client.send(&post(&format!("{operations}/{id}/approve"), &approval(subject))).await?;
    }
    Ok(id)
}
