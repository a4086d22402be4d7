//! Settings of the runtime nodes, the policy authority, and the signed log of all events.

use super::{Reader, Settings, limits};
use gateway_domain::admission::AUTHORITIES_MAX;
use gateway_domain::ids::Hex32;
use gateway_domain::log::KeyName;
use gateway_domain::names::is_visible;
use gateway_domain::roster::PARTICIPANT_INDEX_MAX;
use gateway_seal::kek_source::KekSource;
use gateway_service::client::{ClientFiles, Url};
use gateway_service::settings::{Section, setting};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const AUTHORITY: Section = Section {
    name: "authority",
    heading: "Policy authority",
    settings: &[
        setting(
            "authority_key",
            "data/authority.key",
            "FILE",
            "Ed25519 seed that signs admission decisions: 32 bytes or hexadecimal, in a secret file; created on first start in development",
        ),
        setting(
            "authority_keys_previous",
            "",
            "HEX,...",
            "Earlier public keys of the authority whose decisions are still valid",
        ),
        setting(
            "authority_url",
            "",
            "URL,...",
            "Policy authorities in processes of their own, https://host:port; empty signs in this process with authority_key",
        ),
        setting(
            "authority_public_key",
            "",
            "HEX,...",
            "Public keys of those authorities in the same order, which nodes and auditors pin too",
        ),
        setting(
            "authority_threshold",
            "1",
            "AUTHORITIES",
            "How many of them must sign a decision, as many as the nodes require",
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
            "Ed25519 seed that signs checkpoints of the log: 32 bytes or hexadecimal, in a secret file, not authority_key; created on \
             first start in development",
        ),
        setting(
            "log_origin",
            "operation-gateway.local/log",
            "NAME",
            "The log's name in checkpoints: a URL without scheme, unique to this log, without white space and +",
        ),
        setting(
            "witness_policy",
            "",
            "FILE",
            "Witnesses that cosign the log, and how many must (C2SP tlog-policy); empty for none",
        ),
        setting(
            "witness_every_ms",
            "60000",
            "MILLISECONDS",
            "Interval at which a log that grew is sent to the witnesses",
        ),
        setting(
            "witnessed_checkpoint",
            "data/log.checkpoint",
            "FILE",
            "The newest checkpoint that a quorum of witnesses cosigned; not in a backup of the database, and one for each replica",
        ),
        setting(
            "lost_checkpoint",
            "",
            "SIZE:ROOT",
            "The witnessed checkpoint that a restored database does not have, which is given up. Without it the gateway writes nothing then",
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
            "Key that encrypts the nodes' shares: 32 bytes or hexadecimal, in a secret file; created on first start in development; \
             empty for node.key in the node directory",
        ),
        setting(
            "node_passphrase_file",
            "",
            "FILE",
            "Instead of node_key: a passphrase to derive it from, one line, in a secret file",
        ),
        setting("node_count", "16", "NODES", "Number of embedded nodes; participant indices are below it"),
        setting(
            "runtime_nodes",
            "",
            "URL,...",
            "Runtime nodes in processes of their own, https://host:port, in the order of participant indices; empty runs \
             embedded nodes",
        ),
        setting(
            "runtime_node_pins",
            "",
            "FILE",
            "Identities of those nodes, as `runtime-node pin` writes them",
        ),
    ],
};

pub(super) const SERVICES: Section = Section {
    name: "services",
    heading: "Mutual TLS to runtime nodes and authority",
    settings: &[
        setting(
            "service_tls_certificate",
            "",
            "FILE",
            "The gateway's certificate chain for them, its own certificate first, PEM",
        ),
        setting("service_tls_key", "", "FILE", "The certificate's private key, PEM, in a secret file"),
        setting("service_tls_ca", "", "FILE", "Certificate authorities that sign their certificates, PEM"),
    ],
};

/// The runtime nodes.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Nodes {
    pub directory: PathBuf,
    pub key: KekSource,
    /// The number of nodes, embedded or not.
    pub count: u16,
    /// `None`: embedded nodes.
    pub remote: Option<RemoteNodes>,
}

/// Runtime nodes in processes of their own.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct RemoteNodes {
    pub urls: Vec<Url>,
    pub pins: PathBuf,
}

/// The policy authority, which signs admission decisions.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Authority {
    pub key: PathBuf,
    pub keys_previous: Vec<Hex32>,
    /// Empty: this process signs with `key`.
    pub remote: Vec<RemoteAuthority>,
    pub threshold: usize,
}

/// A policy authority in a process of its own.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct RemoteAuthority {
    pub url: Url,
    pub public_key: Hex32,
}

/// The signed log of all events.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Log {
    pub key: PathBuf,
    pub origin: KeyName,
    pub witness_policy: Option<PathBuf>,
    pub witness_every: Duration,
    pub witnessed_checkpoint: PathBuf,
    pub lost_checkpoint: Option<(u64, Hex32)>,
}

