//! The gateway's settings. A flag wins over the environment, the environment over the file, the file over the default.
//!
//! Each area has a module with its settings as rows of a table, the type that they are parsed to, and the rules between
//! them. `--help`, the environment, the file and the parser use these rows. A fault is one line. Faults are reported together,
//! first those of names, then those of values.

mod approvals;
mod auth;
mod exceptions;
mod limits;
mod nodes;
mod operations;
mod policy;
mod server;

pub use approvals::Approvals;
pub use auth::{Auth, ClientSecretSource, IssuerKeys};
pub use exceptions::Exception;
pub use gateway_service::approvers::SignedApprovals;
pub use nodes::{Authority, Log, Nodes, RemoteAuthority, RemoteNodes};
pub use operations::Operations;
pub use policy::Policy;
pub use server::Server;

use gateway_service::client::ClientFiles;
use gateway_service::settings::server::{CONNECTIONS, TRACES};
use gateway_service::settings::{self, Described, Resolved, Section, Table, setting};
use gateway_service::telemetry::LogFormat;
use gateway_service::traces::Traces;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// The flags of the gateway's settings.
pub(crate) type Flags = gateway_service::settings::Flags<Settings>;

/// All settings of the gateway.
pub static TABLE: Table = Table {
    prefix: "SVC_OPERATION_GATEWAY_",
    sections: SECTIONS,
    production_defaults: PRODUCTION_DEFAULTS,
    first: &FIRST,
    secrets: &[auth::CLIENT_SECRET],
};

/// The text of each setting: see [`settings::resolve`].
///
/// # Errors
/// One line for each unknown name, and for each setting that must be given.
pub fn resolve(
    flags: &BTreeMap<String, String>,
    environment: impl IntoIterator<Item = (String, String)>,
    file: Option<&str>,
) -> Result<Resolved, Vec<String>> {
    settings::resolve(&TABLE, flags, environment, file)
}

impl Described for Settings {
    const TABLE: &'static Table = &TABLE;
}

/// Every setting, by area.
pub const SECTIONS: &[Section] = &[
    GATEWAY,
    server::SERVER,
    server::TLS,
    CONNECTIONS,
    auth::AUTH,
    policy::POLICY,
    approvals::APPROVALS,
    operations::OPERATIONS,
    nodes::AUTHORITY,
    nodes::LOG,
    nodes::NODES,
    nodes::SERVICES,
    TRACES,
];

/// Defaults of the production profile that differ from development. `None`: the setting must be given.
pub const PRODUCTION_DEFAULTS: &[(&str, Option<&str>)] = &[
    // Keys, and the identity of the log.
    ("authority_key", Some("")),
    ("log_key", None),
    ("log_origin", None),
    // Policy and authentication.
    ("policy_bundle", None),
    ("policy_trust_roots", None),
    ("auth_mode", None),
    ("tenant_required", Some("true")),
    // Conveniences of development.
    ("permitted_recipients", Some("")),
    ("separation_of_duties", Some("true")),
    ("api_docs", Some("false")),
    ("auto_provision_keys", Some("false")),
    ("signature_profile_aliases", Some("")),
    ("unknown_fields", Some("reject")),
    ("preview_rate", Some("100")),
];

/// The settings that a new deployment needs first. The short help lists only these.
pub const FIRST: [&str; 10] = [
    "profile",
    "bind",
    "tls_certificate",
    "tls_key",
    "auth_mode",
    "database_url",
    "policy_bundle",
    "policy_trust_roots",
    "authority_key",
    "log_key",
];

const GATEWAY: Section = Section {
    name: "gateway",
    heading: "Gateway",
    settings: &[
        setting(
            "profile",
            "development",
            "development|production",
            "Selects the defaults, and the values that are refused",
        ),
        setting(
            "production_exceptions",
            "",
            "NAME,...",
            "Safeguards that production runs without: unsigned_approvals, embedded_nodes, embedded_authority; /readyz and the \
             log name each",
        ),
        setting(
            "database_url",
            "sqlite://data/gateway.db",
            "URL",
            "The gateway's database: a file, or postgres://USER@HOST/DATABASE, which replicas share",
        ),
        setting(
            "database_connections",
            "9",
            "CONNECTIONS",
            "Most connections to a PostgreSQL server: one writes, the others read",
        ),
        setting(
            "reconcile_every_ms",
            "1000",
            "MILLISECONDS",
            "Interval between searches for unfinished work",
        ),
        setting(
            "shutdown_within_ms",
            "30000",
            "MILLISECONDS",
            "How long a stopping gateway waits for work in progress",
        ),
        setting("log", "info", "FILTER", "What is logged, as tracing filter directives"),
        setting("log_format", "auto", "auto|pretty|json", "auto is pretty in a terminal and JSON elsewhere"),
    ],
};

