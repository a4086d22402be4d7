//! The registry of approvers: read at the start, and again when it changes or on SIGHUP.

use crate::compose::StartError;
use crate::settings::{Settings, SignedApprovals};
use gateway_cli::{Fault, registry};
use gateway_domain::approval::{Approvers, PinnedRegistry, SigningRule};
use gateway_domain::canonical;
use gateway_domain::error_chain;
use gateway_domain::ids::Hex32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The gateway's rule for signatures. An approval may be as old as an operation can wait for it.
#[must_use]
pub fn gateway_rule(settings: &Settings) -> SigningRule {
    rule(settings, settings.approvals.ttl_ms)
}

/// The nodes' rule for signatures, with a registry of its own. An approval may be older by the validity of an admission
/// decision.
#[must_use]
pub fn node_rule(settings: &Settings) -> SigningRule {
    rule(settings, settings.approvals.ttl_ms.saturating_add(settings.operations.admission_ttl_ms))
}

/// A rule with the registry, or without one if it cannot be read: no approval counts then until [`Verifiers`] has read it.
fn rule(settings: &Settings, age_max_ms: u64) -> SigningRule {
    let with_registry = |file: &Path| match registry::load(file) {
        Ok(approvers) => PinnedRegistry::new(Arc::new(approvers), age_max_ms),
        Err(_) => PinnedRegistry::without_registry(age_max_ms),
    };
    match &settings.approvals.signed {
        SignedApprovals::Off => SigningRule::Off,
        SignedApprovals::Optional(file) => SigningRule::Optional(with_registry(file)),
        SignedApprovals::Required(file) => SigningRule::Required(with_registry(file)),
    }
}

/// The rules that verify signatures, and the registry's file.
#[derive(Debug)]
pub struct Verifiers {
    file: PathBuf,
    rules: Vec<SigningRule>,
    /// Hash of the text that was read last, or of the error.
    fingerprint: Hex32,
}

impl Verifiers {
    /// Reads the registry for these rules; `None` if signatures are not verified.
    #[must_use]
    pub fn open(settings: &Settings, rules: Vec<SigningRule>) -> Option<Self> {
        let file = settings.approvals.signed.file()?.to_owned();
        let mut verifiers = Self { file, rules, fingerprint: Hex32::ZERO };
        if let Err(error) = verifiers.try_reload() {
            log_unusable(&error);
        }
        Some(verifiers)
    }

    /// Reads the registry, and applies and logs a change. While the file cannot be read, which may be a revocation, no approval
    /// counts.
    pub fn reload_if_changed(&mut self) {
        let text = registry::read(&self.file);
        if fingerprint(&text) != self.fingerprint {
            log(self.apply(text));
        }
    }

    /// Reads and applies the registry, and logs the result.
    pub fn reload(&mut self) {
        log(self.try_reload());
    }

    fn try_reload(&mut self) -> Result<(), Fault> {
        self.apply(registry::read(&self.file))
    }

    /// Parses the registry and gives it to the rules. After an error they have none.
    fn apply(&mut self, text: Result<Vec<u8>, Fault>) -> Result<(), Fault> {
        self.fingerprint = fingerprint(&text);
        let approvers = text.and_then(|text| Ok(Arc::new(Approvers::parse(&text)?)));
        for rule in &self.rules {
            rule.replace_registry(approvers.as_ref().ok().cloned());
        }
        approvers.map(drop)
    }
}

fn log(reading: Result<(), Fault>) {
    match reading {
        Ok(()) => tracing::info!("reloaded approvers"),
        Err(error) => log_unusable(&error),
    }
}

fn log_unusable(error: &Fault) {
    let error = error_chain(error.as_ref());
    tracing::error!(error, "the registry of approvers cannot be used; until it can, no approval counts");
}

fn fingerprint(text: &Result<Vec<u8>, Fault>) -> Hex32 {
    match text {
        Ok(text) => canonical::digest_bytes("", text),
        Err(why) => canonical::digest_bytes("svc/unreadable/v1", why.to_string().as_bytes()),
    }
}

/// The deployment's registry; `None` if signatures are not verified.
pub(crate) fn load_registry(settings: &Settings) -> Result<Option<Approvers>, StartError> {
    let Some(path) = settings.approvals.signed.file() else { return Ok(None) };
    let approvers = registry::load(path);
    let with_path = |error| StartError::new(format!("approvers file `{}`", path.display()), error);
    approvers.map(Some).map_err(with_path)
}
