//! The authority's settings. None has a default that trusts anyone.

use gateway_service::approvers::{SignedApprovals, signed_approvals};
use gateway_service::settings;
use gateway_service::settings::policy::OwnPolicy;
use gateway_service::settings::process::{Callers, Process, Running, TraceSettings};
use gateway_service::settings::{ProcessSettings, Reader, Resolved, Table, number};
use gateway_service::transport::Limits;
use std::path::PathBuf;

/// Most approvals that may be required: a policy's verdict cannot name more subjects.
const REQUIRED_APPROVALS_MAX: u32 = 128;

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
        /// Least number of different approvers, even if the policy requires fewer
        required_approvals = "2", "APPROVALS" => required_approvals: u32 = number(0..=REQUIRED_APPROVALS_MAX);
        /// Whether approvers sign; verified with approvers_file
        signed_approvals = "required", "off|optional|required" => signed_approvals: SignedApprovals = signed_approvals;
        /// The authority's own registry of the approvers' public keys, read again when it changes; must be empty while signed_approvals is
        /// off
        approvers_file = "", "FILE";
        /// Greatest age of an approval
        approval_age_max_ms = "86400000", "MILLISECONDS" => approval_age_max_ms: u64 = Reader::milliseconds;
        /// How far in the future a decision may expire
        decision_ttl_max_ms = "86400000", "MILLISECONDS" => decision_ttl_max_ms: u64 = Reader::milliseconds;
        /// Whether keys may be created without approvals; only for development
        keys_without_approvals = "false", "true|false" => keys_without_approvals: bool = Reader::flag;
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
        OwnPolicy::SECTION,
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
    /// The policy that it runs.
    pub policy: OwnPolicy,
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
        let policy = OwnPolicy::read(&mut reader);
        let process = Process::read(&mut reader, "policy-authority");
        if own.required_approvals == 0 && own.signed_approvals.are_required() {
            reader.fault("required_approvals", "must be at least 1 while `signed_approvals` is `required`");
        }
        let settings = Self { own, record_size_file, policy, process };
        if reader.faults.is_empty() { Ok(settings) } else { Err(reader.faults) }
    }
}
