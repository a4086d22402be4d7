//! The gateway's settings. A flag wins over the environment, the environment over the file, the file over the default.
//!
//! Each area has a module that states its settings once; `parse` reads them all, and has the rules between areas. A fault is one line.
//! Faults are reported together, first those of names, then those of values.

mod approvals;
mod auth;
mod general;
mod limits;
mod nodes;
mod operations;
mod parse;
mod policy;
mod server;

pub use approvals::Approvals;
pub use auth::{Auth, Authentication, ClientSecretSource, IssuerKeys};
pub use gateway_service::approvers::SignedApprovals;
pub use general::{Exception, General, Profile};
pub use nodes::{Authority, Log, Nodes, RemoteAuthority, RemoteNodes, Services};
pub use operations::Operations;
pub use policy::Policy;
pub use server::{Server, Tls};

use gateway_domain::log::KeyName;
use gateway_service::client::ClientFiles;
use gateway_service::settings::process::TraceSettings;
use gateway_service::settings::{self, Resolved, Section, Table};
use gateway_service::traces::Traces;
use gateway_service::transport::Limits;
use std::collections::BTreeMap;

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

/// Every setting, by area.
pub const SECTIONS: &[Section] = &[
    General::SECTION,
    Server::SECTION,
    Tls::SECTION,
    Limits::SECTION,
    Authentication::SECTION,
    Policy::SECTION,
    Approvals::SECTION,
    Operations::SECTION,
    Authority::SECTION,
    Log::SECTION,
    Nodes::SECTION,
    Services::SECTION,
    TraceSettings::SECTION,
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

/// Every setting, parsed, by area.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the type of each area describes it")]
pub struct Settings {
    pub general: General,
    pub traces: Option<Traces>,
    pub server: Server,
    pub tls: Tls,
    pub limits: Limits,
    pub auth: Authentication,
    pub policy: Policy,
    pub approvals: Approvals,
    pub operations: Operations,
    pub authority: Authority,
    pub log: Log,
    /// The setting `log_origin`.
    pub log_origin: KeyName,
    pub nodes: Nodes,
    /// Mutual TLS to nodes and authority in processes of their own.
    pub services: Option<ClientFiles>,
}

#[cfg(test)]
mod tests;
