//! What readers of this deployment's evidence must believe beforehand, from its keys.

use crate::settings::Settings;
use gateway_authority::{EmbeddedAuthority, keys};
use gateway_domain::ids::Hex32;
use gateway_evidence::roots::{FORMAT, RootsFile};
use std::collections::BTreeMap;
use std::error::Error;

/// The roots file of a deployment that was started once; nothing is made here.
pub(super) fn print(settings: &Settings) -> Result<String, Box<dyn Error>> {
    let authority = EmbeddedAuthority::new(&keys::load(&settings.authority_key)?).public_key();
    let file = RootsFile {
        format: FORMAT.to_owned(),
        authorities: vec![Hex32::new(authority)],
        nodes: BTreeMap::new(),
        logs: Vec::new(),
        keys: BTreeMap::new(),
        bundles: Vec::new(),
    };
    Ok(serde_json::to_string_pretty(&file)? + "\n")
}
