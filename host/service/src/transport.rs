//! Accepts connections, limits them, encrypts them, and drains them at the end. HTTP/1.1 only.
//!
//! [`Limits`] apply to connections; a router has those of a request. A connection above the limit replaces one on which the
//! server waits for the client (`connection_limit` chooses it), or is closed immediately. It is never queued, because clients
//! would wait in the queue until they give up.

mod activity;
mod connection;
mod connection_limit;
mod deadline;
mod listen;
mod tls;

pub use listen::Server;
#[cfg(feature = "client")]
pub(crate) use tls::client_config;
pub use tls::{Tls, TlsError};

use crate::Descriptions;
use crate::settings;
use crate::settings::{Reader, number};
use gateway_domain::ids::Hex32;
use metrics::{counter, gauge};
use rustls::pki_types::ServerName;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The client at the other end of a connection; an extension of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address; an IPv4 address that is mapped to IPv6 is shown as IPv4.
    pub address: IpAddr,
    /// SHA-256 of the certificate that the handshake has verified; `None` if it presented none.
    pub certificate_sha256: Option<Hex32>,
}

/// The name of the client, one of [`ClientAuth::Named`], which its certificate is for; an extension of each request. Only with
/// such names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller(pub Arc<str>);

/// Simultaneous connections of one listener, and of one address; the start compares them with the limit of open files.
const CONNECTIONS: RangeInclusive<usize> = 1..=1_000_000;

/// Bytes of request line and headers: with less, a token and a path might not fit; proxies accept far less than the upper end.
const HEADER_BYTES: RangeInclusive<usize> = 4 * 1024..=1024 * 1024;

/// Headers of a request: an ordinary client behind a proxy needs the lower end; memory for the upper end is allocated for each
/// request before it is read.
const HEADERS: RangeInclusive<usize> = 16..=1024;

settings! {
    /// Connection limits, and deadlines for clients.
    #[derive(Clone, Copy, Debug)]
    pub struct Limits("connections", "Connections") {
        /// Simultaneous connections; another one replaces an idle one or is closed
        connections_max = "1024", "CONNECTIONS" => connections_max: usize = number(CONNECTIONS);
        /// Simultaneous connections from one IPv4 address or one IPv6 /64
        connections_per_address_max = "256", "CONNECTIONS" => connections_per_address_max: usize = number(CONNECTIONS);
        /// Time limit of a TLS handshake
        tls_handshake_within_ms = "10000", "MILLISECONDS" => handshake_within: Duration = Reader::duration;
        /// Time limit for receiving a request's headers
        header_within_ms = "10000", "MILLISECONDS" => header_within: Duration = Reader::duration;
        /// How long a connection may be idle between requests
        idle_within_ms = "60000", "MILLISECONDS" => idle_within: Duration = Reader::duration;
        /// Time limit for a client that stopped reading to read the rest of a response
        write_within_ms = "30000", "MILLISECONDS" => write_within: Duration = Reader::duration;
        /// Largest request line and headers together
        header_bytes_max = "32768", "BYTES" => header_bytes_max: usize = number(HEADER_BYTES);
        /// Most headers of a request
        headers_max = "64", "HEADERS" => headers_max: usize = number(HEADERS);
    }
}

impl Limits {
    /// Checks the settings against each other.
    pub fn check(&self, reader: &mut Reader<'_>) {
        if self.connections_per_address_max > self.connections_max && !reader.has_fault("connections_max") {
            reader.fault("connections_per_address_max", "must not be more than `connections_max`");
        }
    }
}

/// Whether clients present a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// Certificates are not requested.
    Off,
    /// A certificate that is presented must be signed by these authorities, PEM.
    Optional(PathBuf),
    /// A certificate is required and must be signed by these authorities, PEM.
    Required(PathBuf),
    /// A certificate is required, must be signed by these authorities, PEM, and be for one of these names.
    Named(PathBuf, Vec<ServerName<'static>>),
}

impl ClientAuth {
    /// The names of clients, as [`Caller`] has them.
    pub fn names(&self) -> impl Iterator<Item = Arc<str>> {
        let names = match self {
            Self::Named(_, names) => names.as_slice(),
            Self::Off | Self::Optional(_) | Self::Required(_) => &[],
        };
        names.iter().map(|name| name.to_str().as_ref().into())
    }
}

/// The files of the TLS identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, PEM, the process's own certificate first.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
    /// The verification of clients' certificates.
    pub clients: ClientAuth,
}

/// The counters of this module with their descriptions.
pub(crate) const DESCRIPTIONS: Descriptions = &[
    (REFUSED, "Connections closed immediately, by reason"),
    (CUT, "Connections cut off after a missed deadline or a failed TLS handshake, by reason"),
    (EVICTED, "Connections closed to make room for others, by listener and by what the gateway waited for"),
];

/// The gauges of this module with their descriptions.
pub(crate) const GAUGES: Descriptions = &[(OPEN, "Open connections, by listener")];

const REFUSED: &str = "operation_gateway_connections_refused_total";
const CUT: &str = "operation_gateway_connections_cut_total";
const EVICTED: &str = "operation_gateway_connections_evicted_total";
const OPEN: &str = "operation_gateway_connections";

fn count_refused(reason: &'static str) {
    counter!(REFUSED, "reason" => reason).increment(1);
}

fn count_cut(reason: &'static str) {
    counter!(CUT, "reason" => reason).increment(1);
}

fn count_evicted(listener: &'static str, waiting_for: &'static str) {
    counter!(EVICTED, "listener" => listener, "waiting_for" => waiting_for).increment(1);
}

fn set_open(listener: &'static str, n_open: usize) {
    gauge!(OPEN, "listener" => listener).set(u32::try_from(n_open).unwrap_or(u32::MAX));
}

#[cfg(test)]
mod tests;