impl Reader<'_> {
    pub(super) fn nodes(&mut self) -> Nodes {
        // One node alone cannot sign, and the index of a participant is limited.
        let count = self.number("node_count", 2..=PARTICIPANT_INDEX_MAX + 1);
        let remote = self.remote_nodes();
        let n_remote = remote.as_ref().map(|remote| u16::try_from(remote.urls.len()).unwrap_or(u16::MAX));
        let (directory, key) = (self.text("node_directory").into(), self.node_key());
        Nodes { directory, key, count: n_remote.unwrap_or(count), remote }
    }

    /// The settings of nodes in processes of their own: all of them or none.
    fn remote_nodes(&mut self) -> Option<RemoteNodes> {
        let urls: Option<Vec<Url>> = self.list("runtime_nodes").map(service_url).collect();
        let Some(urls) = urls else {
            self.fault(
                "runtime_nodes",
                "must be URLs such as `https://node-0.example:9300`, separated by commas",
            );
            return None;
        };
        let pins = self.path("runtime_node_pins");
        match (urls.len(), pins) {
            (0, None) => None,
            (0, Some(_)) => {
                self.fault("runtime_node_pins", "must not be given without `runtime_nodes`");
                None
            }
            (1, _) => {
                self.fault("runtime_nodes", "must be at least two: one node alone cannot sign");
                None
            }
            (n_nodes, _) if n_nodes > usize::from(PARTICIPANT_INDEX_MAX) + 1 => {
                self.fault("runtime_nodes", &format!("must be at most {}", PARTICIPANT_INDEX_MAX + 1));
                None
            }
            (_, None) => {
                self.fault("runtime_node_pins", "must be given together with `runtime_nodes`");
                None
            }
            (_, Some(pins)) => {
                for embedded in ["node_key", "node_passphrase_file"] {
                    if self.resolved.is_given(embedded) {
                        self.fault(
                            embedded,
                            "must not be given together with `runtime_nodes`, which have keys of their own",
                        );
                    }
                }
                Some(RemoteNodes { urls, pins })
            }
        }
    }

    /// The files of mutual TLS to nodes and authority: all of them or none.
    pub(super) fn services(&mut self) -> Option<ClientFiles> {
        let names = ["service_tls_certificate", "service_tls_key", "service_tls_ca"];
        match names.map(|name| self.path(name)) {
            [Some(certificate), Some(key), Some(authorities)] => {
                Some(ClientFiles { certificate, key, authorities })
            }
            [None, None, None] => None,
            _ => {
                self.fault(
                    "service_tls_certificate",
                    "must be given together with `service_tls_key` and `service_tls_ca`",
                );
                None
            }
        }
    }

    pub(super) fn check_services(&mut self, settings: &Settings) {
        let needs = settings.nodes.remote.is_some() || !settings.authority.remote.is_empty();
        if needs && settings.services.is_none() && !self.has_fault("service_tls_certificate") {
            self.fault(
                "service_tls_certificate",
                "must be given together with `runtime_nodes` or `authority_url`",
            );
        }
        if !needs && settings.services.is_some() {
            self.fault(
                "service_tls_certificate",
                "must not be given without `runtime_nodes` or `authority_url`",
            );
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
        let keys_previous = self.public_keys("authority_keys_previous");
        let remote = self.remote_authorities();
        let is_remote =
            !remote.is_empty() || self.has_fault("authority_url") || self.has_fault("authority_public_key");
        let key = self.resolved.text("authority_key");
        if key.is_empty() && !is_remote {
            self.fault("authority_key", "must be given, or `authority_url`");
        }
        if is_remote && self.resolved.is_given("authority_key") {
            self.fault(
                "authority_key",
                "must not be given together with `authority_url`, which has a key of its own",
            );
        }
        let threshold = self.number("authority_threshold", 1..=AUTHORITIES_MAX);
        if threshold > remote.len().max(1) && !self.has_fault("authority_url") {
            self.fault("authority_threshold", "must not be more than the number of authorities");
        }
        Authority { key: key.into(), keys_previous, remote, threshold }
    }

    /// The authorities in processes of their own, each with its key.
    fn remote_authorities(&mut self) -> Vec<RemoteAuthority> {
        let public_keys = self.public_keys("authority_public_key");
        let urls: Option<Vec<Url>> = self.list("authority_url").map(service_url).collect();
        let Some(urls) = urls else {
            self.fault("authority_url", "must be URLs such as `https://authority.example:9400`");
            return Vec::new();
        };
        if self.has_fault("authority_public_key") {
            return Vec::new();
        }
        let n_different = public_keys.iter().collect::<BTreeSet<_>>().len();
        if urls.len() > AUTHORITIES_MAX {
            self.fault("authority_url", &format!("must be at most {AUTHORITIES_MAX}"));
        } else if urls.len() != public_keys.len() || n_different != public_keys.len() {
            self.fault("authority_public_key", "must be a different key for each URL of `authority_url`");
        }
        let authority = |(url, public_key)| RemoteAuthority { url, public_key };
        urls.into_iter().zip(public_keys).map(authority).collect()
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
        Some(Log {
            key,
            origin,
            witness_policy: self.path("witness_policy"),
            witness_every: self.duration("witness_every_ms"),
            witnessed_checkpoint: self.text("witnessed_checkpoint").into(),
            lost_checkpoint: self.lost_checkpoint(),
        })
    }

    fn lost_checkpoint(&mut self) -> Option<(u64, Hex32)> {
        let text = self.resolved.text("lost_checkpoint");
        if text.is_empty() {
            return None;
        }
        let parsed =
            text.split_once(':').and_then(|(size, root)| Some((size.parse().ok()?, root.parse().ok()?)));
        if parsed.is_none() {
            self.fault(
                "lost_checkpoint",
                "must be the size of a checkpoint, a colon, and its root of 64 hexadecimal characters",
            );
        }
        parsed
    }
}

/// A URL of a service: `https`, a host, and nothing else.
fn service_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.path() == "/";
    (url.scheme() == "https" && is_plain && url.query().is_none() && url.fragment().is_none()).then_some(url)
}
