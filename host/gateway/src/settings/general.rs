//! The gateway's general settings, and the exceptions from the safeguards of production, which the operator must name.

use gateway_service::settings;
use gateway_service::settings::process::log_format;
use gateway_service::settings::{Reader, number, one_of};
use gateway_service::telemetry::LogFormat;
use std::collections::BTreeSet;
use std::time::Duration;

settings! {
    /// Profile, database, log and end of the process.
    #[derive(Clone, Debug)]
    pub struct General("gateway", "Gateway") {
        /// Selects the defaults, and the values that are refused
        profile = "development", "development|production" => profile: Profile = one_of(&PROFILES, Profile::Development);
        /// Safeguards that production runs without: unsigned_approvals, embedded_nodes, embedded_authority; /readyz and the log name each
        production_exceptions = "", "NAME,..." => production_exceptions: BTreeSet<Exception> = exceptions;
        /// The gateway's database: a file, or postgres://USER@HOST/DATABASE, which replicas share
        database_url = "sqlite://data/gateway.db", "URL" => database_url: String = Reader::text;
        /// Most connections to a PostgreSQL server: one writes, the others read
        database_connections = "9", "CONNECTIONS" => database_connections: u32 = number(2..=1000);
        /// Interval between searches for unfinished work
        reconcile_every_ms = "1000", "MILLISECONDS" => reconcile_every: Duration = Reader::duration;
        /// How long a stopping gateway waits for work in progress
        shutdown_within_ms = "30000", "MILLISECONDS" => shutdown_within: Duration = Reader::duration;
        /// What is logged, as tracing filter directives
        log = "info", "FILTER" => log_filter: String = Reader::text;
        /// auto is pretty in a terminal and JSON elsewhere
        log_format = "auto", "auto|pretty|json" => log_format: LogFormat = log_format;
    }
}

/// The profile, which selects the defaults and the values that are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Works without configuration; does not authenticate callers.
    Development,
    /// Has no unsafe defaults.
    Production,
}

const PROFILES: [(&str, Profile); 2] =
    [("development", Profile::Development), ("production", Profile::Production)];

gateway_domain::words! {
    /// An exception from the safeguards of production.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Exception {
        /// The policy authority's key is in the gateway's process.
        EmbeddedAuthority = "embedded_authority",
        /// The runtime nodes, and with them whole keys, are in the gateway's process.
        EmbeddedNodes = "embedded_nodes",
        /// Approvals need not be signed by their approvers: the nodes rely on the gateway.
        UnsignedApprovals = "unsigned_approvals",
    }
}

impl Exception {
    /// Logs the exception.
    pub fn warn(&self) {
        tracing::warn!(exception = self.as_str(), "a production safeguard is disabled");
    }

    /// What a deployment needs to do without the exception.
    pub(super) const fn alternative(self) -> &'static str {
        match self {
            Self::EmbeddedAuthority => "`authority_url`, a policy authority in a process of its own",
            Self::EmbeddedNodes => "`runtime_nodes`, each in a process of its own",
            Self::UnsignedApprovals => "`signed_approvals=required`",
        }
    }
}

fn exceptions(reader: &mut Reader<'_>, name: &str) -> BTreeSet<Exception> {
    let text = reader.resolved.text(name);
    let mut exceptions = BTreeSet::new();
    for given in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match Exception::ALL.into_iter().find(|known| known.as_str() == given) {
            Some(exception) => {
                exceptions.insert(exception);
            }
            None => {
                let known = Exception::ALL.map(Exception::as_str).join(", ");
                reader.fault(name, &format!("must be names among {known}, not `{given}`"));
            }
        }
    }
    exceptions
}
