//! The authority's settings. None has a default that trusts anyone.

use gateway_service::approvers::SignedApprovals;
use gateway_service::settings::policy::{OwnPolicy, POLICY};
use gateway_service::settings::process::{CALLERS, PROCESS, Process};
use gateway_service::settings::server::{CONNECTIONS, TRACES};
use gateway_service::settings::{self, Described, Reader, Resolved, Section, Table, setting};
use std::path::PathBuf;

const AUTHORITY: Section = Section {
    name: "authority",
    heading: "Policy authority",
    settings: &[
        setting(
            "authority_key",
            "data/authority.key",
            "FILE",
            "Ed25519 seed that signs decisions: 32 bytes or hexadecimal, in a secret file; created by init",
        ),
        setting(
            "database",
            "data/record/authority.db",
            "FILE",
            "What the authority decided: the payments of the last day, and its newest policy bundles; created if it is missing",
        ),
        setting(
            "record_size_file",
            "",
            "FILE",
            "Number of decisions in the database, which shows that it was restored or removed; in another folder than the database, by \
             default beside authority_key",
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
        setting("bind", "127.0.0.1:9400", "ADDRESS:PORT", "Address of the authority, over mutual TLS"),
    ],
};

/// All settings of the authority.
pub static TABLE: Table = Table {
    prefix: "SVC_POLICY_AUTHORITY_",
    sections: &[AUTHORITY, CALLERS, CONNECTIONS, POLICY, PROCESS, TRACES],
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

/// Most approvals that may be required: a policy's verdict cannot name more subjects.
const REQUIRED_APPROVALS_MAX: u32 = 128;

/// Every setting, parsed. The rows of the table describe each.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Settings {
    pub key: PathBuf,
    pub database: PathBuf,
    pub record_size_file: PathBuf,
    pub required_approvals: u32,
    pub signed_approvals: SignedApprovals,
    pub approval_age_max_ms: u64,
    pub decision_ttl_max_ms: u64,
    pub keys_without_approvals: bool,
    pub policy: OwnPolicy,
    pub process: Process,
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
        let (key, database): (PathBuf, PathBuf) =
            (reader.text("authority_key").into(), reader.text("database").into());
        let record_size_file = reader.path("record_size_file");
        let record_size_file = record_size_file.unwrap_or_else(|| key.with_added_extension("record-size"));
        if record_size_file.parent() == database.parent() {
            reader.fault("record_size_file", "must be in another folder than `database`");
        }
        let settings = Self {
            key,
            database,
            record_size_file,
            required_approvals: reader.number("required_approvals", 0..=REQUIRED_APPROVALS_MAX),
            signed_approvals: reader.signed_approvals(),
            approval_age_max_ms: reader.milliseconds("approval_age_max_ms"),
            decision_ttl_max_ms: reader.milliseconds("decision_ttl_max_ms"),
            keys_without_approvals: reader.flag("keys_without_approvals"),
            policy: reader.own_policy(),
            process: reader.process("policy-authority"),
        };
        if settings.required_approvals == 0 && settings.signed_approvals.are_required() {
            reader.fault("required_approvals", "must be at least 1 while `signed_approvals` is `required`");
        }
        if reader.faults.is_empty() { Ok(settings) } else { Err(reader.faults) }
    }
}
