//! The thread that moves the log into the database file while the writer goes on, so that no caller waits for it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::connect::{Link, log_unclosed};
use crate::limits::CHECKPOINT_EVERY;
use crate::queue::at_once;

/// The thread, which ends when this is dropped.
pub(crate) struct Checkpointer {
    committed: SyncSender<()>,
    running: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread. Without it, the writer checkpoints by itself, when its log has become large.
    pub(crate) fn start(link: Link) -> Self {
        let (committed, commits) = sync_channel(1);
        let (running, stopped) = channel();
        let thread = thread::Builder::new().name("checkpointer".to_owned());
        let thread = thread.spawn(move || run(&link, &commits, &stopped)).ok();
        Self { committed, running, thread }
    }

    /// Says that the log has grown. Never waits.
    pub(crate) fn note_commit(&self) {
        let _noted_already = self.committed.try_send(());
    }

    /// Waits until the thread has closed its connection.
    pub(crate) fn stop(self) {
        let Self { committed, running, thread } = self;
        drop((committed, running));
        let _panicked = thread.map(JoinHandle::join);
    }
}

/// Runs until the other ends are dropped. Sleeps while nothing is committed.
fn run(link: &Link, commits: &Receiver<()>, stopped: &Receiver<()>) {
    let mut conn = match link.writer() {
        Ok(conn) => conn,
        Err(error) => return log_failed(&error),
    };
    let mut is_failing = false;
    while commits.recv().is_ok() && stopped.recv_timeout(CHECKPOINT_EVERY) == Err(RecvTimeoutError::Timeout) {
        // What running reads still need stays in the log.
        let moved = at_once(conn.run("PRAGMA wal_checkpoint(PASSIVE)", &[]));
        if let Err(error) = moved.as_ref()
            && !is_failing
        {
            log_failed(error);
        }
        is_failing = moved.is_err();
    }
    log_unclosed(at_once(conn.end()));
}

fn log_failed(error: &sqlx::Error) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "the database log could not be moved into the database file");
}
