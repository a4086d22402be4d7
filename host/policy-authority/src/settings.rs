//! The authority's settings. None has a default that trusts anyone.

use gateway_service::approvers::SignedApprovals;
use gateway_service::settings::policy::{OwnPolicy, POLICY};
use gateway_service::settings::server::CONNECTIONS;
use gateway_service::settings::{self, Described, Reader, Resolved, Section, Table, setting};
use gateway_service::telemetry::LogFormat;
use gateway_service::transport::{Limits, TlsFiles};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const AUTHORITY: Section = Section {
    name: "authority",
    heading: "Policy authority",
    settings: &[
        setting(
            "authority_key",
            "data/authority.key",
            "FILE",
            "Ed25519 seed that signs decisions: 32 bytes or hexadecimal, mode 0600; created by init",
        ),
        setting(
            "required_approvals",
            "2",
            "APPROVALS",
            "Least number of different approvers, even if the policy requires fewer",
        ),
        setting(
            "signed_approvals",
            "required",
            "off|optional|required",
            "Whether approvers sign; verified with approvers_file",
        ),
        setting(
            "approvers_file",
            "",
            "FILE",
            "The authority's own registry of the approvers' public keys, read again when it changes; must be empty while \
             signed_approvals is off",
        ),
        setting("approval_age_max_ms", "86400000", "MILLISECONDS", "Greatest age of an approval"),
        setting(
            "decision_ttl_max_ms",
            "86400000",
            "MILLISECONDS",
            "How far in the future a decision may expire",
        ),
        setting(
            "keys_without_approvals",
            "false",
            "true|false",
            "Whether keys may be created without approvals; only for development",
        ),
        setting("watch_ms", "5000", "MILLISECONDS", "Interval between readings of approvers_file"),
        setting(
            "shutdown_within_ms",
            "30000",
            "MILLISECONDS",
            "How long a stopping authority waits for requests in progress",
        ),
        setting("log", "info", "FILTER", "What is logged, as tracing filter directives"),
        setting("log_format", "auto", "auto|pretty|json", "auto is pretty in a terminal and JSON elsewhere"),
    ],
};

const SERVER: Section = Section {
    name: "server",
    heading: "Callers",
    settings: &[
        setting("bind", "127.0.0.1:9400", "ADDRESS:PORT", "Address of the authority, over mutual TLS"),
        setting(
            "admin_bind",
            "",
            "ADDRESS:PORT",
            "Address of /healthz, /readyz and /metrics, in plain HTTP; empty serves them nowhere",
        ),
        setting(
            "tls_certificate",
            "",
            "FILE",
            "The authority's certificate chain, its own certificate first, PEM",
        ),
        setting("tls_key", "", "FILE", "The certificate's private key, PEM, mode 0600"),
        setting("tls_client_ca", "", "FILE", "Certificate authorities that sign callers' certificates, PEM"),
        setting(
            "callers",
            "",
            "NAME,...",
            "DNS names in the certificates of the callers that are served: the gateway's",
        ),
    ],
};

/// All settings of the authority.
pub static TABLE: Table = Table {
    prefix: "SVC_POLICY_AUTHORITY_",
    sections: &[AUTHORITY, SERVER, CONNECTIONS, POLICY],
    production_defaults: &[],
    first: &[
        "authority_key",
        "bind",
        "tls_certificate",
        "tls_key",
        "tls_client_ca",
        "callers",
        "approvers_file",
        "policy_trust_roots",
        "permitted_recipients",
    ],
    secrets: &[],
};

/// Most approvals that may be required: a policy's verdict cannot name more subjects.
const REQUIRED_APPROVALS_MAX: u32 = 128;

/// Every setting, parsed. The rows of the table describe each.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Settings {
    pub key: PathBuf,
    pub required_approvals: u32,
    pub signed_approvals: SignedApprovals,
    pub approval_age_max_ms: u64,
    pub decision_ttl_max_ms: u64,
    pub keys_without_approvals: bool,
    pub policy: OwnPolicy,
    pub watch: Duration,
    pub shutdown_within: Duration,
    pub log_filter: String,
    pub log_format: LogFormat,
    pub bind: SocketAddr,
    pub admin_bind: Option<SocketAddr>,
    /// Given for `serve`; the other commands need none.
    pub tls: Option<TlsFiles>,
    pub limits: Limits,
}

/// The flags of the authority's settings.
pub type Flags = settings::Flags<Settings>;

impl Described for Settings {
    const TABLE: &'static Table = &TABLE;
}

impl Settings {
    /// Parses every setting and checks them against each other.
    ///
    /// # Errors
    /// One line for each fault.
    pub fn parse(resolved: &Resolved) -> Result<Self, Vec<String>> {
        let mut reader = Reader::new(resolved);
        let limits = reader.connections();
        reader.check_connections(&limits);
        let settings = Self {
            key: reader.text("authority_key").into(),
            required_approvals: reader.number("required_approvals", 0..=REQUIRED_APPROVALS_MAX),
            signed_approvals: reader.signed_approvals(),
            approval_age_max_ms: reader.milliseconds("approval_age_max_ms"),
            decision_ttl_max_ms: reader.milliseconds("decision_ttl_max_ms"),
            keys_without_approvals: reader.flag("keys_without_approvals"),
            policy: reader.own_policy(),
            watch: reader.duration("watch_ms"),
            shutdown_within: reader.duration("shutdown_within_ms"),
            log_filter: reader.text("log"),
            log_format: reader.log_format(),
            bind: reader.value("bind", "an address and a port", SocketAddr::from(([127, 0, 0, 1], 0))),
            admin_bind: reader.optional_address("admin_bind"),
            tls: reader.mutual_tls(),
            limits,
        };
        if settings.required_approvals == 0
            && matches!(settings.signed_approvals, SignedApprovals::Required(_))
        {
            reader.fault("required_approvals", "must be at least 1 while `signed_approvals` is `required`");
        }
        if reader.faults.is_empty() { Ok(settings) } else { Err(reader.faults) }
    }
}
