//! The roots of trust that readers of this deployment's evidence need. Keys are read and never created.

use crate::approvers;
use crate::log_signer::LogSigner;
use crate::services::authority_keys;
use crate::services::{deployment_rules, node_identities};
use crate::settings::{Settings, SignedApprovals as SignedApprovalsSetting};
use gateway_domain::dsse::Role;
use gateway_domain::ids::Hex32;
use gateway_engine::ports::SignCheckpoint;
use gateway_evidence::roots::{FORMAT, RootsFile, SignedApprovals};
use gateway_policy::TrustPolicy;
use gateway_policy::bundle::read_signed_file;
use gateway_seal::key_file;
use gateway_service::StartError;
use gateway_service::output::{self, EXIT_UNCHECKED, Lines};
use gateway_service::process::{self, Fault};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The roots of a deployment; its gateway may be running.
///
/// # Errors
/// [`StartError`] when a key, the nodes' identities or the registry of approvers cannot be read.
pub async fn roots(settings: &Settings) -> Result<RootsFile, StartError> {
    let seed = |what: &str, path| key_file::load(path).map_err(|error| StartError::new(what, error));
    let authorities = authority_keys(settings)?;
    let log = LogSigner::new(settings.log_origin.clone(), &*seed("log key", &settings.log.key)?);
    let nodes = node_identities(settings).await?;
    let previous = settings.authority.keys_previous.iter().copied();
    let approvers = approvers::load_registry(settings)?.map(|approvers| approvers.file().clone());
    let signed_approvals = match &settings.approvals.signed {
        SignedApprovalsSetting::Off => None,
        SignedApprovalsSetting::Optional(_) => Some(SignedApprovals::Optional),
        SignedApprovalsSetting::Required(_) => Some(SignedApprovals::Required),
    };
    Ok(RootsFile {
        format: FORMAT.to_owned(),
        authorities: authorities.into_iter().map(Hex32::new).chain(previous).collect(),
        authority_threshold: Some(settings.authority.threshold),
        nodes: nodes.into_iter().map(|(node, key)| (node, Hex32::new(key))).collect(),
        logs: vec![log.verifier_key().to_string()],
        keys: BTreeMap::new(),
        bundles: Vec::new(),
        documents: Vec::new(),
        facts: BTreeMap::new(),
        approvers,
        signed_approvals,
    })
}

/// Those who sign documents by the trust roots, without revoked keys.
fn document_roles(settings: &Settings) -> Result<Vec<Role>, StartError> {
    let read = read_signed_file(&settings.policy.trust_roots, "trust roots");
    let trust = read.and_then(|bytes| TrustPolicy::parse(&bytes));
    let TrustPolicy { mut documents, revoked, .. } =
        trust.map_err(|error| StartError::new("policy_trust_roots", error))?;
    documents.iter_mut().for_each(|role| role.keys.retain(|key| !revoked.contains(key)));
    Ok(documents)
}

/// Runs `evidence roots`, on request with what these settings say of policies.
pub(crate) fn print_roots(settings: &Settings, with_policy: bool) -> ExitCode {
    let print = async {
        let mut roots = roots(settings).await?;
        if with_policy {
            let facts = deployment_rules(settings).facts().into_iter();
            roots.facts = facts.map(|(name, value)| (name.to_owned(), vec![value])).collect();
            roots.documents = document_roles(settings)?;
            roots.bundles = settings.policy.pins.iter().collect();
            if roots.bundles.is_empty() {
                output::tell_line("`policy_pins` is empty: these roots accept every bundle");
            }
        }
        if roots.nodes.is_empty() {
            return Err(
                "the nodes are unknown: they get their keys with the first key of the deployment".into()
            );
        }
        let mut lines = Lines::new();
        lines.add_json_pretty(&roots)?;
        output::print(&lines)?;
        Ok(ExitCode::SUCCESS)
    };
    process::run(print, |_: &Fault| EXIT_UNCHECKED)
}
