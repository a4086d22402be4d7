//! The authority's settings. None has a default that trusts anyone.

use gateway_domain::admission::AUTHORITIES_MAX;
use gateway_domain::ids::Hex32;
use gateway_service::settings;
use gateway_service::settings::process::{Callers, Process, Running, TraceSettings};
use gateway_service::settings::rules::OwnRules;
use gateway_service::settings::{ProcessSettings, Reader, Resolved, Table, number};
use gateway_service::transport::Limits;
use std::path::PathBuf;

settings! {
    /// The authority's own settings.
    #[derive(Clone, Debug)]
    pub struct Own("authority", "Policy authority") {
        /// Ed25519 seed that signs decisions: 32 bytes or hexadecimal, in a secret file; created by init
        authority_key = "data/authority.key", "FILE" => key: PathBuf = Reader::file;
        /// What the authority decided: the payments of the last day, and its newest policy bundles; created if it is missing
        database = "data/record/authority.db", "FILE" => database: PathBuf = Reader::file;
        /// Number of decisions in the database, which shows that it was restored or removed; in another folder than the database, by
        /// default beside authority_key
        record_size_file = "", "FILE" => given_record_size_file: Option<PathBuf> = Reader::path;
        /// Public keys of all authorities whose decisions prove earlier payments to policies, with this one's, also earlier keys; empty for
        /// this one's only
        authority_keys = "", "HEX,..." => authority_keys: Vec<Hex32> = Reader::public_keys;
        /// How many of authority_keys sign a decision, as many as the nodes require
        authority_threshold = "1", "AUTHORITIES" => authority_threshold: usize = number(1..=AUTHORITIES_MAX);
        /// Greatest age of an approval
        approval_age_max_ms = "86400000", "MILLISECONDS" => approval_age_max_ms: u64 = Reader::milliseconds;
        /// Address of the authority, over mutual TLS
        bind = "127.0.0.1:9400", "ADDRESS:PORT";
    }
}

/// All settings of the authority.
pub static TABLE: Table = Table {
    prefix: "SVC_POLICY_AUTHORITY_",
    sections: &[
        Own::SECTION,
        Callers::SECTION,
        Limits::SECTION,
        OwnRules::SECTION,
        Running::SECTION,
        TraceSettings::SECTION,
    ],
    production_defaults: &[],
    first: &[
        "authority_key",
        "database",
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

/// Every setting, parsed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The authority's own.
    pub own: Own,
    /// Where the number of decisions is kept.
    pub record_size_file: PathBuf,
    /// The rules that it checks.
    pub rules: OwnRules,
    /// Its process.
    pub process: Process,
}

/// The flags of the authority's settings.
pub type Flags = settings::Flags<Settings>;

impl ProcessSettings for Settings {
    const TABLE: &'static Table = &TABLE;

    fn parse(resolved: &Resolved) -> Result<Self, Vec<String>> {
        let mut reader = Reader::new(resolved);
        let own = Own::read(&mut reader);
        let beside_key = || own.key.with_added_extension("record-size");
        let record_size_file = own.given_record_size_file.clone().unwrap_or_else(beside_key);
        if record_size_file.parent() == own.database.parent() {
            reader.fault("record_size_file", "must be in another folder than `database`");
        }
        let rules = OwnRules::read(&mut reader);
        rules.check(&mut reader);
        let process = Process::read(&mut reader, "policy-authority");
        let settings = Self { own, record_size_file, rules, process };
        if reader.faults.is_empty() { Ok(settings) } else { Err(reader.faults) }
    }
}
