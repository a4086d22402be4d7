//! The node's settings. None has a default that trusts anyone.

use gateway_domain::admission::AUTHORITIES_MAX;
use gateway_domain::ids::Hex32;
use gateway_domain::roster::{PARTICIPANT_INDEX_MAX, ParticipantIndex};
use gateway_seal::kek_source::KekSource;
use gateway_service::settings;
use gateway_service::settings::process::{Callers, Process, Running, TraceSettings};
use gateway_service::settings::rules::OwnRules;
use gateway_service::settings::{ProcessSettings, Reader, Resolved, Table, number};
use gateway_service::transport::Limits;
use std::collections::BTreeMap;
use std::path::PathBuf;

settings! {
    /// The node itself.
    #[derive(Clone, Debug)]
    pub struct Node("node", "Runtime node") {
        /// The participant that this node is, from 0
        participant = "", "INDEX" => participant: ParticipantIndex = participant;
        /// The node's database, created by init
        database = "data/node.db", "FILE" => database: PathBuf = Reader::file;
        /// Key that encrypts the node's secrets: 32 bytes or hexadecimal, in a secret file in another folder than the database
        node_key = "", "FILE" => key: KekSource = key;
        /// Instead of node_key: a passphrase to derive it from, one line, in a secret file
        node_passphrase_file = "", "FILE";
        /// Size of the node's log, which shows that the database was restored; in another folder than the database, by default beside
        /// node_key
        log_size_file = "", "FILE" => given_log_size_file: Option<PathBuf> = Reader::path;
        /// Identities of all nodes, its own included, pinned by pin
        peers_file = "data/peers.json", "FILE" => peers_file: PathBuf = Reader::file;
        /// Address of the node surface, over mutual TLS
        bind = "127.0.0.1:9300", "ADDRESS:PORT";
    }
}

settings! {
    /// What the node trusts.
    #[derive(Clone, Debug)]
    pub struct Trust("trust", "Admissions") {
        /// Public keys of the authorities whose decisions the node accepts
        authority_keys = "", "HEX,..." => authority_keys: Vec<Hex32> = Reader::public_keys;
        /// How many of them must sign a decision, at most the number of authority_keys
        authority_threshold = "1", "AUTHORITIES" => authority_threshold: usize = number(1..=AUTHORITIES_MAX);
        /// Greatest age of an approval at the admission
        approval_age_max_ms = "172800000", "MILLISECONDS" => approval_age_max_ms: u64 = Reader::milliseconds;
        /// Least number of different approvers in a role, by the node's own registry
        approver_roles = "", "ROLE=APPROVERS,..." => approver_roles: BTreeMap<String, u32> = approver_roles;
    }
}

/// All settings of a node.
pub static TABLE: Table = Table {
    prefix: "SVC_RUNTIME_NODE_",
    sections: &[
        Node::SECTION,
        Callers::SECTION,
        Limits::SECTION,
        Trust::SECTION,
        OwnRules::SECTION,
        Running::SECTION,
        TraceSettings::SECTION,
    ],
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

/// Every setting, parsed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node itself.
    pub node: Node,
    /// Where the size of its log is kept.
    pub log_size_file: PathBuf,
    /// What it trusts.
    pub trust: Trust,
    /// The rules that it checks.
    pub rules: OwnRules,
    /// Its process.
    pub process: Process,
}

/// The flags of the node's settings.
pub type Flags = settings::Flags<Settings>;

impl ProcessSettings for Settings {
    const TABLE: &'static Table = &TABLE;

    fn parse(resolved: &Resolved) -> Result<Self, Vec<String>> {
        let mut reader = Reader::new(resolved);
        let node = Node::read(&mut reader);
        let log_size_file = node.given_log_size_file.clone().unwrap_or_else(|| node.key.beside("log-size"));
        if log_size_file.parent() == node.database.parent() {
            reader.fault("log_size_file", "must be in another folder than `database`");
        }
        let process = Process::read(&mut reader, "runtime-node");
        let (trust, rules) = (Trust::read(&mut reader), OwnRules::read(&mut reader));
        rules.check(&mut reader);
        let settings = Self { node, log_size_file, trust, rules, process };
        if reader.faults.is_empty() { Ok(settings) } else { Err(reader.faults) }
    }
}

fn participant(reader: &mut Reader<'_>, name: &str) -> ParticipantIndex {
    ParticipantIndex(reader.number(name, 0..=PARTICIPANT_INDEX_MAX))
}

fn key(reader: &mut Reader<'_>, name: &str) -> KekSource {
    match (reader.path(name), reader.path("node_passphrase_file")) {
        (Some(key), None) => KekSource::File(key),
        (None, Some(passphrase)) => KekSource::Passphrase(passphrase),
        (None, None) | (Some(_), Some(_)) => {
            reader.fault(name, "must be given, or `node_passphrase_file`, and not both");
            KekSource::File(PathBuf::new())
        }
    }
}

fn approver_roles(reader: &mut Reader<'_>, name: &str) -> BTreeMap<String, u32> {
    let role = |text: &str| {
        let (role, n_approvers) = text.split_once('=')?;
        Some((role.trim().to_owned(), n_approvers.trim().parse().ok()?))
    };
    let roles: Option<BTreeMap<_, _>> = reader.list(name).map(role).collect();
    roles.unwrap_or_else(|| {
        reader.fault(name, "must be roles with numbers, such as `treasury=1,risk=1`");
        BTreeMap::new()
    })
}
