//! The writer's connection, the state in memory that belongs to it, and its transactions.

use std::mem;
use std::sync::Arc;

use sqlx::error::ErrorKind;

use crate::checkpointer::Checkpointer;
use crate::connect::{Link, is_disk_full, log_unclosed};
use crate::connection::Connection;
use crate::counters::Tally;
use crate::job::State;
use crate::queue::{Failure, Queued, at_once, catch_panic};

/// The result of a transaction.
pub(crate) enum Outcome {
    /// All of its jobs are durable.
    Committed,
    /// One of its jobs failed; nothing was written.
    JobFailed(Failure),
    /// Nothing was written, for a reason outside the jobs.
    Unavailable(sqlx::Error),
    /// COMMIT failed and was rolled back, but the changes may have reached the log on disk.
    InDoubt(sqlx::Error),
}

pub(crate) struct Session<S> {
    link: Link,
    // INVARIANT: `Some` means open and outside of any transaction. `transaction` takes it out, and puts it back only
    // if that is true.
    conn: Option<Connection>,
    // INVARIANT: while `conn` is `Some`, equal to what `State::load` would read.
    state: S,
    tally: Arc<Tally>,
    /// `None` when the session ends.
    checkpointer: Option<Checkpointer>,
}

impl<S: State> Session<S> {
    /// Loads the state on a connection that is open and migrated.
    pub(crate) fn start(link: Link, mut conn: Connection, tally: Arc<Tally>) -> Result<Self, sqlx::Error> {
        let state = at_once(S::load(&mut conn))?;
        let checkpointer = Some(Checkpointer::start(link.clone()));
        Ok(Self { link, conn: Some(conn), state, tally, checkpointer })
    }

    /// Runs the jobs in one transaction. Each time all have run, `top_up` may add more. The state changes only if the
    /// transaction commits.
    pub(crate) fn transaction(
        &mut self,
        jobs: &mut Vec<Box<dyn Queued<S>>>,
        mut top_up: impl FnMut(&mut Vec<Box<dyn Queued<S>>>),
    ) -> Outcome {
        let mut conn = match self.begin() {
            Ok(conn) => conn,
            Err(error) => return Outcome::Unavailable(error),
        };
        let saved = self.state.clone();
        let mut n_run = 0;
        while let Some(job) = jobs.get_mut(n_run) {
            if let Err(failure) = catch_panic(job.apply(&mut conn, &mut self.state)) {
                self.roll_back(conn, saved);
                return Outcome::JobFailed(failure);
            }
            n_run += 1;
            if n_run == jobs.len() {
                top_up(jobs);
            }
        }
        match execute(&mut conn, "COMMIT") {
            Ok(()) => {
                self.conn = Some(conn);
                self.tally.record_commit(jobs.len());
                self.checkpointer.iter().for_each(Checkpointer::note_commit);
                Outcome::Committed
            }
            Err(error) if is_deferred_constraint(&error) => {
                self.roll_back(conn, saved);
                Outcome::JobFailed(Failure::Error(error))
            }
            Err(error) => {
                self.roll_back(conn, saved);
                Outcome::InDoubt(error)
            }
        }
    }

    /// Records whether the disk was full at this transaction, and logs a change. A transaction that failed for
    /// another reason changes nothing.
    pub(crate) fn note_disk(&self, outcome: &Outcome) {
        let error = match outcome {
            Outcome::Committed => None,
            Outcome::JobFailed(Failure::Error(error))
            | Outcome::Unavailable(error)
            | Outcome::InDoubt(error) => Some(error),
            Outcome::JobFailed(Failure::Panicked) => return,
        };
        let path = self.link.path.display();
        match error {
            None if self.tally.record_disk(false) => tracing::info!("the disk with `{path}` has room again"),
            Some(error) if is_disk_full(error, &self.link.path) && self.tally.record_disk(true) => {
                tracing::error!(
                    error = error as &dyn std::error::Error,
                    "the disk with `{path}` is full: nothing is written until it has room"
                );
            }
            None | Some(_) => {}
        }
    }

    /// Moves the log into the database file and empties it. Returns false if a running read still needs part of it.
    pub(crate) fn checkpoint(&mut self) -> Result<bool, sqlx::Error> {
        let mut conn = self.take_connection()?;
        let n_blocked = at_once(conn.value::<i64>("PRAGMA wal_checkpoint(TRUNCATE)", &[]));
        self.conn = Some(conn);
        Ok(n_blocked? == 0)
    }

    /// Empties the log and closes the connection.
    pub(crate) fn finish(mut self) {
        if let Some(checkpointer) = mem::take(&mut self.checkpointer) {
            checkpointer.stop();
        }
        match self.checkpoint() {
            Ok(true) => {}
            Ok(false) => tracing::warn!("the database log was not emptied: a read was still running"),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the database log was not emptied");
            }
        }
        if let Some(conn) = mem::take(&mut self.conn) {
            log_unclosed(at_once(conn.end()));
        }
    }

    /// Takes the connection out and begins a transaction that holds the write lock.
    fn begin(&mut self) -> Result<Connection, sqlx::Error> {
        let mut conn = self.take_connection()?;
        match execute(&mut conn, "BEGIN IMMEDIATE") {
            Ok(()) => Ok(conn),
            Err(error) => {
                log_unclosed(at_once(conn.end()));
                Err(error)
            }
        }
    }

    /// Takes the connection out; reconnects if the last one was dropped.
    fn take_connection(&mut self) -> Result<Connection, sqlx::Error> {
        if let Some(conn) = mem::take(&mut self.conn) {
            return Ok(conn);
        }
        let mut conn = self.link.writer()?;
        self.state = at_once(S::load(&mut conn))?;
        Ok(conn)
    }

    /// Rolls back and restores the state; drops the connection if it is in an unknown state.
    fn roll_back(&mut self, mut conn: Connection, saved: S) {
        self.state = saved;
        self.tally.record_rollback();
        if execute(&mut conn, "ROLLBACK").is_ok() {
            self.conn = Some(conn);
            return;
        }
        // After a full disk or an I/O error SQLite has rolled back by itself, so ROLLBACK fails. Keep this connection
        // if possible: it overwrites the frames of a failed commit, which a new one might find in the log and treat as
        // committed.
        match reload(&mut conn) {
            Ok(state) => {
                self.state = state;
                self.conn = Some(conn);
            }
            Err(_) => log_unclosed(at_once(conn.end())),
        }
    }
}

/// Loads the state from the rows. Fails if a transaction is still open.
fn reload<S: State>(conn: &mut Connection) -> Result<S, sqlx::Error> {
    execute(conn, "BEGIN IMMEDIATE")?;
    let state = at_once(S::load(conn))?;
    execute(conn, "ROLLBACK")?;
    Ok(state)
}

fn execute(conn: &mut Connection, sql: &'static str) -> Result<(), sqlx::Error> {
    at_once(conn.run(sql, &[]))
}

/// A constraint that SQLite checks only at COMMIT: one of the jobs violated it, and nothing was written.
fn is_deferred_constraint(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.kind() == ErrorKind::ForeignKeyViolation)
}
