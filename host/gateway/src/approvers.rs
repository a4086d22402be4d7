//! The registry of approvers: read at start, and again when the process is told to. And the commands on it.

use crate::compose::StartError;
use crate::settings::{Settings, SignedApprovals};
use gateway_domain::approval::limits::REGISTRY_BYTES_MAX;
use gateway_domain::approval::{Approvers, Pinned, SigningRule};
use std::error::Error;
use std::fs::File;
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
///
/// # Errors
/// [`StartError`] naming the registry that is wrong.
pub fn at_approval(settings: &Settings) -> Result<SigningRule, StartError> {
    rule(settings, settings.approval_ttl_ms)
}

/// What a node makes of them, from a registry that it reads for itself: a decision may come as long after the approvals
/// as it holds.
///
/// # Errors
/// As [`at_approval`].
pub fn at_nodes(settings: &Settings) -> Result<SigningRule, StartError> {
    rule(settings, settings.approval_ttl_ms.saturating_add(settings.admission_ttl_ms))
}

fn rule(settings: &Settings, age_max_ms: u64) -> Result<SigningRule, StartError> {
    let Some(approvers) = registry(settings)? else { return Ok(SigningRule::Off) };
    let pinned = Pinned::new(Arc::new(approvers), age_max_ms);
    Ok(match &settings.signed_approvals {
        SignedApprovals::Off => SigningRule::Off,
        SignedApprovals::Optional(_) => SigningRule::Optional(pinned),
        SignedApprovals::Required(_) => SigningRule::Required(pinned),
    })
}

/// Everybody who verifies signatures, and the file that says whose.
#[derive(Debug)]
pub struct Verifiers {
    file: PathBuf,
    rules: Vec<SigningRule>,
}

impl Verifiers {
    /// Those that hold to these rules; none where nobody verifies.
    #[must_use]
    pub fn new(settings: &Settings, rules: Vec<SigningRule>) -> Option<Self> {
        settings.signed_approvals.file().map(|file| Self { file: file.to_owned(), rules })
    }

    /// Reads the registry again and puts it in force with all of them.
    ///
    /// # Errors
    /// A line for the operator: the file is no registry, and the one in force stays.
    pub fn reload(&self) -> Result<(), Fault> {
        let approvers = Arc::new(load(&self.file)?);
        self.rules.iter().for_each(|rule| rule.put_in_force(Arc::clone(&approvers)));
        Ok(())
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
    let opened = |error: std::io::Error| Fault::from(format!("can not be opened: {}", error.kind()));
    let file = File::open(path).map_err(opened)?;
    // Of the open file, not of the name.
    let mode = file.metadata().map_err(opened)?.mode();
    if mode & WRITABLE_BY_ALL != 0 {
        return Err(format!("has mode {:04o}: anybody may write to it", mode & 0o7777).into());
    }
    let mut text = Vec::new();
    let bytes_max = u64::try_from(REGISTRY_BYTES_MAX).unwrap_or(u64::MAX);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut text).map_err(opened)?;
    Ok(Approvers::parse(&text)?)
}
