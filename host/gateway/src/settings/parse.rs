//! From texts to settings that cannot be wrong.

use super::approvals::SignedApprovals;
use super::auth::Auth;
use super::exceptions::Exception;
use super::limits;
use super::sources::Resolved;
use super::transport::Transport;
use gateway_api::origin::AllowedOrigins;
use gateway_api::state::ProfileAliases;
use gateway_api::wire::names::is_visible;
use gateway_domain::ids::Hex32;
use gateway_domain::log::KeyName;
use gateway_domain::roster::PARTICIPANT_INDEX_MAX;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Which defaults hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Works with no set-up; authenticates nobody.
    Development,
    /// Nothing unsafe by default.
    Production,
}

/// Where the key is from that the nodes' secrets are sealed under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKey {
    /// A file that holds it.
    File(PathBuf),
    /// A file that holds a passphrase.
    Passphrase(PathBuf),
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Pretty in a terminal, JSON otherwise.
    Auto,
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// Every setting, parsed. The table says what each is.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "settings::table documents each")]
pub struct Settings {
    pub profile: Profile,
    pub bind: SocketAddr,
    pub transport: Transport,
    pub database_url: String,
    pub node_directory: PathBuf,
    pub node_key: NodeKey,
    pub node_count: u16,
    pub authority_key: PathBuf,
    pub authority_keys_previous: Vec<Hex32>,
    pub log_key: PathBuf,
    pub log_origin: KeyName,
    pub policy_bundle: PathBuf,
    pub policy_trust_roots: PathBuf,
    pub policy_pins: String,
    pub policy_activation: Option<PathBuf>,
    pub policy_candidate: Option<PathBuf>,
    pub policy_watch: Option<Duration>,
    pub auth: Auth,
    pub allowed_origins: AllowedOrigins,
    pub tenant_required: bool,
    pub required_approvals: u32,
    pub signed_approvals: SignedApprovals,
    pub production_exceptions: BTreeSet<Exception>,
    pub permitted_recipients: String,
    pub separation_of_duties: bool,
    pub auto_provision_keys: bool,
    pub signature_profile_aliases: ProfileAliases,
    pub reject_unknown_fields: bool,
    pub approval_ttl_ms: u64,
    pub admission_ttl_ms: u64,
    pub admission_rate: u32,
    pub admission_burst: u32,
    pub preview_rate: u32,
    pub preview_burst: u32,
    pub preview_records_max: u32,
    pub body_bytes_max: usize,
    pub recovery_body_bytes_max: usize,
    pub audit_bytes_max: usize,
    pub answer_within: Duration,
    pub reconcile_every: Duration,
    pub shutdown_within: Duration,
    pub log: String,
    pub log_format: LogFormat,
}

impl Settings {
    /// Parses every setting and checks them against each other.
    ///
    /// # Errors
    /// One line for each fault.
    pub fn parse(resolved: &Resolved) -> Result<Self, Vec<String>> {
        let mut reader = Reader { resolved, faults: Vec::new() };
        let settings = reader.settings();
        if let Some(settings) = &settings {
            reader.check(settings);
        }
        settings.filter(|_| reader.faults.is_empty()).ok_or(reader.faults)
    }
}

/// Reads settings, and collects what is wrong with them.
pub(super) struct Reader<'a> {
    pub(super) resolved: &'a Resolved,
    faults: Vec<String>,
}

