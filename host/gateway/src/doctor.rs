//! `operation-gateway doctor`: checks a deployment with the functions that the start uses, and says what to do.
//!
//! It only reads, so it may run beside a gateway: a key or database that the start would create is a warning. It asks each node for
//! its signed log head, which shows the node's identity and clock.

mod running;

use crate::compose;
use crate::services::{self, Services, authority_keys};
use crate::settings::{Profile, Settings};
use crate::{approvers, authentication, webhooks, witnesses};
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::error_chain;
use gateway_domain::node_log::SignedLogHead;
use gateway_domain::time::{DAY_MS, EpochMs};
use gateway_fleet::{NodeAddress, participants_with_database};
use gateway_seal::kek_source::{Creates, KekSource};
use gateway_seal::key_file::{self, KeyFileError};
use gateway_service::StartError;
use gateway_service::client::{CallError, ServiceClient, Url};
use gateway_service::output::{self, EXIT_FAILED, EXIT_UNCHECKED, Lines};
use gateway_service::process::{self, Fault};
use gateway_service::settings::{ProcessSettings, Resolved};
use gateway_service::transport::{ClientAuth, Tls};
use gateway_store::Store;
use running::Running;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::task::JoinSet;
use x509_parser::pem::Pem;

/// Certificates and bundles that end sooner are warned of.
const NOTICE_DAYS: u64 = 30;

/// Clocks that differ by more are warned of: between replicas a minute is allowed, and a message takes some time.
const CLOCKS_DIFFER_MS: u64 = 10_000;

/// Time limit of a question to a process.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Ok,
    /// Works now.
    Warning,
    /// The gateway does not start, or does not work.
    Error,
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One result: what was found, and what to do.
#[derive(Debug)]
struct Finding {
    part: &'static str,
    level: Level,
    what: String,
    /// Empty for [`Level::Ok`].
    action: &'static str,
}

