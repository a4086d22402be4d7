//! Settings that every process has: its log, and the limits of its connections.

use super::{Reader, Section, setting};
use crate::telemetry::LogFormat;
use crate::traces::{self, Traces};
use crate::transport::{ClientAuth, Limits, TlsFiles};
use gateway_domain::ids::Hex32;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// Simultaneous connections of one listener, and of one address; the start compares them with the limit of open files.
const CONNECTIONS_RANGE: RangeInclusive<usize> = 1..=1_000_000;

/// Bytes of request line and headers: with less, a token and a path might not fit; proxies accept far less than the upper end.
const HEADER_BYTES: RangeInclusive<usize> = 4 * 1024..=1024 * 1024;

/// Headers of a request: an ordinary client behind a proxy needs the lower end; memory for the upper end is allocated for each
/// request before it is read.
const HEADERS: RangeInclusive<usize> = 16..=1024;

/// Limits of connections.
pub const CONNECTIONS: Section = Section {
    name: "connections",
    heading: "Connections",
    settings: &[
        setting(
            "connections_max",
            "1024",
            "CONNECTIONS",
            "Simultaneous connections; another one replaces an idle one or is closed",
        ),
        setting(
            "connections_per_address_max",
            "256",
            "CONNECTIONS",
            "Simultaneous connections from one IPv4 address or one IPv6 /64",
        ),
        setting("tls_handshake_within_ms", "10000", "MILLISECONDS", "Time limit of a TLS handshake"),
        setting("header_within_ms", "10000", "MILLISECONDS", "Time limit for receiving a request's headers"),
        setting(
            "idle_within_ms",
            "60000",
            "MILLISECONDS",
            "How long a connection may be idle between requests",
        ),
        setting(
            "write_within_ms",
            "30000",
            "MILLISECONDS",
            "Time limit for a client that stopped reading to read the rest of a response",
        ),
        setting("header_bytes_max", "32768", "BYTES", "Largest request line and headers together"),
        setting("headers_max", "64", "HEADERS", "Most headers of a request"),
    ],
};

/// Traces, which a collector receives.
pub const TRACES: Section = Section {
    name: "traces",
    heading: "Traces",
    settings: &[
        setting(
            "otlp_endpoint",
            "",
            "http://HOST:PORT",
            "OpenTelemetry collector that gets the traces (OTLP, protobuf over plain HTTP); empty for no traces",
        ),
        setting(
            "trace_ratio",
            "0.1",
            "0..1",
            "Share of traces that are recorded; behind the gateway, of those that no caller decided on",
        ),
        setting(
            "trace_service",
            "",
            "NAME",
            "The process's name in the traces; empty for the program's name",
        ),
    ],
};

impl Reader<'_> {
    /// The settings of [`TRACES`]. `program` is the default name.
    pub fn traces(&mut self, program: &str, follows_caller: bool) -> Option<Traces> {
        let ratio: f64 = self.value("trace_ratio", "a number from 0 to 1", 0.0);
        if !(0.0..=1.0).contains(&ratio) {
            self.fault("trace_ratio", "must be a number from 0 to 1");
        }
        let name = self.resolved.text("trace_service");
        let service = if name.is_empty() { program } else { name }.to_owned();
        if self.resolved.text("otlp_endpoint").is_empty() {
            return None;
        }
        // A credential in a URL must not be in a message.
        let Some(collector) = traces::collector_address(self.resolved.text("otlp_endpoint")) else {
            self.fault("otlp_endpoint", "must be `http://HOST:PORT`, without credentials");
            return None;
        };
        Some(Traces { collector, ratio, service, follows_caller })
    }

    /// The settings of [`CONNECTIONS`].
    pub fn connections(&mut self) -> Limits {
        Limits {
            connections_max: self.number("connections_max", CONNECTIONS_RANGE),
            connections_per_address_max: self.number("connections_per_address_max", CONNECTIONS_RANGE),
            handshake_within: self.duration("tls_handshake_within_ms"),
            header_within: self.duration("header_within_ms"),
            idle_within: self.duration("idle_within_ms"),
            write_within: self.duration("write_within_ms"),
            header_bytes_max: self.number("header_bytes_max", HEADER_BYTES),
            headers_max: self.number("headers_max", HEADERS),
        }
    }

    /// Checks the settings of [`CONNECTIONS`] against each other.
    pub fn check_connections(&mut self, limits: &Limits) {
        if limits.connections_per_address_max > limits.connections_max && !self.has_fault("connections_max") {
            self.fault("connections_per_address_max", "must not be more than `connections_max`");
        }
    }

    /// An address that may be empty.
    pub fn optional_address(&mut self, name: &str) -> Option<SocketAddr> {
        if self.resolved.text(name).is_empty() {
            return None;
        }
        Some(self.value(name, "an address and a port", SocketAddr::from(([127, 0, 0, 1], 0))))
    }

    /// The files of mutual TLS, from the settings `tls_certificate`, `tls_key`, `tls_client_ca` and `callers`: all of them or none.
    pub fn mutual_tls(&mut self) -> Option<TlsFiles> {
        let names = self.callers();
        let files = ["tls_certificate", "tls_key", "tls_client_ca"].map(|name| self.path(name));
        match files {
            [Some(certificate), Some(key), Some(authorities)] if !names.is_empty() => {
                Some(TlsFiles { certificate, key, clients: ClientAuth::Named(authorities, names) })
            }
            [None, None, None] if names.is_empty() => None,
            _ => {
                self.fault(
                    "tls_certificate",
                    "must be given together with `tls_key`, `tls_client_ca` and `callers`",
                );
                None
            }
        }
    }

    fn callers(&mut self) -> Vec<ServerName<'static>> {
        let names = self.list("callers").map(|name| ServerName::try_from(name.to_owned()));
        names.collect::<Result<_, _>>().unwrap_or_else(|_| {
            self.fault("callers", "must be DNS names, separated by commas");
            Vec::new()
        })
    }

    /// Ed25519 public keys, separated by commas.
    pub fn public_keys(&mut self, name: &str) -> Vec<Hex32> {
        let keys: Result<Vec<Hex32>, _> = self.list(name).map(str::parse).collect();
        keys.unwrap_or_else(|_| {
            self.fault(name, "must be public keys of 64 lowercase hexadecimal digits, separated by commas");
            Vec::new()
        })
    }

    /// The texts between the commas of a setting, without those that are empty.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &str> + use<'_> {
        self.resolved.text(name).split(',').map(str::trim).filter(|text| !text.is_empty())
    }

    /// The setting `log_format`.
    pub fn log_format(&mut self) -> LogFormat {
        self.one_of(
            "log_format",
            &[("auto", LogFormat::Auto), ("pretty", LogFormat::Pretty), ("json", LogFormat::Json)],
            LogFormat::Json,
        )
    }
}
