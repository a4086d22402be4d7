//! Settings of the runtime nodes, the policy authority, and the signed log of all events.

use super::{Reader, limits};
use gateway_api::wire::names::is_visible;
use gateway_domain::ids::Hex32;
use gateway_domain::log::KeyName;
use gateway_domain::roster::PARTICIPANT_INDEX_MAX;
use gateway_seal::kek_source::KekSource;
use gateway_service::settings::{Section, setting};
use std::path::{Path, PathBuf};

pub(super) const AUTHORITY: Section = Section {
    name: "authority",
    heading: "Policy authority",
    settings: &[
        setting(
            "authority_key",
            "data/authority.key",
            "FILE",
            "Ed25519 seed that signs admission decisions: 32 bytes or hexadecimal, mode 0600; created on first start in development",
        ),
        setting(
            "authority_keys_previous",
            "",
            "HEX,...",
            "Earlier public keys of the authority whose decisions are still valid",
        ),
    ],
};

pub(super) const LOG: Section = Section {
    name: "log",
    heading: "Signed log of all events",
    settings: &[
        setting(
            "log_key",
            "data/log.key",
            "FILE",
            "Ed25519 seed that signs checkpoints of the log: 32 bytes or hexadecimal, mode 0600, not authority_key; created on \
             first start in development",
        ),
        setting(
            "log_origin",
            "operation-gateway.local/log",
            "NAME",
            "The log's name in checkpoints: a URL without scheme, unique to this log, without white space and +",
        ),
    ],
};

pub(super) const NODES: Section = Section {
    name: "nodes",
    heading: "Runtime nodes",
    settings: &[
        setting("node_directory", "data/nodes", "DIRECTORY", "Databases of the embedded nodes"),
        setting(
            "node_key",
            "",
            "FILE",
            "Key that encrypts the nodes' shares: 32 bytes or hexadecimal, mode 0600; created on first start in development; \
             empty for node.key in the node directory",
        ),
        setting(
            "node_passphrase_file",
            "",
            "FILE",
            "Instead of node_key: a passphrase to derive it from, one line, mode 0600",
        ),
        setting("node_count", "16", "NODES", "Number of runtime nodes; participant indices are below it"),
    ],
};

/// The runtime nodes.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Nodes {
    pub directory: PathBuf,
    pub key: KekSource,
    pub count: u16,
}

/// The policy authority, which signs admission decisions.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Authority {
    pub key: PathBuf,
    pub keys_previous: Vec<Hex32>,
}

/// The signed log of all events.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Log {
    pub key: PathBuf,
    pub origin: KeyName,
}

impl Reader<'_> {
    pub(super) fn nodes(&mut self) -> Nodes {
        Nodes {
            directory: self.text("node_directory").into(),
            key: self.node_key(),
            // One node alone cannot sign, and the index of a participant is limited.
            count: self.number("node_count", 2..=PARTICIPANT_INDEX_MAX + 1),
        }
    }

    fn node_key(&mut self) -> KekSource {
        let resolved = self.resolved;
        match (resolved.text("node_key"), resolved.text("node_passphrase_file")) {
            ("", "") => KekSource::File(Path::new(resolved.text("node_directory")).join("node.key")),
            ("", passphrase) => KekSource::Passphrase(passphrase.into()),
            (key, "") => KekSource::File(key.into()),
            (key, _) => {
                self.fault("node_passphrase_file", "must not be given together with `node_key`");
                KekSource::File(key.into())
            }
        }
    }

    pub(super) fn authority(&mut self) -> Authority {
        let name = "authority_keys_previous";
        let texts = self.resolved.text(name).split(',').map(str::trim).filter(|text| !text.is_empty());
        let keys: Result<Vec<Hex32>, _> = texts.map(str::parse).collect();
        let keys_previous = keys.unwrap_or_else(|_| {
            self.fault(name, "must be public keys of 64 lowercase hexadecimal digits, separated by commas");
            Vec::new()
        });
        Authority { key: self.text("authority_key").into(), keys_previous }
    }

    /// `None` if the origin has a fault: there is no placeholder for it.
    pub(super) fn log(&mut self) -> Option<Log> {
        let key = self.text("log_key").into();
        let text = self.resolved.text("log_origin");
        let fits = text.len() <= limits::LOG_ORIGIN_BYTES_MAX && text.chars().all(is_visible);
        let Some(origin) = text.parse().ok().filter(|_| fits) else {
            let most = limits::LOG_ORIGIN_BYTES_MAX;
            let rule = format!(
                "must be a name of visible characters without white space and `+`, at most {most} bytes"
            );
            self.fault("log_origin", &format!("{rule}, not `{}`", text.escape_debug()));
            return None;
        };
        Some(Log { key, origin })
    }
}
