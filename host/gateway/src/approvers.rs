//! The rules that verify approvers' signatures, of the gateway and of its embedded nodes.

use crate::settings::Settings;
use gateway_domain::approval::{Approvers, SigningRule};
use gateway_service::StartError;
use gateway_service::approvers;

/// The gateway's rule for signatures. An approval may be as old as an operation can wait for it.
#[must_use]
pub fn gateway_rule(settings: &Settings) -> SigningRule {
    settings.approvals.signed.rule(settings.approvals.ttl_ms)
}

/// The nodes' rule for signatures, with a registry of its own. An approval may be older by the validity of an admission
/// decision.
#[must_use]
pub fn node_rule(settings: &Settings) -> SigningRule {
    let age_max_ms = settings.approvals.ttl_ms.saturating_add(settings.operations.admission_ttl_ms);
    settings.approvals.signed.rule(age_max_ms)
}

/// The deployment's registry; `None` if signatures are not verified.
pub(crate) fn load_registry(settings: &Settings) -> Result<Option<Approvers>, StartError> {
    let Some(path) = settings.approvals.signed.file() else { return Ok(None) };
    let approvers = approvers::load(path);
    let with_path = |error| StartError::new(format!("approvers file `{}`", path.display()), error);
    approvers.map(Some).map_err(with_path)
}
