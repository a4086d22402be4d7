//! A gateway, a policy authority and runtime nodes as real processes on loopback, over mutual TLS.

use super::certificates::Authority;
use super::child::Program;
use super::port::Port;
use super::process::{Process, command};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const NODE: &str = env!("CARGO_BIN_EXE_runtime-node-under-test");
const AUTHORITY: &str = env!("CARGO_BIN_EXE_policy-authority-under-test");

/// The name in the gateway's certificate.
const GATEWAY_NAME: &str = "operation-gateway";

type Settings = BTreeMap<&'static str, String>;

pub(crate) struct Cluster {
    pub(crate) gateway: Option<Process>,
    pub(crate) nodes: Vec<Option<Program>>,
    pub(crate) authorities: Vec<Program>,
    authority_settings: Vec<Settings>,
    pub(crate) pki: Authority,
    pub(crate) node_settings: Vec<Settings>,
    pub(crate) gateway_settings: Settings,
    _ports: Vec<Port>,
    folder: TempDir,
}

impl Cluster {
    /// Prepares and starts everything.
    pub(crate) fn start(n: u16) -> Self {
        let mut cluster = Self::prepare(n, |address| address);
        for index in 0..n {
            cluster.start_node(index);
        }
        cluster.start_gateway();
        cluster
    }

    /// As [`Self::start`], with several authorities, of which nodes and gateway require `threshold`.
    pub(crate) fn start_with_authorities(n: u16, n_authorities: u16, threshold: u16) -> Self {
        let mut cluster = Self::prepare_with_authorities(n, n_authorities, threshold);
        for index in 0..n {
            cluster.start_node(index);
        }
        cluster.start_gateway();
        cluster
    }

    /// Keys, certificates, pins and settings, and a running authority. `route` is given each node's port, and returns the port at
    /// which the gateway calls it.
    pub(crate) fn prepare(n: u16, route: impl FnMut(u16) -> u16) -> Self {
        Self::prepare_all(n, (1, 1), route)
    }

    /// As [`Self::prepare`], with several authorities, which run.
    pub(crate) fn prepare_with_authorities(n: u16, n_authorities: u16, threshold: u16) -> Self {
        Self::prepare_all(n, (n_authorities, threshold), |port| port)
    }

    fn prepare_all(
        n: u16,
        (n_authorities, threshold): (u16, u16),
        mut route: impl FnMut(u16) -> u16,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let pki = Authority::new("cluster");
        fs::write(at.join("ca.pem"), pki.pem()).unwrap();
        let authority_names: Vec<_> = (0..n_authorities).map(|index| format!("authority-{index}")).collect();
        let node_names = (0..n).map(|index| format!("node-{index}"));
        for name in node_names.chain(authority_names.clone()).chain([GATEWAY_NAME.into()]) {
            pki.service_until(4096, &name).write(at, &name);
        }
        let mut ports = Vec::new();
        let mut reserve = || {
            let port = Port::reserve();
            let number = port.address.port();
            ports.push(port);
            number
        };
        let AuthorityFiles { settings: authority_settings, urls: authority_urls, public_keys } =
            AuthorityFiles::prepare(at, &authority_names, &mut reserve);

        let mut authority_settings = authority_settings;
        for settings in &mut authority_settings {
            settings.insert("authority_keys", public_keys.clone());
            settings.insert("authority_threshold", threshold.to_string());
        }
        let mut node_settings = Vec::new();
        let mut urls = Vec::new();
        let mut identities = Vec::new();
        for index in 0..n {
            let name = format!("node-{index}");
            fs::create_dir(at.join(&name)).unwrap();
            fs::create_dir(at.join(format!("{name}-key"))).unwrap();
            let port = reserve();
            let mut settings = server_settings(at, &name, port);
            settings.insert("participant", index.to_string());
            settings.insert("database", text(&at.join(&name).join("node.db")));
            settings.insert("node_key", text(&at.join(format!("{name}-key/node.key"))));
            settings.insert("peers_file", text(&at.join("peers.json")));
            settings.insert("authority_keys", public_keys.clone());
            settings.insert("authority_threshold", threshold.to_string());
            let identity = at.join(format!("{name}.json"));
            fs::write(&identity, stdout(tool(NODE, &settings).arg("init"))).unwrap();
            identities.push(identity);
            urls.push(format!("https://{name}.localhost:{}", route(port)));
            node_settings.push(settings);
        }
        stdout(tool(NODE, &node_settings[0]).arg("pin").args(&identities));
        let gateway_settings = BTreeMap::from([
            ("runtime_nodes", urls.join(",")),
            ("runtime_node_pins", text(&at.join("peers.json"))),
            ("authority_url", authority_urls),
            ("authority_public_key", public_keys),
            ("authority_threshold", threshold.to_string()),
            ("service_tls_certificate", text(&at.join(format!("{GATEWAY_NAME}.pem")))),
            ("service_tls_key", text(&at.join(format!("{GATEWAY_NAME}.key")))),
            ("service_tls_ca", text(&at.join("ca.pem"))),
        ]);
        let authorities = authority_settings.iter().map(start_authority).collect();
        let nodes = (0..n).map(|_| None).collect();
        Self {
            gateway: None,
            nodes,
            authorities,
            authority_settings,
            pki,
            node_settings,
            gateway_settings,
            _ports: ports,
            folder,
        }
    }

