//! The registry of approvers: read at start, and again when it changes or the process is told to. And the commands on it.

use crate::compose::StartError;
use crate::settings::{Settings, SignedApprovals};
use gateway_domain::approval::limits::REGISTRY_BYTES_MAX;
use gateway_domain::approval::{Approvers, Pinned, SigningRule};
use gateway_domain::canonical;
use gateway_domain::chain;
use gateway_domain::ids::Hex32;
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) mod command;

pub(crate) use command::main;

type Fault = Box<dyn Error + Send + Sync>;

/// Others may write to it: whoever may write a registry may approve anything.
const WRITABLE_BY_ALL: u32 = 0o002;

/// What the gateway makes of signatures: an approval is signed for an operation that waits for it.
#[must_use]
pub fn at_approval(settings: &Settings) -> SigningRule {
    rule(settings, settings.approval_ttl_ms)
}

/// What a node makes of them, from a registry that it reads for itself: a decision may come as long after the approvals
/// as it holds.
#[must_use]
pub fn at_nodes(settings: &Settings) -> SigningRule {
    rule(settings, settings.approval_ttl_ms.saturating_add(settings.admission_ttl_ms))
}

/// With a registry that cannot be read no approval counts, until [`Verifiers`] finds one that can.
fn rule(settings: &Settings, age_max_ms: u64) -> SigningRule {
    let pinned = |file: &Path| match load(file) {
        Ok(approvers) => Pinned::new(Arc::new(approvers), age_max_ms),
        Err(_) => Pinned::without_registry(age_max_ms),
    };
    match &settings.signed_approvals {
        SignedApprovals::Off => SigningRule::Off,
        SignedApprovals::Optional(file) => SigningRule::Optional(pinned(file)),
        SignedApprovals::Required(file) => SigningRule::Required(pinned(file)),
    }
}

/// Everybody who verifies signatures, and the file that says whose.
#[derive(Debug)]
pub struct Verifiers {
    file: PathBuf,
    rules: Vec<SigningRule>,
    /// Of what was read last, or of why it could not be.
    fingerprint: Hex32,
}

impl Verifiers {
    /// Those that hold to these rules, with the registry as it is now; none where nobody verifies.
    #[must_use]
    pub fn open(settings: &Settings, rules: Vec<SigningRule>) -> Option<Self> {
        let file = settings.signed_approvals.file()?.to_owned();
        let mut verifiers = Self { file, rules, fingerprint: Hex32::ZERO };
        if let Err(error) = verifiers.reload() {
            log_unusable(&error);
        }
        Some(verifiers)
    }

    /// Reads the registry, and tells in the log when it is another than before. What cannot be read, or is none, may be a
    /// revocation: no approval counts until it is right.
    pub fn watch(&mut self) {
        let text = read(&self.file);
        if fingerprint(&text) != self.fingerprint {
            log(self.put_in_force(text));
        }
    }

    /// As [`Self::watch`], and tells in any case.
    pub fn look_again(&mut self) {
        log(self.reload());
    }

    fn reload(&mut self) -> Result<(), Fault> {
        self.put_in_force(read(&self.file))
    }

    fn put_in_force(&mut self, text: Result<Vec<u8>, Fault>) -> Result<(), Fault> {
        self.fingerprint = fingerprint(&text);
        let approvers = text.and_then(|text| Ok(Arc::new(Approvers::parse(&text)?)));
        for rule in &self.rules {
            rule.put_in_force(approvers.as_ref().ok().cloned());
        }
        approvers.map(|_| ())
    }
}

fn log(reading: Result<(), Fault>) {
    match reading {
        Ok(()) => tracing::info!("approvers were read again"),
        Err(error) => log_unusable(&error),
    }
}

fn log_unusable(error: &Fault) {
    let error = chain(error.as_ref());
    tracing::error!(error, "the registry of approvers cannot be used: no approval counts until it is right");
}

fn fingerprint(text: &Result<Vec<u8>, Fault>) -> Hex32 {
    match text {
        Ok(text) => canonical::digest_bytes("", text),
        Err(why) => canonical::digest_bytes("svc/unreadable/v1", why.to_string().as_bytes()),
    }
}

/// The deployment's registry; none where nobody verifies.
pub(crate) fn registry(settings: &Settings) -> Result<Option<Approvers>, StartError> {
    let Some(path) = settings.signed_approvals.file() else { return Ok(None) };
    let approvers = load(path);
    let named = |error| StartError::new(format!("approvers file `{}`", path.display()), error);
    approvers.map(Some).map_err(named)
}

/// The registry in a file that not everybody may write to.
pub(crate) fn load(path: &Path) -> Result<Approvers, Fault> {
    Ok(Approvers::parse(&read(path)?)?)
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    let opened = |error: std::io::Error| Fault::from(format!("can not be opened: {}", error.kind()));
    // A pipe would keep every later look waiting.
    if !fs::metadata(path).map_err(opened)?.is_file() {
        return Err("is not a regular file".into());
    }
    let file = File::open(path).map_err(opened)?;
    // Of the open file, not of the name.
    let mode = file.metadata().map_err(opened)?.mode();
    if mode & WRITABLE_BY_ALL != 0 {
        return Err(format!("has mode {:04o}: anybody may write to it", mode & 0o7777).into());
    }
    let mut text = Vec::new();
    let bytes_max = u64::try_from(REGISTRY_BYTES_MAX).unwrap_or(u64::MAX);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut text).map_err(opened)?;
    Ok(text)
}
