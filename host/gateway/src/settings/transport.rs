//! Settings of connections.

use super::limits;
use super::parse::{Profile, Reader, Settings};
use crate::transport::{ClientAuth, Limits, TlsFiles};
use std::net::SocketAddr;
use std::time::Duration;

/// How connections are made, and what they may take.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Where readiness and counters are served, if not where everything is.
    pub admin_bind: Option<SocketAddr>,
    /// The TLS identity; without one it is plain HTTP.
    pub tls: Option<TlsFiles>,
    /// What connections may take.
    pub limits: Limits,
    /// How long a client may take to send a body.
    pub body_within: Duration,
    /// How long a whole request may take.
    pub request_within: Duration,
}

/// Whether TLS is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Auto,
    On,
    Off,
}

/// Whether clients are asked for certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clients {
    Off,
    Optional,
    Required,
}

impl Reader<'_> {
    pub(super) fn transport(&mut self) -> Transport {
        Transport {
            admin_bind: self.admin_bind(),
            tls: self.tls(),
            limits: Limits {
                connections_max: self.size("connections_max", limits::CONNECTIONS),
                connections_per_address_max: self.size("connections_per_address_max", limits::CONNECTIONS),
                handshake_within: self.duration("tls_handshake_within_ms"),
                header_within: self.duration("header_within_ms"),
                idle_within: self.duration("idle_within_ms"),
                write_within: self.duration("write_within_ms"),
                header_bytes_max: self.size("header_bytes_max", limits::HEADER_BYTES),
                headers_max: self.size("headers_max", limits::HEADERS),
            },
            body_within: self.duration("body_within_ms"),
            request_within: self.duration("request_within_ms"),
        }
    }

    /// What is fine alone and wrong together.
    pub(super) fn check_transport(&mut self, settings: &Settings) {
        let Transport { admin_bind, tls, limits, body_within, request_within } = &settings.transport;
        if settings.profile == Profile::Production
            && tls.is_none()
            && self.resolved.text("tls") == "auto"
            && !settings.bind.ip().to_canonical().is_loopback()
        {
            self.fault(
                "tls",
                "must be `off` for plain HTTP beyond loopback in production: only behind a proxy that speaks TLS",
            );
        }
        if limits.connections_per_address_max > limits.connections_max && !self.is_blamed("connections_max") {
            self.fault("connections_per_address_max", "must not be more than `connections_max`");
        }
        let is_short = request_within <= body_within || *request_within <= settings.answer_within;
        if is_short && !self.is_blamed("request_within_ms") {
            self.fault("request_within_ms", "must be more than `body_within_ms` and `answer_within_ms`");
        }
        if admin_bind.is_some_and(|admin| admin == settings.bind && admin.port() != 0) {
            self.fault("admin_bind", "must be another address than `bind`");
        }
    }

    fn admin_bind(&mut self) -> Option<SocketAddr> {
        if self.resolved.text("admin_bind").is_empty() {
            return None;
        }
        Some(self.value("admin_bind", "an address and a port", SocketAddr::from(([127, 0, 0, 1], 0))))
    }

    fn tls(&mut self) -> Option<TlsFiles> {
        let asked = [("auto", Asked::Auto), ("on", Asked::On), ("off", Asked::Off)];
        let asked = self.one_of("tls", &asked, Asked::Auto);
        let clients = self.clients();
        match (asked, self.path("tls_certificate"), self.path("tls_key")) {
            (Asked::Auto | Asked::On, Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate, key, clients })
            }
            (Asked::Auto, None, None) | (Asked::Off, None, None) => {
                if clients != ClientAuth::Off {
                    self.fault("tls_client_auth", "must be `off` without TLS");
                }
                None
            }
            (Asked::Off, _, _) => {
                self.fault("tls", "must not be `off` together with `tls_certificate` and `tls_key`");
                None
            }
            (Asked::Auto | Asked::On, _, _) => {
                self.fault("tls", "needs both `tls_certificate` and `tls_key`");
                None
            }
        }
    }

    fn clients(&mut self) -> ClientAuth {
        let asked = [("off", Clients::Off), ("optional", Clients::Optional), ("required", Clients::Required)];
        match (self.one_of("tls_client_auth", &asked, Clients::Off), self.path("tls_client_ca")) {
            (Clients::Off, None) => ClientAuth::Off,
            (Clients::Optional, Some(authorities)) => ClientAuth::Optional(authorities),
            (Clients::Required, Some(authorities)) => ClientAuth::Required(authorities),
            (Clients::Off, Some(_)) => {
                self.fault("tls_client_ca", "must not be given while `tls_client_auth` is `off`");
                ClientAuth::Off
            }
            (Clients::Optional | Clients::Required, None) => {
                self.fault("tls_client_ca", "must be given unless `tls_client_auth` is `off`");
                ClientAuth::Off
            }
        }
    }
}
