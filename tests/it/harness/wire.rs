//! Raw TCP connections, and polling.

use serde_json::Value;
use std::fmt::Debug;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tokio::net::TcpSocket;

/// Longer than any single step takes on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Bytes(Vec<u8>),
    /// No data, and the connection is open.
    Nothing,
    /// The peer has closed the connection.
    End,
}

/// Reads once, for at most `within`. A failed read counts as the end.
pub(crate) fn receive(stream: &mut TcpStream, within: Duration) -> Received {
    stream.set_read_timeout(Some(within)).unwrap();
    let mut bytes = [0; 4096];
    match stream.read(&mut bytes) {
        Ok(0) => Received::End,
        Ok(n_bytes) => Received::Bytes(bytes[..n_bytes].to_vec()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Received::Nothing
        }
        Err(_) => Received::End,
    }
}

/// Writes `text` again and again, one byte every `every`, until the peer closes the connection; returns what it sent.
pub(crate) fn write_slowly(stream: &mut TcpStream, text: &[u8], every: Duration) -> Vec<u8> {
    let began = Instant::now();
    let mut received = Vec::new();
    for byte in text.iter().cycle() {
        assert!(began.elapsed() < TIMEOUT, "a slow client is not cut off");
        let written = stream.write_all(&[*byte]);
        match receive(stream, every) {
            Received::Nothing if written.is_ok() => {}
            Received::Bytes(bytes) => received.extend(bytes),
            Received::Nothing | Received::End => break,
        }
    }
    received
}

/// Reads until the peer closes the connection.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> String {
    let began = Instant::now();
    let mut received = Vec::new();
    loop {
        assert!(began.elapsed() < TIMEOUT, "the connection does not end");
        match receive(stream, Duration::from_secs(1)) {
            Received::Bytes(bytes) => received.extend(bytes),
            Received::Nothing => {}
            Received::End => return String::from_utf8_lossy(&received).into_owned(),
        }
    }
}

/// Reads one HTTP answer from a connection that stays open; returns status and JSON body.
pub(crate) fn read_answer(stream: &mut (impl Read + ?Sized)) -> std::io::Result<(u16, Value)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map(|length| length.parse().unwrap()).unwrap_or_default()];
    stream.read_exact(&mut body)?;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

/// A `GET` request as text.
pub(crate) fn get_request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: gateway\r\n\r\n")
}

/// Sends a `GET` request on a connection that stays open; returns status and JSON body.
pub(crate) fn get_on(stream: &mut (impl Read + Write), path: &str) -> std::io::Result<(u16, Value)> {
    stream.write_all(get_request(path).as_bytes())?;
    read_answer(stream)
}

/// Connects from the loopback address 127.0.0.`last`.
pub(crate) fn connect_from(last: u8, address: &str) -> std::io::Result<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0)))?;
        socket.connect(address.parse().unwrap()).await?.into_std()
    })?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// How often a test asks for a state that nothing tells it of.
const EVERY: Duration = Duration::from_millis(10);

/// Waits until `holds` returns true; fails after [`TIMEOUT`], with the message `what`.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    poll(|| if holds() { "" } else { what }, |failure| failure.is_empty());
}

/// Reads until `holds` accepts the value, and returns it; fails after [`TIMEOUT`], showing the last value.
#[track_caller]
pub(crate) fn poll<T: Debug>(read: impl FnMut() -> T, holds: impl Fn(&T) -> bool) -> T {
    poll_within(TIMEOUT, read, holds)
}

/// As [`poll`], with another limit. The last read begins within it.
#[track_caller]
pub(crate) fn poll_within<T: Debug>(
    limit: Duration,
    mut read: impl FnMut() -> T,
    holds: impl Fn(&T) -> bool,
) -> T {
    let began = Instant::now();
    loop {
        let is_last = began.elapsed() >= limit;
        let value = read();
        if holds(&value) {
            return value;
        }
        assert!(!is_last, "{value:#?}");
        std::thread::sleep(EVERY);
    }
}

/// As [`poll`], without blocking the thread, which may run the gateway too.
pub(crate) async fn poll_async<T: Debug>(read: impl AsyncFn() -> T, holds: impl Fn(&T) -> bool) -> T {
    let began = Instant::now();
    loop {
        let value = read().await;
        if holds(&value) {
            return value;
        }
        assert!(began.elapsed() < TIMEOUT, "{value:#?}");
        tokio::time::sleep(EVERY).await;
    }
}
