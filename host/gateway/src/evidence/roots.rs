//! What readers of this deployment's evidence must believe beforehand, from its keys. Nothing is made here: a deployment
//! that was never started has none.

use crate::approvers;
use crate::compose::{StartError, node_identities};
use crate::settings::{Settings, SignedApprovals as Settled};
use gateway_authority::{EmbeddedAuthority, LogSigner};
use gateway_domain::ids::Hex32;
use gateway_domain::log::VerifierKey;
use gateway_engine::ports::SignCheckpoint;
use gateway_evidence::roots::{FORMAT, RootsFile, SignedApprovals};
use gateway_seal::key_file;
use std::collections::BTreeMap;
use std::error::Error;

/// The roots of a deployment that may be serving.
///
/// # Errors
/// [`StartError`] naming the key that could not be read.
pub async fn roots(settings: &Settings) -> Result<RootsFile, StartError> {
    let seed = |what: &str, path| key_file::load(path).map_err(|error| StartError::new(what, error));
    let authority = EmbeddedAuthority::new(&*seed("authority", &settings.authority_key)?);
    let log = LogSigner::new(settings.log_origin.clone(), &*seed("log key", &settings.log_key)?);
    of_keys(settings, authority.public_key(), log.verifier_key()).await
}

/// As [`roots`], of an authority and a log whose public keys are known.
///
/// # Errors
/// [`StartError`] when the nodes' identities or the registry of approvers cannot be read.
pub async fn of_keys(
    settings: &Settings,
    authority: [u8; 32],
    log: &VerifierKey,
) -> Result<RootsFile, StartError> {
    let nodes = node_identities(settings).await?;
    let previous = settings.authority_keys_previous.iter().copied();
    let approvers = approvers::registry(settings)?.map(|approvers| approvers.file().clone());
    let signed_approvals = match &settings.signed_approvals {
        Settled::Off => None,
        Settled::Optional(_) => Some(SignedApprovals::Optional),
        Settled::Required(_) => Some(SignedApprovals::Required),
    };
    Ok(RootsFile {
        format: FORMAT.to_owned(),
        authorities: [Hex32::new(authority)].into_iter().chain(previous).collect(),
        nodes: nodes.into_iter().map(|(node, key)| (node, Hex32::new(key))).collect(),
        logs: vec![log.to_string()],
        keys: BTreeMap::new(),
        bundles: Vec::new(),
        facts: BTreeMap::new(),
        approvers,
        signed_approvals,
    })
}

/// The file's text.
pub(super) fn print(settings: &Settings) -> Result<String, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let file = runtime.block_on(roots(settings))?;
    Ok(serde_json::to_string_pretty(&file)? + "\n")
}
