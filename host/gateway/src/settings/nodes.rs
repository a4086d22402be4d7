//! Settings of the runtime nodes, the policy authority, and the signed log of all events.

use super::limits;
use gateway_domain::admission::AUTHORITIES_MAX;
use gateway_domain::ids::Hex32;
use gateway_domain::log::KeyName;
use gateway_domain::names::is_visible;
use gateway_domain::roster::PARTICIPANT_INDEX_MAX;
use gateway_seal::kek_source::KekSource;
use gateway_service::client::{ClientFiles, Url};
use gateway_service::settings;
use gateway_service::settings::{Reader, number};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

settings! {
    /// The policy authority, which signs admission decisions. Without one in a process of its own this process signs.
    #[derive(Clone, Debug)]
    pub struct Authority("authority", "Policy authority") {
        /// Ed25519 seed that signs admission decisions: 32 bytes or hexadecimal, in a secret file; created on first start in development
        authority_key = "data/authority.key", "FILE" => key: PathBuf = authority_key;
        /// Earlier public keys of the authority whose decisions are still valid
        authority_keys_previous = "", "HEX,..." => keys_previous: Vec<Hex32> = Reader::public_keys;
        /// Policy authorities in processes of their own, https://host:port; empty signs in this process with authority_key
        authority_url = "", "URL,..." => remote: Vec<RemoteAuthority> = remote_authorities;
        /// Public keys of those authorities in the same order, which nodes and auditors pin too
        authority_public_key = "", "HEX,...";
        /// How many of them must sign a decision, as many as the nodes require
        authority_threshold = "1", "AUTHORITIES" => threshold: usize = number(1..=AUTHORITIES_MAX);
    }
}

settings! {
    /// The signed log of all events.
    #[derive(Clone, Debug)]
    pub struct Log("log", "Signed log of all events") {
        /// Ed25519 seed that signs checkpoints of the log: 32 bytes or hexadecimal, in a secret file, not authority_key; created on first
        /// start in development
        log_key = "data/log.key", "FILE" => key: PathBuf = Reader::file;
        /// The log's name in checkpoints: a URL without scheme, unique to this log, without white space and +
        log_origin = "operation-gateway.local/log", "NAME";
        /// Witnesses that cosign the log, and how many must (C2SP tlog-policy); empty for none
        witness_policy = "", "FILE" => witness_policy: Option<PathBuf> = Reader::path;
        /// Interval at which a log that grew is sent to the witnesses
        witness_every_ms = "60000", "MILLISECONDS" => witness_every: Duration = Reader::duration;
        /// The newest checkpoint that a quorum of witnesses cosigned; not in a backup of the database, and one for each replica
        witnessed_checkpoint = "data/log.checkpoint", "FILE" => witnessed_checkpoint: PathBuf = Reader::file;
        /// The witnessed checkpoint that a restored database does not have, which is given up. Without it the gateway writes nothing then
        lost_checkpoint = "", "SIZE:ROOT" => lost_checkpoint: Option<(u64, Hex32)> = lost_checkpoint;
    }
}

settings! {
    /// The runtime nodes, embedded or in processes of their own.
    #[derive(Clone, Debug)]
    pub struct Nodes("nodes", "Runtime nodes") {
        /// Databases of the embedded nodes
        node_directory = "data/nodes", "DIRECTORY" => directory: PathBuf = Reader::file;
        /// Key that encrypts the nodes' shares: 32 bytes or hexadecimal, in a secret file; created on first start in development; empty for
        /// node.key in the node directory
        node_key = "", "FILE" => key: KekSource = node_key;
        /// Instead of node_key: a passphrase to derive it from, one line, in a secret file
        node_passphrase_file = "", "FILE";
        /// Number of embedded nodes; participant indices are below it
        node_count = "16", "NODES" => n_embedded: u16 = number(2..=PARTICIPANT_INDEX_MAX + 1);
        /// Runtime nodes in processes of their own, https://host:port, in the order of participant indices; empty runs embedded nodes
        runtime_nodes = "", "URL,..." => remote: Option<RemoteNodes> = remote_nodes;
        /// Identities of those nodes, as `runtime-node pin` writes them
        runtime_node_pins = "", "FILE";
    }
}

settings! {
    /// Mutual TLS to nodes and authority in processes of their own.
    #[derive(Clone, Debug)]
    pub struct Services("services", "Mutual TLS to runtime nodes and authority") {
        /// The gateway's certificate chain for them, its own certificate first, PEM
        service_tls_certificate = "", "FILE" => files: Option<ClientFiles> = services;
        /// The certificate's private key, PEM, in a secret file
        service_tls_key = "", "FILE";
        /// Certificate authorities that sign their certificates, PEM
        service_tls_ca = "", "FILE";
    }
}

/// Runtime nodes in processes of their own.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct RemoteNodes {
    pub urls: Vec<Url>,
    pub pins: PathBuf,
}

/// A policy authority in a process of its own.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct RemoteAuthority {
    pub url: Url,
    pub public_key: Hex32,
}

impl Nodes {
    /// The key of the nodes' shares; `None` if nodes are processes of their own, which have it.
    #[must_use]
    pub fn own_key(&self) -> Option<&KekSource> {
        self.remote.is_none().then_some(&self.key)
    }

    /// The number of nodes, embedded or not.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.remote.as_ref().map_or(self.n_embedded, |it| u16::try_from(it.urls.len()).unwrap_or(u16::MAX))
    }
}

impl Authority {
    /// The file of the authority's key; `None` if authorities are processes of their own, which have it.
    #[must_use]
    pub fn own_key(&self) -> Option<&Path> {
        self.remote.is_empty().then_some(&*self.key)
    }

