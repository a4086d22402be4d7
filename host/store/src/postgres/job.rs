//! A write that waits for the writer.

use crate::change::{CommitWrite, Write};
use crate::record::frontier::LogFrontier;
use sqlx::PgConnection;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

/// Why a change was not acknowledged.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// Nothing was written.
    #[error("nothing was written")]
    Unwritten(#[source] Arc<sqlx::Error>),
    /// The server did not acknowledge the COMMIT: the change may be durable.
    #[error("the commit was not acknowledged")]
    InDoubt(#[source] Arc<sqlx::Error>),
    /// The store is closed, or its writer ended.
    #[error("the store is closed")]
    Closed,
}

impl WriteError {
    /// Whether the server's disk is full (PostgreSQL, appendix A).
    pub(super) fn is_disk_full(&self) -> bool {
        let (Self::Unwritten(error) | Self::InDoubt(error)) = self else { return false };
        error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "53100")
    }
}

type Applied<'a> = Pin<Box<dyn Future<Output = Result<(), sqlx::Error>> + Send + 'a>>;

/// What waits for the writer. It is written even if its caller has disconnected.
pub(super) enum Waiting {
    /// Written together with others.
    Commit(Box<Ticket<CommitWrite>>),
    /// Written by itself.
    Other(Box<dyn Queued>),
}

impl Waiting {
    pub(super) fn answer(self) {
        match self {
            Self::Commit(ticket) => ticket.answer(),
            Self::Other(job) => job.answer(),
        }
    }

    pub(super) fn fail(self, error: WriteError) {
        match self {
            Self::Commit(ticket) => ticket.fail(error),
            Self::Other(job) => job.fail(error),
        }
    }
}

/// A write of any type.
pub(super) trait Queued: Send {
    /// Runs the write and keeps its output, which replaces that of an earlier run.
    fn apply<'a>(&'a mut self, conn: &'a mut PgConnection, log: &'a mut LogFrontier) -> Applied<'a>;
    fn answer(self: Box<Self>);
    fn fail(self: Box<Self>, error: WriteError);
}

/// A write with its output and the channel to its caller.
pub(super) struct Ticket<W: Write> {
    pub(super) write: W,
    pub(super) output: Option<W::Output>,
    caller: oneshot::Sender<Result<W::Output, WriteError>>,
}

impl<W: Write> Ticket<W> {
    pub(super) const fn new(write: W, caller: oneshot::Sender<Result<W::Output, WriteError>>) -> Self {
        Self { write, output: None, caller }
    }

    fn answer(self) {
        let _caller_gone = self.caller.send(self.output.ok_or(WriteError::Closed));
    }

    fn fail(self, error: WriteError) {
        // The caller would log the error.
        if let Err(Err(error)) = self.caller.send(Err(error)) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a write failed after its caller disconnected"
            );
        }
    }
}

impl<W: Write> Queued for Ticket<W> {
    fn apply<'a>(&'a mut self, conn: &'a mut PgConnection, log: &'a mut LogFrontier) -> Applied<'a> {
        Box::pin(async move {
            self.output = Some(self.write.run(conn, log).await?);
            Ok(())
        })
    }

    fn answer(self: Box<Self>) {
        Ticket::answer(*self);
    }

    fn fail(self: Box<Self>, error: WriteError) {
        Ticket::fail(*self, error);
    }
}

/// Awaits a write and turns a panic into an error. The transaction is rolled back then, so nothing half done remains.
pub(super) async fn catch_panic<T>(
    applied: impl Future<Output = Result<T, sqlx::Error>> + Send,
) -> Result<T, sqlx::Error> {
    let mut applied = pin!(applied);
    let polled = poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| applied.as_mut().poll(cx))).unwrap_or_else(|_| {
            tracing::error!("a database write panicked");
            Poll::Ready(Err(sqlx::Error::WorkerCrashed))
        })
    });
    polled.await
}
