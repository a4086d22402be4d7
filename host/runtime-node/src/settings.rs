//! The node's settings. None has a default that trusts anyone.

use gateway_domain::admission::AUTHORITIES_MAX;
use gateway_domain::ids::Hex32;
use gateway_domain::roster::{PARTICIPANT_INDEX_MAX, ParticipantIndex};
use gateway_seal::kek_source::KekSource;
use gateway_service::approvers::SignedApprovals;
use gateway_service::settings::policy::{OwnPolicy, POLICY};
use gateway_service::settings::process::{CALLERS, PROCESS, Process};
use gateway_service::settings::server::{CONNECTIONS, TRACES};
use gateway_service::settings::{self, Described, Reader, Resolved, Section, Table, setting};
use std::collections::BTreeMap;
use std::path::PathBuf;

const NODE: Section = Section {
    name: "node",
    heading: "Runtime node",
    settings: &[
        setting("participant", "", "INDEX", "The participant that this node is, from 0"),
        setting("database", "data/node.db", "FILE", "The node's database, created by init"),
        setting(
            "node_key",
            "",
            "FILE",
            "Key that encrypts the node's secrets: 32 bytes or hexadecimal, in a secret file in another folder than the database",
        ),
        setting(
            "node_passphrase_file",
            "",
            "FILE",
            "Instead of node_key: a passphrase to derive it from, one line, in a secret file",
        ),
        setting(
            "log_size_file",
            "",
            "FILE",
            "Size of the node's log, which shows that the database was restored; in another folder than the database, by default beside node_key",
        ),
        setting(
            "peers_file",
            "data/peers.json",
            "FILE",
            "Identities of all nodes, its own included, pinned by pin",
        ),
        setting("bind", "127.0.0.1:9300", "ADDRESS:PORT", "Address of the node surface, over mutual TLS"),
    ],
};

const TRUST: Section = Section {
    name: "trust",
    heading: "Admissions",
    settings: &[
        setting(
            "authority_keys",
            "",
            "HEX,...",
            "Public keys of the authorities whose decisions the node accepts",
        ),
        setting(
            "authority_threshold",
            "1",
            "AUTHORITIES",
            "How many of them must sign a decision, at most the number of authority_keys",
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
            "The node's own registry of the approvers' public keys, read again when it changes; must be empty while signed_approvals is off",
        ),
        setting(
            "approval_age_max_ms",
            "172800000",
            "MILLISECONDS",
            "Greatest age of an approval at the admission",
        ),
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
        setting(
            "approver_roles",
            "",
            "ROLE=APPROVERS,...",
            "Least number of different approvers in a role, by the node's own registry",
        ),
    ],
};

/// All settings of a node.
pub static TABLE: Table = Table {
    prefix: "SVC_RUNTIME_NODE_",
    sections: &[NODE, CALLERS, CONNECTIONS, TRUST, POLICY, PROCESS, TRACES],
    production_defaults: &[],
    first: &[
        "participant",
        "database",
        "node_key",
        "peers_file",
        "bind",
        "tls_certificate",
        "tls_key",
        "tls_client_ca",
        "callers",
        "authority_keys",
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
    pub participant: ParticipantIndex,
    pub database: PathBuf,
    pub key: KekSource,
    pub log_size_file: PathBuf,
    pub peers_file: PathBuf,
    pub process: Process,
    pub authority_keys: Vec<Hex32>,
    pub authority_threshold: usize,
    pub required_approvals: u32,
    pub signed_approvals: SignedApprovals,
    pub approval_age_max_ms: u64,
    pub decision_ttl_max_ms: u64,
    pub keys_without_approvals: bool,
    pub policy: OwnPolicy,
    pub approver_roles: BTreeMap<String, u32>,
}

/// The flags of the node's settings.
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
        let settings = read(&mut reader);
        if settings.required_approvals == 0 && settings.signed_approvals.are_required() {
            reader.fault("required_approvals", "must be at least 1 while `signed_approvals` is `required`");
        }
        if reader.faults.is_empty() { Ok(settings) } else { Err(reader.faults) }
    }
}

fn read(reader: &mut Reader<'_>) -> Settings {
    let (database, key) = (PathBuf::from(reader.text("database")), key(reader));
    let log_size_file = reader.path("log_size_file").unwrap_or_else(|| key.beside("log-size"));
    if log_size_file.parent() == database.parent() {
        reader.fault("log_size_file", "must be in another folder than `database`");
    }
    Settings {
        participant: ParticipantIndex(reader.number("participant", 0..=PARTICIPANT_INDEX_MAX)),
        database,
        key,
        log_size_file,
        peers_file: reader.text("peers_file").into(),
        process: reader.process("runtime-node"),
        authority_keys: reader.public_keys("authority_keys"),
        authority_threshold: reader.number("authority_threshold", 1..=AUTHORITIES_MAX),
        required_approvals: reader.number("required_approvals", 0..=REQUIRED_APPROVALS_MAX),
        signed_approvals: reader.signed_approvals(),
        approval_age_max_ms: reader.milliseconds("approval_age_max_ms"),
        decision_ttl_max_ms: reader.milliseconds("decision_ttl_max_ms"),
        keys_without_approvals: reader.flag("keys_without_approvals"),
        policy: reader.own_policy(),
        approver_roles: approver_roles(reader),
    }
}

fn key(reader: &mut Reader<'_>) -> KekSource {
    match (reader.path("node_key"), reader.path("node_passphrase_file")) {
        (Some(key), None) => KekSource::File(key),
        (None, Some(passphrase)) => KekSource::Passphrase(passphrase),
        (None, None) | (Some(_), Some(_)) => {
            reader.fault("node_key", "must be given, or `node_passphrase_file`, and not both");
            KekSource::File(PathBuf::new())
        }
    }
}

fn approver_roles(reader: &mut Reader<'_>) -> BTreeMap<String, u32> {
    let texts =
        reader.resolved.text("approver_roles").split(',').map(str::trim).filter(|text| !text.is_empty());
    let role = |text: &str| {
        let (role, n_approvers) = text.split_once('=')?;
        Some((role.trim().to_owned(), n_approvers.trim().parse().ok()?))
    };
    let roles: Option<BTreeMap<_, _>> = texts.map(role).collect();
    roles.unwrap_or_else(|| {
        reader.fault("approver_roles", "must be roles with numbers, such as `treasury=1,risk=1`");
        BTreeMap::new()
    })
}