    /// Checks the settings against each other.
    pub(super) fn check(&self, reader: &mut Reader<'_>) {
        let url_is_wrong = reader.has_fault("authority_url");
        let is_remote = !self.remote.is_empty() || url_is_wrong || reader.has_fault("authority_public_key");
        if self.key.as_os_str().is_empty() && !is_remote {
            reader.fault("authority_key", "must be given, or `authority_url`");
        }
        if is_remote && reader.resolved.is_given("authority_key") {
            reader.fault(
                "authority_key",
                "must not be given together with `authority_url`, which has a key of its own",
            );
        }
        if self.threshold > self.remote.len().max(1) && !url_is_wrong {
            reader.fault("authority_threshold", "must not be more than the number of authorities");
        }
    }
}

fn authority_key(reader: &mut Reader<'_>, name: &str) -> PathBuf {
    reader.any_text(name).into()
}

/// `None` if the name has a fault: there is no placeholder for it.
pub(super) fn log_origin(reader: &mut Reader<'_>) -> Option<KeyName> {
    let text = reader.resolved.text("log_origin");
    let most = limits::LOG_ORIGIN_BYTES_MAX;
    let fits = text.len() <= most && text.chars().all(is_visible);
    let origin = text.parse().ok().filter(|_| fits);
    if origin.is_none() {
        let rule =
            format!("must be a name of visible characters without white space and `+`, at most {most} bytes");
        reader.fault("log_origin", &format!("{rule}, not `{}`", text.escape_debug()));
    }
    origin
}

/// The settings of nodes in processes of their own: all of them or none.
fn remote_nodes(reader: &mut Reader<'_>, name: &str) -> Option<RemoteNodes> {
    let urls: Option<Vec<Url>> = reader.list(name).map(service_url).collect();
    let Some(urls) = urls else {
        reader.fault(name, "must be URLs such as `https://node-0.example:9300`, separated by commas");
        return None;
    };
    let pins = reader.path("runtime_node_pins");
    match (urls.len(), pins) {
        (0, None) => None,
        (0, Some(_)) => {
            reader.fault("runtime_node_pins", "must not be given without `runtime_nodes`");
            None
        }
        (1, _) => {
            reader.fault(name, "must be at least two: one node alone cannot sign");
            None
        }
        (n_nodes, _) if n_nodes > usize::from(PARTICIPANT_INDEX_MAX) + 1 => {
            reader.fault(name, &format!("must be at most {}", PARTICIPANT_INDEX_MAX + 1));
            None
        }
        (_, None) => {
            reader.fault("runtime_node_pins", "must be given together with `runtime_nodes`");
            None
        }
        (_, Some(pins)) => {
            for embedded in ["node_key", "node_passphrase_file"] {
                if reader.resolved.is_given(embedded) {
                    reader.fault(
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
fn services(reader: &mut Reader<'_>, name: &str) -> Option<ClientFiles> {
    let names = [name, "service_tls_key", "service_tls_ca"];
    match names.map(|name| reader.path(name)) {
        [Some(certificate), Some(key), Some(authorities)] => {
            Some(ClientFiles { certificate, key, authorities })
        }
        [None, None, None] => None,
        _ => {
            reader.fault(name, "must be given together with `service_tls_key` and `service_tls_ca`");
            None
        }
    }
}

fn node_key(reader: &mut Reader<'_>, name: &str) -> KekSource {
    let resolved = reader.resolved;
    match (resolved.text(name), resolved.text("node_passphrase_file")) {
        ("", "") => KekSource::File(Path::new(resolved.text("node_directory")).join("node.key")),
        ("", passphrase) => KekSource::Passphrase(passphrase.into()),
        (key, "") => KekSource::File(key.into()),
        (key, _) => {
            reader.fault("node_passphrase_file", "must not be given together with `node_key`");
            KekSource::File(key.into())
        }
    }
}

/// The authorities in processes of their own, each with its key.
fn remote_authorities(reader: &mut Reader<'_>, name: &str) -> Vec<RemoteAuthority> {
    let public_keys = reader.public_keys("authority_public_key");
    let urls: Option<Vec<Url>> = reader.list(name).map(service_url).collect();
    let Some(urls) = urls else {
        reader.fault(name, "must be URLs such as `https://authority.example:9400`");
        return Vec::new();
    };
    if reader.has_fault("authority_public_key") {
        return Vec::new();
    }
    let n_different = public_keys.iter().collect::<BTreeSet<_>>().len();
    if urls.len() > AUTHORITIES_MAX {
        reader.fault(name, &format!("must be at most {AUTHORITIES_MAX}"));
    } else if urls.len() != public_keys.len() || n_different != public_keys.len() {
        reader.fault("authority_public_key", "must be a different key for each URL of `authority_url`");
    }
    let authority = |(url, public_key)| RemoteAuthority { url, public_key };
    urls.into_iter().zip(public_keys).map(authority).collect()
}

fn lost_checkpoint(reader: &mut Reader<'_>, name: &str) -> Option<(u64, Hex32)> {
    let text = reader.resolved.text(name);
    if text.is_empty() {
        return None;
    }
    let parsed = text.split_once(':').and_then(|(size, root)| Some((size.parse().ok()?, root.parse().ok()?)));
    if parsed.is_none() {
        reader.fault(
            name,
            "must be the size of a checkpoint, a colon, and its root of 64 hexadecimal characters",
        );
    }
    parsed
}

/// A URL of a service: `https`, a host, and nothing else.
fn service_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.path() == "/";
    (url.scheme() == "https" && is_plain && url.query().is_none() && url.fragment().is_none()).then_some(url)
}