/// The profile, which selects the defaults and the values that are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Works without configuration; does not authenticate callers.
    Development,
    /// Has no unsafe defaults.
    Production,
}

/// Every setting, parsed. The rows of [`SECTIONS`] describe each.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Settings {
    pub profile: Profile,
    pub production_exceptions: BTreeSet<Exception>,
    pub database_url: String,
    pub database_connections: u32,
    pub reconcile_every: Duration,
    pub shutdown_within: Duration,
    pub log_filter: String,
    pub log_format: LogFormat,
    pub traces: Option<Traces>,
    pub server: Server,
    pub auth: Auth,
    pub tenant_required: bool,
    pub policy: Policy,
    pub approvals: Approvals,
    pub operations: Operations,
    pub authority: Authority,
    pub log: Log,
    pub nodes: Nodes,
    /// Mutual TLS to nodes and authority in processes of their own.
    pub services: Option<ClientFiles>,
}

impl Settings {
    /// Parses every setting and checks them against each other.
    ///
    /// # Errors
    /// One line for each fault.
    pub fn parse(resolved: &Resolved) -> Result<Self, Vec<String>> {
        let mut reader = Reader(settings::Reader::new(resolved));
        let mut settings = reader.settings();
        if let Some(settings) = &settings {
            reader.check_server(settings);
            reader.check_database(settings);
            reader.check_exceptions(settings);
            reader.check_services(settings);
            reader.check_approvals(settings);
            reader.check_operations(settings);
            reader.check_auth(settings);
        }
        // A key of first use has no approvals, and none that could be signed.
        if let Some(settings) = &mut settings
            && settings.approvals.signed.are_required()
        {
            settings.operations.auto_provision_keys = false;
        }
        settings.filter(|_| reader.faults.is_empty()).ok_or(reader.0.faults)
    }
}

/// Reads the settings: each area has a method for its own.
struct Reader<'a>(settings::Reader<'a>);

impl<'a> Deref for Reader<'a> {
    type Target = settings::Reader<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Reader<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Reader<'_> {
    fn check_database(&mut self, settings: &Settings) {
        let url = &settings.database_url;
        if settings.profile != Profile::Production {
            return;
        }
        if let Some(fault) = gateway_store::production_fault(url) {
            self.fault("database_url", fault);
        }
        if gateway_store::is_postgres(url)
            && settings.nodes.remote.is_none()
            && !self.has_fault("runtime_nodes")
        {
            self.fault(
                "runtime_nodes",
                "must be given with a PostgreSQL database: each replica would have other embedded nodes",
            );
        }
    }

    /// Parses every setting. `None` if one has a fault and no placeholder that would let the others be checked.
    fn settings(&mut self) -> Option<Settings> {
        let log = self.log();
        Some(Settings {
            profile: self.one_of(
                "profile",
                &[("development", Profile::Development), ("production", Profile::Production)],
                Profile::Development,
            ),
            production_exceptions: self.exceptions(),
            database_url: self.text("database_url"),
            database_connections: self.number("database_connections", 2..=1000),
            reconcile_every: self.duration("reconcile_every_ms"),
            shutdown_within: self.duration("shutdown_within_ms"),
            log_filter: self.text("log"),
            log_format: self.log_format(),
            traces: self.traces("operation-gateway", false),
            server: self.server(),
            auth: self.auth(),
            tenant_required: self.flag("tenant_required"),
            policy: self.policy(),
            approvals: self.approvals(),
            operations: self.operations(),
            authority: self.authority(),
            nodes: self.nodes(),
            services: self.services(),
            log: log?,
        })
    }
}

#[cfg(test)]
mod tests;
