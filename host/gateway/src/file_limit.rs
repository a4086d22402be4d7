//! The operating system's limit of open files. Each connection is an open file.

use crate::compose::StartError;
use crate::settings::Settings;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files besides connections and nodes: the gateway's database, policies, pipes.
const FILES_OF_GATEWAY: u64 = 256;

/// Open files of a node: its database, journal and shared memory, for each reader and the writer.
const FILES_OF_NODE: u64 = 16;

/// Raises the process's limit to what the settings need. Without files to open, the gateway could not use its databases either.
///
/// # Errors
/// [`StartError`] when the system allows fewer.
pub(crate) fn raise(settings: &Settings) -> Result<(), StartError> {
    let n_needed = n_needed(settings);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= n_needed) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(n_needed), maximum };
    if maximum.is_none_or(|maximum| maximum >= n_needed) && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let n_allowed = maximum.or(current).unwrap_or_default();
    let why = format!(
        "needs {n_needed} open files, with those of the nodes, and the system allows {n_allowed}; lower it or raise the limit (ulimit -n)"
    );
    Err(StartError::new("setting `connections_max`", why))
}

fn n_needed(settings: &Settings) -> u64 {
    let n_listeners = 1 + u64::from(settings.server.admin_bind.is_some());
    let connections_max = u64::try_from(settings.server.limits.connections_max).unwrap_or(u64::MAX);
    let n_of_nodes = u64::from(settings.nodes.count).saturating_mul(FILES_OF_NODE);
    connections_max.saturating_mul(n_listeners).saturating_add(n_of_nodes).saturating_add(FILES_OF_GATEWAY)
}