    /// Settings of every process, of which the authorities are started again.
    pub(crate) fn set_everywhere(&mut self, given: &[(&'static str, &str)]) {
        let settings = self.node_settings.iter_mut().chain(&mut self.authority_settings);
        for settings in settings.chain([&mut self.gateway_settings]) {
            settings.extend(given.iter().map(|(name, value)| (*name, (*value).to_owned())));
        }
        for (authority, settings) in self.authorities.iter_mut().zip(&self.authority_settings) {
            authority.kill();
            *authority = start_authority(settings);
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command of a node with its settings.
    pub(crate) fn node_command(&self, index: u16) -> Command {
        tool(NODE, &self.node_settings[usize::from(index)])
    }

    /// The command of an authority with its settings.
    pub(crate) fn authority_command(&self, index: usize) -> Command {
        tool(AUTHORITY, &self.authority_settings[index])
    }

    pub(crate) fn start_node(&mut self, index: u16) {
        let mut node = Program::start(&mut self.node_command(index), "it is built with the tests");
        node.wait_for_line("runtime-node listens");
        self.nodes[usize::from(index)] = Some(node);
    }

    /// Starts an authority again, with another value of a setting.
    pub(crate) fn set_at_authority(&mut self, index: usize, name: &'static str, value: &str) {
        self.authorities[index].kill();
        self.authority_settings[index].insert(name, value.to_owned());
        self.restart_authority(index);
    }

    /// Where an authority keeps the number of its decisions.
    pub(crate) fn authority_size_file(&self, index: usize) -> PathBuf {
        PathBuf::from(format!("{}.record-size", self.authority_settings[index]["authority_key"]))
    }

    /// Starts an authority again that was killed.
    pub(crate) fn restart_authority(&mut self, index: usize) {
        self.authorities[index] = start_authority(&self.authority_settings[index]);
    }

    pub(crate) fn node(&mut self, index: u16) -> &mut Program {
        self.nodes[usize::from(index)].as_mut().unwrap()
    }

    /// The command of the gateway with its settings. Embedded nodes and authority have no settings.
    pub(crate) fn gateway_command(&self) -> Command {
        self.gateway_command_in(self.folder())
    }

    /// As [`Self::gateway_command`], of a gateway with data of its own in `folder`.
    pub(crate) fn gateway_command_in(&self, folder: &Path) -> Command {
        let overrides: Vec<_> =
            self.gateway_settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut command = command(folder, &overrides);
        let embedded = ["--authority-key=", "--node-key=", "--node-directory="];
        let arguments: Vec<_> = command.get_args().map(|text| text.to_str().unwrap().to_owned()).collect();
        let program = command.get_program().to_owned();
        command = Command::new(program);
        command.args(arguments.iter().filter(|text| !embedded.iter().any(|name| text.starts_with(name))));
        command
    }

    pub(crate) fn start_gateway(&mut self) {
        self.gateway = Some(Process::start_command(self.gateway_command()));
    }

    pub(crate) fn address(&self) -> &str {
        &self.gateway.as_ref().unwrap().address
    }

    /// Stops every process; each must end with success.
    pub(crate) fn stop(mut self) {
        let gateway = self.gateway.take().map(Process::terminate);
        let nodes = self.nodes.into_iter().flatten().map(Program::terminate);
        let authorities = self.authorities.into_iter().map(Program::terminate);
        for (status, log) in gateway.into_iter().chain(nodes).chain(authorities) {
            assert!(status.success(), "{log:#?}");
        }
    }
}

/// The authorities of a cluster, each with its key; URLs and public keys are separated by commas, in the same order.
struct AuthorityFiles {
    settings: Vec<Settings>,
    urls: String,
    public_keys: String,
}

impl AuthorityFiles {
    fn prepare(at: &Path, names: &[String], mut reserve: impl FnMut() -> u16) -> Self {
        let (mut all, mut urls, mut public_keys) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            let port = reserve();
            let mut settings = server_settings(at, name, port);
            settings.insert("authority_key", text(&at.join(format!("{name}.seed"))));
            settings.insert("database", text(&at.join(name).join("authority.db")));
            public_keys.push(stdout(tool(AUTHORITY, &settings).arg("init")).trim().to_owned());
            urls.push(format!("https://{name}.localhost:{port}"));
            all.push(settings);
        }
        Self { settings: all, urls: urls.join(","), public_keys: public_keys.join(",") }
    }
}

fn start_authority(settings: &Settings) -> Program {
    let mut authority = Program::start(&mut tool(AUTHORITY, settings), "it is built with the tests");
    authority.wait_for_line("policy-authority listens");
    authority
}

/// The settings that every process behind the gateway has.
fn server_settings(at: &Path, name: &str, port: u16) -> Settings {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    BTreeMap::from([
        ("bind", format!("127.0.0.1:{port}")),
        ("tls_certificate", text(&at.join(format!("{name}.pem")))),
        ("tls_key", text(&at.join(format!("{name}.key")))),
        ("tls_client_ca", text(&at.join("ca.pem"))),
        ("callers", format!("{GATEWAY_NAME}.localhost")),
        ("signed_approvals", "off".into()),
        ("keys_without_approvals", "true".into()),
        ("separation_of_duties", "false".into()),
        ("permitted_recipients", "*".into()),
        ("policy_trust_roots", text(&repository.join("bundles/trust-development.json"))),
        ("development_bundles", "true".into()),
        ("log_format", "json".into()),
    ])
}

fn text(path: &Path) -> String {
    PathBuf::from(path).into_os_string().into_string().unwrap()
}

fn tool(program: &str, settings: &Settings) -> Command {
    let mut command = Command::new(program);
    for (name, value) in settings {
        command.arg(format!("--{}={value}", name.replace('_', "-")));
    }
    command
}

fn stdout(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}
