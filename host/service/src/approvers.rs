//! The registry of approvers: its file, the rules that verify signatures with it, and how they follow a change of the file.

use crate::settings::Reader;
use gateway_domain::approval::limits::REGISTRY_BYTES_MAX;
use gateway_domain::approval::{Approvers, PinnedRegistry, SigningRule};
use gateway_domain::ids::Hex32;
use gateway_domain::{canonical, error_chain};
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why the registry cannot be used, in one line that does not repeat the file's name.
pub type Fault = Box<dyn Error + Send + Sync>;

/// Whether approvals are signed by their approvers, with the file of the registry that verifies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedApprovals {
    /// Signatures are not verified.
    Off,
    /// An approval may be signed; its signature is verified then.
    Optional(PathBuf),
    /// An approval without a signature is refused.
    Required(PathBuf),
}

impl SignedApprovals {
    /// Whether an approval without a signature is refused.
    #[must_use]
    pub const fn are_required(&self) -> bool {
        matches!(self, Self::Required(_))
    }

    /// The rule, with the registry, or without one if it cannot be read: no approval counts then until [`Verifiers`] has read it.
    /// An approval may be at most `age_max_ms` old.
    #[must_use]
    pub fn rule(&self, age_max_ms: u64) -> SigningRule {
        let with_registry = |file: &Path| match load(file) {
            Ok(approvers) => PinnedRegistry::new(Arc::new(approvers), age_max_ms),
            Err(_) => PinnedRegistry::without_registry(age_max_ms),
        };
        match self {
            Self::Off => SigningRule::Off,
            Self::Optional(file) => SigningRule::Optional(with_registry(file)),
            Self::Required(file) => SigningRule::Required(with_registry(file)),
        }
    }

    /// The registry; `None` if signatures are not verified.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Off => None,
            Self::Optional(file) | Self::Required(file) => Some(file),
        }
    }
}

/// Reads the settings `signed_approvals` and `approvers_file`.
pub fn signed_approvals(reader: &mut Reader<'_>, name: &str) -> SignedApprovals {
    let file = reader.resolved.text("approvers_file");
    match (reader.resolved.text(name), file) {
        ("off", "") => {}
        ("off", _) => {
            reader.fault(
                "approvers_file",
                "must be empty while `signed_approvals` is `off`: it would not be read",
            );
        }
        (word @ ("optional" | "required"), "") => {
            reader.fault("approvers_file", &format!("must be given while `signed_approvals` is `{word}`"));
        }
        ("optional", file) => return SignedApprovals::Optional(file.into()),
        ("required", file) => return SignedApprovals::Required(file.into()),
        (other, _) => {
            reader.fault(name, &format!("must be one of off, optional, required, not `{other}`"));
        }
    }
    SignedApprovals::Off
}

/// Mode bit of files that everyone may write to. Anyone who can write the registry can approve any operation.
const WRITABLE_BY_ALL: u32 = 0o002;

/// Reads the registry from a file that is not writable by everyone.
///
/// # Errors
/// One line that does not repeat the file's name.
pub fn load(path: &Path) -> Result<Approvers, Fault> {
    Ok(Approvers::parse(&read(path)?)?)
}

/// Reads the file's text, up to one byte more than [`Approvers::parse`] accepts.
///
/// # Errors
/// One line that does not repeat the file's name.
pub fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    let unreadable = |error: std::io::Error| Fault::from(format!("cannot be opened: {}", error.kind()));
    // Opening a pipe would block.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is not a regular file".into());
    }
    let file = File::open(path).map_err(unreadable)?;
    // The mode of the open file: the path may name another file by now.
    let mode = file.metadata().map_err(unreadable)?.mode();
    if mode & WRITABLE_BY_ALL != 0 {
        return Err(format!("has mode {:04o}: anybody may write to it", mode & 0o7777).into());
    }
    let mut text = Vec::new();
    let bytes_max = u64::try_from(REGISTRY_BYTES_MAX).unwrap_or(u64::MAX);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut text).map_err(unreadable)?;
    Ok(text)
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
    pub fn open(signed: &SignedApprovals, rules: Vec<SigningRule>) -> Option<Self> {
        let file = signed.file()?.to_owned();
        let mut verifiers = Self { file, rules, fingerprint: Hex32::ZERO };
        if let Err(error) = verifiers.try_reload() {
            log_unusable(&error);
        }
        Some(verifiers)
    }

    /// Reads the registry, and applies and logs a change. While the file cannot be read, which may be a revocation, no approval
    /// counts.
    pub fn reload_if_changed(&mut self) {
        let text = read(&self.file);
        if fingerprint(&text) != self.fingerprint {
            log(self.apply(text));
        }
    }

    /// Reads and applies the registry, and logs the result.
    pub fn reload(&mut self) {
        log(self.try_reload());
    }

    fn try_reload(&mut self) -> Result<(), Fault> {
        self.apply(read(&self.file))
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
