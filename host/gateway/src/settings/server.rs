//! Settings of the HTTP server: addresses, TLS, connections, and the size and time of requests.

use super::{Profile, Reader, Settings, limits};
use gateway_api::origin::AllowedOrigins;
use gateway_service::settings::{Section, setting};
use gateway_service::transport::{ClientAuth, Limits, TlsFiles};
use std::net::SocketAddr;
use std::time::Duration;

pub(super) const SERVER: Section = Section {
    name: "server",
    heading: "HTTP server",
    settings: &[
        setting("bind", "127.0.0.1:9200", "ADDRESS:PORT", "Address of the API"),
        setting(
            "admin_bind",
            "",
            "ADDRESS:PORT",
            "Address of /readyz and /metrics, in plain HTTP; empty serves them on bind",
        ),
        setting("console", "true", "true|false", "Whether the console is served at /console"),
        setting("api_docs", "true", "true|false", "Whether Swagger UI is served at /docs"),
        setting(
            "allowed_origins",
            "",
            "ORIGIN,...",
            "Origins, such as https://console.example, whose pages may send requests, besides those of the gateway's own host; \
             without authentication also the names, besides loopback, by which a browser may address the gateway",
        ),
        setting(
            "unknown_fields",
            "warn",
            "warn|reject",
            "Whether members of a request body that the interface does not have are ignored with a warning, or rejected",
        ),
        setting("body_bytes_max", "65536", "BYTES", "Largest request body"),
        setting("recovery_body_bytes_max", "1048576", "BYTES", "Largest request body of a node recovery"),
        setting("audit_bytes_max", "524288", "BYTES", "Largest page of an evidence or audit export"),
        setting(
            "request_within_ms",
            "60000",
            "MILLISECONDS",
            "Time limit of a whole request; must be more than body_within_ms and answer_within_ms",
        ),
        setting("body_within_ms", "20000", "MILLISECONDS", "Time limit for receiving a request's body"),
    ],
};

pub(super) const TLS: Section = Section {
    name: "tls",
    heading: "TLS",
    settings: &[
        setting(
            "tls",
            "auto",
            "auto|on|off",
            "Whether bind uses TLS; auto uses it if there is a certificate, and requires one in production beyond loopback",
        ),
        setting(
            "tls_certificate",
            "",
            "FILE",
            "The gateway's certificate chain, its own certificate first, PEM",
        ),
        setting("tls_key", "", "FILE", "The certificate's private key, PEM, in a secret file"),
        setting(
            "tls_client_ca",
            "",
            "FILE",
            "Certificate authorities that are trusted to sign clients' certificates, PEM",
        ),
        setting(
            "tls_client_auth",
            "off",
            "off|optional|required",
            "Whether clients present a certificate; one that is presented is verified",
        ),
    ],
};

/// The HTTP server.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Server {
    pub bind: SocketAddr,
    /// `None`: readiness and metrics are served on `bind`.
    pub admin_bind: Option<SocketAddr>,
    /// `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    pub limits: Limits,
    pub console: bool,
    pub api_docs: bool,
    pub allowed_origins: AllowedOrigins,
    pub reject_unknown_fields: bool,
    pub body_bytes_max: usize,
    pub recovery_body_bytes_max: usize,
    pub audit_bytes_max: usize,
    pub body_within: Duration,
    pub request_within: Duration,
}

/// The setting `tls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsMode {
    Auto,
    On,
    Off,
}

/// The setting `tls_client_auth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientAuthMode {
    Off,
    Optional,
    Required,
}

impl Reader<'_> {
    pub(super) fn server(&mut self) -> Server {
        Server {
            bind: self.value("bind", "an address and a port", SocketAddr::from(([127, 0, 0, 1], 0))),
            admin_bind: self.optional_address("admin_bind"),
            tls: self.tls(),
            limits: self.connections(),
            console: self.flag("console"),
            api_docs: self.flag("api_docs"),
            allowed_origins: self.allowed_origins(),
            reject_unknown_fields: self.one_of("unknown_fields", &[("warn", false), ("reject", true)], true),
            body_bytes_max: self.number("body_bytes_max", limits::BODY_BYTES),
            recovery_body_bytes_max: self.number("recovery_body_bytes_max", limits::BODY_BYTES),
            audit_bytes_max: self.number("audit_bytes_max", limits::AUDIT_BYTES),
            body_within: self.duration("body_within_ms"),
            request_within: self.duration("request_within_ms"),
        }
    }

    fn allowed_origins(&mut self) -> AllowedOrigins {
        self.resolved.text("allowed_origins").parse().unwrap_or_else(|why: String| {
            self.fault("allowed_origins", &format!("must be origins, separated by commas: {why}"));
            AllowedOrigins::default()
        })
    }

    pub(super) fn check_server(&mut self, settings: &Settings) {
        let Server { bind, admin_bind, tls, limits, body_within, request_within, .. } = &settings.server;
        if settings.profile == Profile::Production
            && tls.is_none()
            && self.resolved.text("tls") == "auto"
            && !bind.ip().to_canonical().is_loopback()
        {
            self.fault(
                "tls",
                "must be `off` for plain HTTP beyond loopback in production: only behind a proxy that speaks TLS",
            );
        }
        self.check_connections(limits);
        let is_short = request_within <= body_within || *request_within <= settings.operations.answer_within;
        if is_short && !self.has_fault("request_within_ms") {
            self.fault("request_within_ms", "must be more than `body_within_ms` and `answer_within_ms`");
        }
        if admin_bind.is_some_and(|admin| admin == *bind && admin.port() != 0) {
            self.fault("admin_bind", "must be another address than `bind`");
        }
    }

    fn tls(&mut self) -> Option<TlsFiles> {
        let modes = [("auto", TlsMode::Auto), ("on", TlsMode::On), ("off", TlsMode::Off)];
        let mode = self.one_of("tls", &modes, TlsMode::Auto);
        let clients = self.client_auth();
        match (mode, self.path("tls_certificate"), self.path("tls_key")) {
            (TlsMode::Auto | TlsMode::On, Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate, key, clients })
            }
            (TlsMode::Auto, None, None) | (TlsMode::Off, None, None) => {
                if clients != ClientAuth::Off {
                    self.fault("tls_client_auth", "must be `off` without TLS");
                }
                None
            }
            (TlsMode::Off, _, _) => {
                self.fault("tls", "must not be `off` together with `tls_certificate` and `tls_key`");
                None
            }
            (TlsMode::Auto | TlsMode::On, _, _) => {
                self.fault("tls", "needs both `tls_certificate` and `tls_key`");
                None
            }
        }
    }

    fn client_auth(&mut self) -> ClientAuth {
        let modes = [
            ("off", ClientAuthMode::Off),
            ("optional", ClientAuthMode::Optional),
            ("required", ClientAuthMode::Required),
        ];
        match (self.one_of("tls_client_auth", &modes, ClientAuthMode::Off), self.path("tls_client_ca")) {
            (ClientAuthMode::Off, None) => ClientAuth::Off,
            (ClientAuthMode::Optional, Some(authorities)) => ClientAuth::Optional(authorities),
            (ClientAuthMode::Required, Some(authorities)) => ClientAuth::Required(authorities),
            (ClientAuthMode::Off, Some(_)) => {
                self.fault("tls_client_ca", "must not be given while `tls_client_auth` is `off`");
                ClientAuth::Off
            }
            (ClientAuthMode::Optional | ClientAuthMode::Required, None) => {
                self.fault("tls_client_ca", "must be given unless `tls_client_auth` is `off`");
                ClientAuth::Off
            }
        }
    }
}
