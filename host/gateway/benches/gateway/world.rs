//! A gateway with the committed bundle and its own data folder.

use crate::Measured;
use gateway_service::settings::ProcessSettings;
use operation_gateway::compose::{self, Gateway};
use operation_gateway::settings::{Settings, resolve};
use std::collections::BTreeMap;
use std::path::Path;

/// The repository's folder.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub(crate) fn settings(folder: &Path) -> BTreeMap<String, String> {
    let shown = |path: &Path| path.display().to_string();
    BTreeMap::from([
        ("database_url".to_owned(), format!("sqlite://{}", shown(&folder.join("gateway.db")))),
        ("node_directory".to_owned(), shown(&folder.join("nodes"))),
        ("authority_key".to_owned(), shown(&folder.join("authority.key"))),
        ("log_key".to_owned(), shown(&folder.join("log.key"))),
        ("policy_bundle".to_owned(), shown(&root().join("bundles/payment-guard"))),
        ("policy_trust_roots".to_owned(), shown(&root().join("bundles/trust-development.json"))),
        ("admission_rate".to_owned(), "0".to_owned()),
    ])
}

pub(crate) async fn open(folder: &Path) -> Measured<Gateway> {
    open_with(folder, &[]).await
}

/// As [`open`], with these settings in addition.
pub(crate) async fn open_with(folder: &Path, given: &[(&str, &str)]) -> Measured<Gateway> {
    let mut flags = settings(folder);
    flags.extend(given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let resolved = resolve(&flags, [], None).map_err(|faults| faults.join("; "))?;
    let settings = Settings::parse(&resolved).map_err(|faults| faults.join("; "))?;
    let policy = compose::open_policy(&settings)?;
    Ok(compose::open(&settings, policy).await?)
}