/// Runs the command. Invalid settings are findings.
pub(crate) fn run(resolved: Result<Resolved, Vec<String>>, as_json: bool) -> ExitCode {
    let check = async {
        let findings = match resolved.and_then(|resolved| Settings::parse(&resolved)) {
            Ok(settings) => check(&settings, gateway_service::now()).await,
            Err(faults) => faults.into_iter().map(setting_fault).collect(),
        };
        output::print(&lines(&findings, as_json)?)?;
        let fails = findings.iter().any(|finding| finding.level == Level::Error);
        Ok(if fails { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
    };
    process::run(check, |_: &Fault| EXIT_UNCHECKED)
}

fn setting_fault(what: String) -> Finding {
    let action = "correct the setting; `operation-gateway config` prints every value and its source";
    Finding { part: "settings", level: Level::Error, what, action }
}

/// One line for each finding, and one for what to do.
fn lines(findings: &[Finding], as_json: bool) -> serde_json::Result<Lines> {
    let mut lines = Lines::new();
    if as_json {
        let finding = |Finding { part, level, what, action }: &Finding| match level {
            Level::Ok => json!({"part": part, "level": level.as_str(), "what": what}),
            Level::Warning | Level::Error => {
                json!({"part": part, "level": level.as_str(), "what": what, "action": action})
            }
        };
        let findings: Vec<Value> = findings.iter().map(finding).collect();
        lines.add_json_pretty(&json!({"findings": findings}))?;
        return Ok(lines);
    }
    for Finding { part, level, what, action } in findings {
        lines.add(format_args!("{:<8} {part:<15} {what}", level.as_str()));
        if *level != Level::Ok {
            lines.add(format_args!("{:<24} -> {action}", ""));
        }
    }
    Ok(lines)
}

/// Every check, in the order of a start.
async fn check(settings: &Settings, now: EpochMs) -> Vec<Finding> {
    let mut doctor = Doctor { settings, now, findings: Vec::new() };
    doctor.profile();
    doctor.policy();
    doctor.keys();
    doctor.files();
    doctor.certificates();
    doctor.database().await;
    doctor.gateway().await;
    doctor.services().await;
    doctor.findings
}

struct Doctor<'a> {
    settings: &'a Settings,
    now: EpochMs,
    findings: Vec<Finding>,
}

impl Doctor<'_> {
    fn ok(&mut self, part: &'static str, what: impl Into<String>) {
        self.findings.push(Finding { part, level: Level::Ok, what: what.into(), action: "" });
    }

    fn warning(&mut self, part: &'static str, what: impl Into<String>, action: &'static str) {
        self.findings.push(Finding { part, level: Level::Warning, what: what.into(), action });
    }

    fn error(&mut self, part: &'static str, what: impl Into<String>, action: &'static str) {
        self.findings.push(Finding { part, level: Level::Error, what: what.into(), action });
    }

    fn profile(&mut self) {
        self.ok("settings", "the settings are valid");
        if self.settings.general.profile == Profile::Development {
            let what =
                "the development profile has unsafe defaults, and its gateway may not authenticate callers";
            self.warning("settings", what, "set `profile=production` for anything but development");
        }
        for exception in &self.settings.general.production_exceptions {
            let what = format!("`production_exceptions` permits `{}`", exception.as_str());
            self.warning("settings", what, "remove the exception once the safeguard is in place");
        }
    }

    fn policy(&mut self) {
        match compose::check_policy(self.settings) {
            Err(error) => {
                self.error("policy", error.to_string(), "correct the file, or name another bundle");
            }
            Ok(prepared) => {
                let later = EpochMs(self.now.0.saturating_add(NOTICE_DAYS * DAY_MS));
                if prepared.is_valid_at(later) {
                    self.ok("policy", "the bundle is verified, compiles and passes its tests");
                } else {
                    let what = format!("the bundle is not valid any more in {NOTICE_DAYS} days");
                    self.warning("policy", what, "sign a bundle with a later `not_after_ms`");
                }
            }
        }
    }

    fn keys(&mut self) {
        let settings = self.settings;
        if let Some(path) = settings.authority.own_key() {
            self.key("authority_key", key_file::load(path).map(drop));
        }
        let log = key_file::load(&settings.log.key);
        if let (Ok(seed), Ok(authorities)) = (&log, authority_keys(settings)) {
            self.started(
                "keys",
                compose::log_signer(settings, seed, &authorities).map(drop),
                "create another key",
            );
        }
        self.key("log_key", log.map(drop));
        if let Some(source) = settings.nodes.own_key() {
            self.node_key(source);
        }
    }

    fn key(&mut self, setting: &str, loaded: Result<(), KeyFileError>) {
        match loaded {
            Ok(()) => self.ok("keys", format!("`{setting}` can be read, and only by its owner")),
            Err(KeyFileError::Unreadable { path, source })
                if source.kind() == io::ErrorKind::NotFound
                    && self.settings.general.profile == Profile::Development =>
            {
                self.missing_key(setting, &path);
            }
            Err(error) => {
                let what = format!("`{setting}`: {}", error_chain(&error));
                self.error(
                    "keys",
                    what,
                    "correct the path or mode, or run `operation-gateway keys generate`",
                );
            }
        }
    }

    fn missing_key(&mut self, setting: &str, path: &Path) {
        let what = format!("`{setting}`: the file `{}` does not exist yet", path.display());
        self.warning("keys", what, "nothing: the first start in development creates it");
    }

    /// The key of embedded nodes.
    fn node_key(&mut self, source: &KekSource) {
        let directory = &self.settings.nodes.directory;
        let is_first = participants_with_database(directory).is_empty();
        match source {
            KekSource::File(path)
                if is_first && !path.exists() && self.settings.general.profile == Profile::Development =>
            {
                self.missing_key("node_key", path);
            }
            KekSource::Passphrase(path) if is_first => {
                let loaded = key_file::load_passphrase(path).map(drop);
                self.key("node_passphrase_file", loaded);
            }
            source @ (KekSource::File(_) | KekSource::Passphrase(_)) => {
                match source.load(directory, Creates::Nothing) {
                    Ok(_) => self.ok("keys", "the key of the embedded nodes can be read"),
                    Err(error) => {
                        let what = format!("the key of the embedded nodes: {}", error_chain(error.as_ref()));
                        self.error("keys", what, "restore it: no other key decrypts the nodes' databases");
                    }
                }
            }
        }
    }

    fn files(&mut self) {
        match approvers::load_registry(self.settings) {
            Ok(None) => {}
            Ok(Some(_)) => self.ok("approvers", "the registry can be read"),
            Err(error) => {
                self.error(
                    "approvers",
                    error.to_string(),
                    "correct it; `operation-gateway approvers` checks it",
                );
            }
        }
        let opened = authentication::open(self.settings).map(drop);
        self.started("authentication", opened, "correct the file that it names");
        self.witnesses();
        let webhooks = webhooks::open(self.settings);
        if let Ok(Some(webhooks)) = &webhooks {
            self.ok("webhooks", format!("events are sent to {}", webhooks.names()));
        }
        self.started("webhooks", webhooks.map(drop), "correct the file that it names");
    }

    fn witnesses(&mut self) {
        let witnesses = witnesses::open(self.settings);
        if let Ok(Some(witnesses)) = &witnesses {
            let (n_witnesses, threshold) = witnesses.quorum();
            self.ok("witnesses", format!("{threshold} of {n_witnesses} witnesses must cosign the log"));
        }
        match (witnesses::file::read(&self.settings.log.witnessed_checkpoint), &witnesses) {
            (Ok(Some(kept)), _) => {
                let size = kept.unverified().size();
                self.ok("witnesses", format!("the log is compared with a checkpoint of {size} entries"));
            }
            (Ok(None), Ok(Some(_))) => {
                let action = "nothing at the first start; otherwise put back the file `witnessed_checkpoint`";
                self.warning("witnesses", "there is no witnessed checkpoint yet", action);
            }
            (Ok(None), _) => {}
            (Err(error), _) => self.error("witnesses", error.to_string(), "put back the file"),
        }
        self.started("witnesses", witnesses.map(drop), "correct the file that it names");
    }

    fn started(&mut self, part: &'static str, opened: Result<(), StartError>, action: &'static str) {
        if let Err(error) = opened {
            self.error(part, error.to_string(), action);
        }
    }

    fn certificates(&mut self) {
        let mut files = BTreeSet::new();
        if let Some(tls) = &self.settings.tls.files {
            if let Err(error) = Tls::open(tls.clone()) {
                self.error("certificates", error_chain(&error), "correct the files of the API's TLS");
            }
            files.insert(tls.certificate.clone());
            match &tls.clients {
                ClientAuth::Off => {}
                ClientAuth::Optional(authorities)
                | ClientAuth::Required(authorities)
                | ClientAuth::Named(authorities, _) => drop(files.insert(authorities.clone())),
            }
        }
        if let Some(services) = &self.settings.services {
            files.extend([services.certificate.clone(), services.authorities.clone()]);
        }
        files.iter().for_each(|path| self.certificate(path));
    }

    /// Reports the certificate of a file that ends first. A file that cannot be read is reported by what opens it.
    fn certificate(&mut self, path: &Path) {
        let Some(ends) = first_end(path) else { return };
        let file = path.display();
        if ends <= self.now {
            let what = format!("a certificate in `{file}` has expired");
            return self.error("certificates", what, "replace it, and send SIGHUP to a running gateway");
        }
        let n_days = ends.0.saturating_sub(self.now.0) / DAY_MS;
        let what = format!("the certificates in `{file}` are valid for {n_days} days");
        match n_days < NOTICE_DAYS {
            true => self.warning("certificates", what, "renew it, and send SIGHUP to a running gateway"),
            false => self.ok("certificates", what),
        }
    }

    async fn database(&mut self) {
        let url = &self.settings.general.database_url;
        let action = "correct what the message names; host/docs/operations.md has the modes and settings";
        match Store::exists(url) {
            Err(error) => self.error("database", error_chain(&error), action),
            Ok(false) => {
                self.warning(
                    "database",
                    "the database does not exist yet",
                    "nothing: the first start creates it",
                );
            }
            Ok(true) => match Store::check(url).await {
                Ok(None) => self.ok("database", "the database can be read, and its schema is current"),
                Ok(Some(clock)) => {
                    self.ok("database", "the server keeps what it commits, and the schema is current");
                    self.clock("the database server".to_owned(), clock);
                }
                Err(error) if error.is_old_schema() => {
                    let action = "make a backup, and start the gateway, which brings it up to date";
                    self.warning("database", error_chain(&error), action);
                }
                Err(error) => self.error("database", error_chain(&error), action),
            },
        }
    }

    /// The gateway that runs with these settings, which may not be able to do what these checks find possible.
    async fn gateway(&mut self) {
        let part = "gateway";
        match running::ask(self.settings, ANSWER_WITHIN).await {
            Running::No => {}
            Running::Ready => self.ok(part, "the gateway that runs with these settings is ready"),
            Running::NotReady(failed) => {
                let action = "correct what the message names; `GET /readyz` shows when it is";
                for (check, why) in failed {
                    self.error(part, format!("the running gateway's check `{check}` fails: {why}"), action);
                }
            }
            Running::Unknown(why) => {
                let what = format!("the address of the gateway does not answer as one: {why}");
                self.error(part, what, "end the other program, or choose another `bind` or `admin_bind`");
            }
            Running::NotAsked => {
                let what =
                    "a running gateway was not asked whether it is ready: it has TLS and no `admin_bind`";
                self.warning(part, what, "set `admin_bind`, which answers in plain HTTP");
            }
        }
    }

    /// Compares a clock with the machine's own.
    fn clock(&mut self, of: String, other: EpochMs) {
        let differs_ms = gateway_service::now().0.abs_diff(other.0);
        let what = format!("the clock of {of} differs from this machine's by {differs_ms} ms");
        let action = "synchronise both clocks (NTP)";
        if differs_ms > CLOCK_SKEW_MS {
            self.error("clocks", what, action);
        } else if differs_ms > CLOCKS_DIFFER_MS {
            self.warning("clocks", what, action);
        }
    }

    async fn services(&mut self) {
        let services = match services::open_services(self.settings) {
            Ok(None) => return,
            Ok(Some(services)) => services,
            Err(error) => return self.error("services", error.to_string(), "correct the file that it names"),
        };
        let Services { client, nodes } = &services;
        for authority in &self.settings.authority.remote {
            let url = &authority.url;
            match get::<Value>(client, url, "healthz").await {
                Ok(_) => self.ok("authority", format!("`{url}` answers")),
                Err(error) => {
                    let what = format!("`{url}`: {}", error_chain(&error));
                    self.error(
                        "authority",
                        what,
                        "start it, or correct its URL, its certificate or its `callers`",
                    );
                }
            }
        }
        let mut calls = JoinSet::new();
        for node in nodes.iter().flatten().cloned() {
            let client = client.clone();
            calls.spawn(async move {
                let head = get::<SignedLogHead>(&client, &node.url, "v1/node/log").await;
                (node, head)
            });
        }
        let mut answers = calls.join_all().await;
        answers.sort_by_key(|(node, _)| node.identity.index());
        answers.into_iter().for_each(|(node, head)| self.node(&node, head));
    }

    fn node(&mut self, node: &NodeAddress, head: Result<SignedLogHead, CallError>) {
        let name = format!("node {} at `{}`", node.identity.index(), node.url);
        match head {
            Err(error) => {
                let what = format!("{name}: {}", error_chain(&error));
                self.error("nodes", what, "start it, or correct its URL, its certificate or its `callers`");
            }
            Ok(head)
                if head.head.participant.0 != node.identity.index()
                    || !head.is_signed_by(&node.identity.signing_key()) =>
            {
                let what = format!("{name} does not have the pinned identity");
                let action = "compare `runtime-node identity` with the pins: the node was replaced, or another answers";
                self.error("nodes", what, action);
            }
            Ok(head) => {
                self.ok("nodes", format!("{name} answers, and has the pinned identity"));
                self.clock(name, head.head.at_ms);
            }
        }
    }
}

async fn get<T: serde::de::DeserializeOwned>(
    client: &ServiceClient,
    url: &Url,
    path: &str,
) -> Result<T, CallError> {
    let url = url.join(path).map_err(|error| CallError::NoAnswer(error.into()))?;
    client.get(url, ANSWER_WITHIN).await
}

/// When the first of a file's certificates ends; `None` if it has none that can be read.
fn first_end(path: &Path) -> Option<EpochMs> {
    let bytes = std::fs::read(path).ok()?;
    let blocks = Pem::iter_from_buffer(&bytes).filter_map(Result::ok);
    let ends = blocks.filter_map(|pem| Some(pem.parse_x509().ok()?.validity().not_after.timestamp()));
    ends.min().map(|seconds| EpochMs(u64::try_from(seconds).unwrap_or_default().saturating_mul(1000)))
}

#[cfg(test)]
mod tests;
