//! The operating system's limit of open files. Each connection is an open file.

use crate::StartError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the process's limit to `n_needed`. Without files to open, a process could not use its databases either.
///
/// # Errors
/// [`StartError`] when the system allows fewer.
pub fn raise(n_needed: u64) -> Result<(), StartError> {
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