impl Reader<'_> {
    /// None when there is nothing that could stand for a setting that is wrong.
    fn settings(&mut self) -> Option<Settings> {
        self.only("runtime_nodes", &[("embedded", ())]);
        let log_origin = self.log_origin();
        Some(Settings {
            profile: self.one_of(
                "profile",
                &[("development", Profile::Development), ("production", Profile::Production)],
                Profile::Development,
            ),
            bind: self.value("bind", "an address and a port", SocketAddr::from(([127, 0, 0, 1], 0))),
            transport: self.transport(),
            database_url: self.text("database_url"),
            node_directory: self.text("node_directory").into(),
            node_key: self.node_key(),
            node_count: self.node_count(),
            authority_key: self.text("authority_key").into(),
            authority_keys_previous: self.public_keys("authority_keys_previous"),
            log_key: self.text("log_key").into(),
            policy_bundle: self.text("policy_bundle").into(),
            policy_trust_roots: self.text("policy_trust_roots").into(),
            policy_pins: self.resolved.text("policy_pins").to_owned(),
            policy_activation: self.path("policy_activation"),
            policy_candidate: self.path("policy_candidate"),
            policy_watch: self.watch(),
            auth: self.auth(),
            allowed_origins: self.allowed_origins(),
            tenant_required: self.flag("tenant_required"),
            required_approvals: self.number32("required_approvals", 0..=limits::REQUIRED_APPROVALS_MAX),
            signed_approvals: self.signed_approvals(),
            production_exceptions: self.exceptions(),
            permitted_recipients: self.resolved.text("permitted_recipients").to_owned(),
            separation_of_duties: self.flag("separation_of_duties"),
            auto_provision_keys: self.flag("auto_provision_keys"),
            signature_profile_aliases: self.profile_aliases(),
            reject_unknown_fields: self.one_of("unknown_fields", &[("warn", false), ("reject", true)], true),
            approval_ttl_ms: self.milliseconds("approval_ttl_ms"),
            admission_ttl_ms: self.milliseconds("admission_ttl_ms"),
            admission_rate: self.number32("admission_rate", 0..=limits::RATE_MAX),
            admission_burst: self.number32("admission_burst", 0..=limits::BURST_MAX),
            preview_rate: self.number32("preview_rate", 0..=limits::RATE_MAX),
            preview_burst: self.number32("preview_burst", 0..=limits::BURST_MAX),
            preview_records_max: self.number32("preview_records_max", 0..=limits::PREVIEW_RECORDS_MAX),
            body_bytes_max: self.size("body_bytes_max", limits::BODY_BYTES),
            recovery_body_bytes_max: self.size("recovery_body_bytes_max", limits::BODY_BYTES),
            audit_bytes_max: self.size("audit_bytes_max", limits::AUDIT_BYTES),
            answer_within: self.duration("answer_within_ms"),
            reconcile_every: self.duration("reconcile_every_ms"),
            shutdown_within: self.duration("shutdown_within_ms"),
            log: self.text("log"),
            log_format: self.one_of(
                "log_format",
                &[("auto", LogFormat::Auto), ("pretty", LogFormat::Pretty), ("json", LogFormat::Json)],
                LogFormat::Json,
            ),
            log_origin: log_origin?,
        })
    }

    /// What is fine alone and wrong together.
    fn check(&mut self, settings: &Settings) {
        self.check_transport(settings);
        self.check_exceptions(settings);
        if settings.profile == Profile::Production {
            if self.resolved.text("auth_mode") == "bypass" {
                self.fault("auth_mode", "must not be `bypass` in production");
            }
            if settings.auto_provision_keys {
                self.fault("auto_provision_keys", "must not be `true` in production");
            }
            if settings.signature_profile_aliases.resolve("*").is_some() {
                self.fault("signature_profile_aliases", "must not have the name `*` in production");
            }
            if settings.required_approvals == 0 {
                self.fault("required_approvals", "must be at least 1 in production");
            }
        }
        if settings.required_approvals == 0
            && matches!(settings.signed_approvals, SignedApprovals::Required(_))
        {
            self.fault("required_approvals", "must be at least 1 while `signed_approvals` is `required`");
        }
        if settings.admission_rate > 0 && settings.admission_burst == 0 && !self.is_blamed("admission_burst")
        {
            self.fault("admission_burst", "must be at least 1 while `admission_rate` is not 0");
        }
        if settings.preview_rate > 0 && settings.preview_burst == 0 && !self.is_blamed("preview_burst") {
            self.fault("preview_burst", "must be at least 1 while `preview_rate` is not 0");
        }
    }

    fn profile_aliases(&mut self) -> ProfileAliases {
        ProfileAliases::parse(self.resolved.text("signature_profile_aliases")).unwrap_or_else(|why| {
            self.fault("signature_profile_aliases", &format!("must be `name=profile,...`: {why}"));
            ProfileAliases::default()
        })
    }

    fn allowed_origins(&mut self) -> AllowedOrigins {
        self.resolved.text("allowed_origins").parse().unwrap_or_else(|why: String| {
            self.fault("allowed_origins", &format!("must be origins, separated by commas: {why}"));
            AllowedOrigins::default()
        })
    }

    fn node_key(&mut self) -> NodeKey {
        let resolved = self.resolved;
        match (resolved.text("node_key"), resolved.text("node_passphrase_file")) {
            ("", "") => NodeKey::File(Path::new(resolved.text("node_directory")).join("node.key")),
            ("", passphrase) => NodeKey::Passphrase(passphrase.into()),
            (key, "") => NodeKey::File(key.into()),
            (key, _) => {
                self.fault("node_passphrase_file", "must not be given together with `node_key`");
                NodeKey::File(key.into())
            }
        }
    }

    /// One node alone signs nothing, and no participant has a higher index.
    fn node_count(&mut self) -> u16 {
        u16::try_from(self.number("node_count", 2..=u64::from(PARTICIPANT_INDEX_MAX) + 1)).unwrap_or(2)
    }

    fn log_origin(&mut self) -> Option<KeyName> {
        let text = self.resolved.text("log_origin");
        let fits = text.len() <= limits::LOG_ORIGIN_BYTES_MAX && text.chars().all(is_visible);
        let name = text.parse().ok().filter(|_| fits);
        if name.is_none() {
            let most = limits::LOG_ORIGIN_BYTES_MAX;
            let must = format!(
                "must be a name of visible characters without white space and `+`, at most {most} bytes"
            );
            self.fault("log_origin", &format!("{must}, not `{}`", text.escape_debug()));
        }
        name
    }

    /// Public halves, each 64 hexadecimal digits.
    fn public_keys(&mut self, name: &str) -> Vec<Hex32> {
        let texts = self.resolved.text(name).split(',').map(str::trim).filter(|text| !text.is_empty());
        let keys: Result<Vec<Hex32>, _> = texts.map(str::parse).collect();
        keys.unwrap_or_else(|_| {
            self.fault(name, "must be public keys of 64 lowercase hexadecimal digits, separated by commas");
            Vec::new()
        })
    }

    pub(super) fn fault(&mut self, name: &str, message: &str) {
        self.faults.push(format!("setting `{name}` {message}"));
    }

    /// Whether something is wrong with the setting alone, so that what stands in for it means nothing.
    pub(super) fn is_blamed(&self, name: &str) -> bool {
        let beginning = format!("setting `{name}` ");
        self.faults.iter().any(|fault| fault.starts_with(&beginning))
    }

    fn text(&mut self, name: &str) -> String {
        let text = self.resolved.text(name).to_owned();
        if text.is_empty() {
            self.fault(name, "must not be empty");
        }
        text
    }

    /// Empty is none.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.resolved.text(name)).filter(|text| !text.is_empty()).map(PathBuf::from)
    }

    fn watch(&mut self) -> Option<Duration> {
        let every_ms = self.number("policy_watch_ms", 0..=limits::MILLISECONDS_MAX);
        (every_ms > 0).then(|| Duration::from_millis(every_ms))
    }

    pub(super) fn value<T: FromStr>(&mut self, name: &str, what: &str, otherwise: T) -> T {
        let text = self.resolved.text(name);
        text.parse().unwrap_or_else(|_| {
            self.fault(name, &format!("must be {what}, not `{text}`"));
            otherwise
        })
    }

    /// A whole number in a range: one outside could not work, or would overflow.
    pub(super) fn number(&mut self, name: &str, range: RangeInclusive<u64>) -> u64 {
        let text = self.resolved.text(name);
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.unwrap_or_else(|| {
            let (least, most) = range.into_inner();
            self.fault(name, &format!("must be a whole number from {least} to {most}, not `{text}`"));
            least
        })
    }

    fn number32(&mut self, name: &str, range: RangeInclusive<u32>) -> u32 {
        let (least, most) = range.into_inner();
        u32::try_from(self.number(name, least.into()..=most.into())).unwrap_or(most)
    }

    pub(super) fn size(&mut self, name: &str, range: RangeInclusive<usize>) -> usize {
        let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let (least, most) = range.into_inner();
        usize::try_from(self.number(name, wide(least)..=wide(most))).unwrap_or(most)
    }

    pub(super) fn milliseconds(&mut self, name: &str) -> u64 {
        self.number(name, 1..=limits::MILLISECONDS_MAX)
    }

    pub(super) fn duration(&mut self, name: &str) -> Duration {
        Duration::from_millis(self.milliseconds(name))
    }

    fn flag(&mut self, name: &str) -> bool {
        self.one_of(name, &[("true", true), ("false", false)], false)
    }

    fn only(&mut self, name: &str, allowed: &[(&str, ())]) {
        self.one_of(name, allowed, ());
    }

    pub(super) fn one_of<T: Copy>(&mut self, name: &str, allowed: &[(&str, T)], otherwise: T) -> T {
        let text = self.resolved.text(name);
        if let Some((_, value)) = allowed.iter().find(|(word, _)| *word == text) {
            return *value;
        }
        let words = allowed.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        self.fault(name, &format!("must be one of {words}, not `{text}`"));
        otherwise
    }
}

#[cfg(test)]
mod tests;
