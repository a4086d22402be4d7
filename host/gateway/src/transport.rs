//! Connections: accepted, limited, encrypted, timed, and drained at the end.
//!
//! HTTP/1.1 only. What a connection may take, in numbers and in time, is in [`Limits`]; what one request may take is the
//! router's (`gateway_api::layers`). A connection beyond the limits takes the place of one that is not used
//! (`connection_limit` says which), or is closed at once. It never waits: behind a queue that nobody works off, every client
//! would wait until it gives up.

mod activity;
mod connection;
mod connection_limit;
mod deadline;
mod listen;
mod tls;

pub use listen::Server;
pub use tls::{Tls, TlsError};

use metrics::{counter, gauge};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;

/// What the clients of one address may take of the server, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections_max: usize,
    /// Of these, from one address. Addresses of IPv6 count by their first 64 bits: whoever has one has all of them.
    pub connections_per_address_max: usize,
    /// From connection to the end of the TLS handshake.
    pub handshake_within: Duration,
    /// From the first byte of a request, or from the connection's beginning, to the end of its headers.
    pub header_within: Duration,
    /// From an answer to the first byte of the next request.
    pub idle_within: Duration,
    /// From the moment in which the client takes no more of an answer to the end of it.
    pub write_within: Duration,
    /// Request line and headers together, bytes.
    pub header_bytes_max: usize,
    /// Headers of a request.
    pub headers_max: usize,
}

/// Whether clients must show a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// None is asked for.
    Off,
    /// One that is shown must be signed by these, PEM.
    Optional(PathBuf),
    /// One must be shown, signed by these, PEM.
    Required(PathBuf),
}

/// Where the TLS identity is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, PEM, the gateway's own first.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// Clients' certificates.
    pub clients: ClientAuth,
}

/// Counters of this module, each with what it counts.
pub(crate) const DESCRIPTIONS: &[(&str, &str)] = &[
    (REFUSED, "Connections closed at once, by reason"),
    (CUT, "Connections cut off, by reason"),
    (EVICTED, "Connections closed to make room for others, by listener and what the client was waited for"),
];

const REFUSED: &str = "operation_gateway_connections_refused_total";
const CUT: &str = "operation_gateway_connections_cut_total";
const EVICTED: &str = "operation_gateway_connections_evicted_total";
const OPEN: &str = "operation_gateway_connections";

fn refused(reason: &'static str) {
    counter!(REFUSED, "reason" => reason).increment(1);
}

fn cut(reason: &'static str) {
    counter!(CUT, "reason" => reason).increment(1);
}

fn evicted(listener: &'static str, waiting_for: &'static str) {
    counter!(EVICTED, "listener" => listener, "waiting_for" => waiting_for).increment(1);
}

fn open_now(listener: &'static str, n_open: usize) {
    gauge!(OPEN, "listener" => listener).set(u32::try_from(n_open).unwrap_or(u32::MAX));
}

/// Waits for the word to stop; a sender that is gone has said it.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _sender_gone = stopping.wait_for(|stop| *stop).await.map(|_| ());
}

#[cfg(test)]
mod tests;
