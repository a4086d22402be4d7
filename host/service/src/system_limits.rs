//! The operating system's limits of open files and of threads. Each connection is an open file.

use crate::StartError;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::num::NonZero;
use std::sync::{Arc, mpsc};
use std::thread;

/// Stack of a thread that only waits, in bytes. The system may use more.
const STACK_BYTES: usize = 16 << 10;

/// The worker threads of an async runtime: one for each processor.
#[must_use]
pub fn n_workers() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Starts `n_needed` threads, which end at once. The libraries that start threads later have no error for it: they panic.
///
/// # Errors
/// The system allows fewer now.
pub fn check_threads(n_needed: usize) -> io::Result<()> {
    // Each waits until all are started.
    let (started, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let mut threads = Vec::with_capacity(n_needed);
    let mut refused = None;
    while threads.len() < n_needed && refused.is_none() {
        let wait = Arc::clone(&wait);
        let waits = move || wait.lock().recv();
        match thread::Builder::new().stack_size(STACK_BYTES).spawn(waits) {
            Ok(thread) => threads.push(thread),
            Err(error) => refused = Some(error),
        }
    }
    drop(started);
    let n_started = threads.len();
    for thread in threads {
        let _panicked = thread.join();
    }
    let Some(error) = refused else { return Ok(()) };
    let why = format!(
        "{n_needed} threads are needed, and the system starts {n_started} ({error}): raise the limit (ulimit -u, TasksMax of systemd, \
         pids of the container)"
    );
    Err(io::Error::new(error.kind(), why))
}

/// Raises the process's limit of open files to `n_needed`. Without files to open, a process could not use its databases either.
///
/// # Errors
/// [`StartError`] when the system allows fewer.
pub fn raise_files(n_needed: u64) -> Result<(), StartError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_can_be_started_are_enough() {
        assert!(check_threads(0).is_ok() && check_threads(n_workers() + 8).is_ok());
    }
}
