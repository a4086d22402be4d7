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

/// The gateway's rule for signatures: an approval may be as old as an operation can wait for it.
#[must_use]
pub fn at_approval(settings: &Settings) -> SigningRule {
    rule(settings, settings.approvals.ttl_ms)
}

/// A node's rule for signatures, with a registry that it reads for itself: an approval may be older by the validity of an
/// admission decision.
#[must_use]
pub fn at_nodes(settings: &Settings) -> SigningRule {
    rule(settings, settings.approvals.ttl_ms.saturating_add(settings.operations.admission_ttl_ms))
}

/// While the registry cannot be read no approval counts; [`Verifiers`] reads it again.
fn rule(settings: &Settings, age_max_ms: u64) -> SigningRule {
    let pinned = |file: &Path| match registry::load(file) {
        Ok(approvers) => PinnedRegistry::new(Arc::new(approvers), age_max_ms),
        Err(_) => PinnedRegistry::without_registry(age_max_ms),
    };
    match &settings.approvals.signed {
        SignedApprovals::Off => SigningRule::Off,
        SignedApprovals::Optional(file) => SigningRule::Optional(pinned(file)),
        SignedApprovals::Required(file) => SigningRule::Required(pinned(file)),
    }
}

/// The rules that verify signatures, and the registry's file.
#[derive(Debug)]
pub struct Verifiers {
    file: PathBuf,
    rules: Vec<SigningRule>,
    /// Of the text that was read last, or of the error.
    fingerprint: Hex32,
}

impl Verifiers {
    /// Puts the registry into these rules; `None` if signatures are not verified.
    #[must_use]
    pub fn open(settings: &Settings, rules: Vec<SigningRule>) -> Option<Self> {
        let file = settings.approvals.signed.file()?.to_owned();
        let mut verifiers = Self { file, rules, fingerprint: Hex32::ZERO };
        if let Err(error) = verifiers.reload() {
            log_unusable(&error);
        }
        Some(verifiers)
    }

    /// Reads the registry, and logs when it changed. A file that cannot be read may be a revocation: no approval counts until
    /// it can be read.
    pub fn watch(&mut self) {
        let text = registry::read(&self.file);
        if fingerprint(&text) != self.fingerprint {
            log(self.put_in_force(text));
        }
    }

    /// Reads the registry, and logs in any case.
    pub fn read_again(&mut self) {
        log(self.reload());
    }

    fn reload(&mut self) -> Result<(), Fault> {
        self.put_in_force(registry::read(&self.file))
    }

    fn put_in_force(&mut self, text: Result<Vec<u8>, Fault>) -> Result<(), Fault> {
        self.fingerprint = fingerprint(&text);
        let approvers = text.and_then(|text| Ok(Arc::new(Approvers::parse(&text)?)));
        for rule in &self.rules {
            rule.replace_registry(approvers.as_ref().ok().cloned());
        }
        approvers.map(|_| ())
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
    tracing::error!(error, "the registry of approvers cannot be used: no approval counts until it is right");
}

fn fingerprint(text: &Result<Vec<u8>, Fault>) -> Hex32 {
    match text {
        Ok(text) => canonical::digest_bytes("", text),
        Err(why) => canonical::digest_bytes("svc/unreadable/v1", why.to_string().as_bytes()),
    }
}

/// The deployment's registry; `None` if signatures are not verified.
pub(crate) fn of_deployment(settings: &Settings) -> Result<Option<Approvers>, StartError> {
    let Some(path) = settings.approvals.signed.file() else { return Ok(None) };
    let approvers = registry::load(path);
    let named = |error| StartError::new(format!("approvers file `{}`", path.display()), error);
    approvers.map(Some).map_err(named)
}
