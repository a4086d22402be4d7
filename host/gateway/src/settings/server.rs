//! Settings of the HTTP server: addresses, TLS, connections, and the size and time of requests.

use super::limits;
use gateway_api::origin::AllowedOrigins;
use gateway_service::settings;
use gateway_service::settings::{Reader, number, one_of};
use gateway_service::transport::{ClientAuth, TlsFiles};
use std::net::SocketAddr;
use std::time::Duration;

settings! {
    /// The HTTP server.
    #[derive(Clone, Debug)]
    pub struct Server("server", "HTTP server") {
        /// Address of the API
        bind = "127.0.0.1:9200", "ADDRESS:PORT" => bind: SocketAddr = Reader::address;
        /// Address of /readyz and /metrics, in plain HTTP; empty serves them on bind
        admin_bind = "", "ADDRESS:PORT" => admin_bind: Option<SocketAddr> = Reader::optional_address;
        /// Whether the console is served at /console
        console = "true", "true|false" => console: bool = Reader::flag;
        /// Whether Swagger UI is served at /docs
        api_docs = "true", "true|false" => api_docs: bool = Reader::flag;
        /// Origins, such as https://console.example, whose pages may send requests, besides those of the gateway's own host; without
        /// authentication also the names, besides loopback, by which a browser may address the gateway
        allowed_origins = "", "ORIGIN,..." => allowed_origins: AllowedOrigins = allowed_origins;
        /// Whether members of a request body that the interface does not have are ignored with a warning, or rejected
        unknown_fields = "warn", "warn|reject" => reject_unknown_fields: bool = one_of(&[("warn", false), ("reject", true)], true);
        /// Largest request body
        body_bytes_max = "65536", "BYTES" => body_bytes_max: usize = number(limits::BODY_BYTES);
        /// Largest request body of a node recovery
        recovery_body_bytes_max = "1048576", "BYTES" => recovery_body_bytes_max: usize = number(limits::BODY_BYTES);
        /// Largest page of an evidence or audit export
        audit_bytes_max = "524288", "BYTES" => audit_bytes_max: usize = number(limits::AUDIT_BYTES);
        /// Time limit of a whole request; must be more than body_within_ms and answer_within_ms
        request_within_ms = "60000", "MILLISECONDS" => request_within: Duration = Reader::duration;
        /// Time limit for receiving a request's body
        body_within_ms = "20000", "MILLISECONDS" => body_within: Duration = Reader::duration;
    }
}

settings! {
    /// TLS of the HTTP server; without files it is plain HTTP.
    #[derive(Clone, Debug)]
    pub struct Tls("tls", "TLS") {
        /// Whether bind uses TLS; auto uses it if there is a certificate, and requires one in production beyond loopback
        tls = "auto", "auto|on|off" => files: Option<TlsFiles> = tls;
        /// The gateway's certificate chain, its own certificate first, PEM
        tls_certificate = "", "FILE";
        /// The certificate's private key, PEM, in a secret file
        tls_key = "", "FILE";
        /// Certificate authorities that are trusted to sign clients' certificates, PEM
        tls_client_ca = "", "FILE";
        /// Whether clients present a certificate; one that is presented is verified
        tls_client_auth = "off", "off|optional|required";
    }
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

fn allowed_origins(reader: &mut Reader<'_>, name: &str) -> AllowedOrigins {
    reader.resolved.text(name).parse().unwrap_or_else(|why: String| {
        reader.fault(name, &format!("must be origins, separated by commas: {why}"));
        AllowedOrigins::default()
    })
}

fn tls(reader: &mut Reader<'_>, name: &str) -> Option<TlsFiles> {
    let modes = [("auto", TlsMode::Auto), ("on", TlsMode::On), ("off", TlsMode::Off)];
    let mode = reader.one_of(name, &modes, TlsMode::Auto);
    let clients = client_auth(reader);
    match (mode, reader.path("tls_certificate"), reader.path("tls_key")) {
        (TlsMode::Auto | TlsMode::On, Some(certificate), Some(key)) => {
            Some(TlsFiles { certificate, key, clients })
        }
        (TlsMode::Auto, None, None) | (TlsMode::Off, None, None) => {
            if clients != ClientAuth::Off {
                reader.fault("tls_client_auth", "must be `off` without TLS");
            }
            None
        }
        (TlsMode::Off, _, _) => {
            reader.fault(name, "must not be `off` together with `tls_certificate` and `tls_key`");
            None
        }
        (TlsMode::Auto | TlsMode::On, _, _) => {
            reader.fault(name, "needs both `tls_certificate` and `tls_key`");
            None
        }
    }
}

fn client_auth(reader: &mut Reader<'_>) -> ClientAuth {
    let modes = [
        ("off", ClientAuthMode::Off),
        ("optional", ClientAuthMode::Optional),
        ("required", ClientAuthMode::Required),
    ];
    match (reader.one_of("tls_client_auth", &modes, ClientAuthMode::Off), reader.path("tls_client_ca")) {
        (ClientAuthMode::Off, None) => ClientAuth::Off,
        (ClientAuthMode::Optional, Some(authorities)) => ClientAuth::Optional(authorities),
        (ClientAuthMode::Required, Some(authorities)) => ClientAuth::Required(authorities),
        (ClientAuthMode::Off, Some(_)) => {
            reader.fault("tls_client_ca", "must not be given while `tls_client_auth` is `off`");
            ClientAuth::Off
        }
        (ClientAuthMode::Optional | ClientAuthMode::Required, None) => {
            reader.fault("tls_client_ca", "must be given unless `tls_client_auth` is `off`");
            ClientAuth::Off
        }
    }
}
