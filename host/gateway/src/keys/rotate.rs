//! `keys rotate`: replaces a key.

use crate::services::fleet_config;
use crate::settings::Settings;
use gateway_domain::ids::Hex32;
use gateway_engine::failpoint::failpoint;
use gateway_fleet::{identities, participants_with_database, rewrap};
use gateway_seal::at_rest::Kek;
use gateway_seal::kek_source::{KekSource, replacement_path};
use gateway_seal::{durable, key_file};
use gateway_service::output::{self, Lines};
use gateway_service::process::{self, Fault};
use policy_authority::Authority;
use std::sync::Arc;

/// Replaces the authority's key. Decisions of the old key are valid while its public half is in `authority_keys_previous`, so
/// that is printed before the old key is overwritten.
pub(super) fn authority(settings: &Settings) -> Result<(), Fault> {
    let path = settings
        .authority
        .own_key()
        .ok_or("the authorities are processes of their own: their operators replace their keys")?;
    let old = Hex32::new(Authority::new(&*key_file::load(path)?).public_key());
    let next = replacement_path(path);
    let new = Hex32::new(Authority::new(&*key_file::load_or_create(&next)?).public_key());
    let mut previous = settings.authority.keys_previous.clone();
    previous.retain(|key| *key != old && *key != new);
    previous.insert(0, old);
    let previous = previous.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut lines = Lines::new();
    lines.add(format_args!("new authority key: {new}"));
    lines.add(format_args!("start the gateway with authority_keys_previous = {previous:?}"));
    lines.add(format_args!(
        "remove {old} from it when its last decision has expired: {} s after that start",
        settings.operations.admission_ttl_ms.div_ceil(1000)
    ));
    output::print(&lines)?;
    failpoint("before-authority-key");
    Ok(durable::rename(&next, path)?)
}

/// Replaces the key that encrypts the nodes' secrets. The gateway must be stopped: it locks the nodes' databases.
pub(super) fn node(settings: &Settings) -> Result<(), Fault> {
    let path = match settings.nodes.own_key() {
        Some(KekSource::File(path)) => path,
        Some(KekSource::Passphrase(_)) => {
            return Err(
                "the nodes' key is derived from a passphrase, so there is no key file to replace".into()
            );
        }
        None => return Err("the nodes are processes of their own: use `runtime-node rewrap` at each".into()),
    };
    let next = replacement_path(path);
    let old = Arc::new(Kek::from_file(path)?);
    let authority = Authority::new(&*key_file::load(&settings.authority.key)?).public_key();
    let config = fleet_config(settings, &[authority], Arc::clone(&old))?;
    let runtime = process::small_runtime()?;
    let was_interrupted = next.exists();
    let new = Arc::new(Kek::new(key_file::load_or_create(&next)?));
    let rewrapped = runtime.block_on(async {
        let rewrapped = rewrap(&config, &new).await;
        // Nodes are rewritten in order: if any is encrypted with the new key, the first one is.
        let is_unused = identities(&config.folder, &new).await.is_err_and(|error| {
            participants_with_database(&config.folder)
                .first()
                .is_some_and(|first| error.participant == *first)
        });
        rewrapped.map_err(|error| (error, is_unused))
    });
    let n_nodes = rewrapped.or_else(|(error, is_unused)| {
        if is_unused && !was_interrupted {
            std::fs::remove_file(&next)?;
        }
        Err(Fault::from(error))
    })?;
    failpoint("before-node-key");
    durable::rename(&next, path)?;
    let (old, new) = (old.id(), new.id());
    let done = format!("{n_nodes} nodes were encrypted again: key {old} was replaced by key {new}");
    Ok(output::print_line(done)?)
}
