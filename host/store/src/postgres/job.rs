//! A change that waits for the writer.

use crate::record::frontier::{Appended, LogFrontier};
use sqlx::PgConnection;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

/// One change. Several share a transaction, and each may run more than once before it is answered. A job that refuses says so in its
/// output, and changes neither rows nor the log.
pub(crate) trait Job: Send + Sync + 'static {
    type Output: Send + 'static;

    /// Writes on `conn`, inside a transaction that holds the end of the log.
    fn apply(
        &self,
        conn: &mut PgConnection,
        log: &mut LogFrontier,
    ) -> impl Future<Output = Result<Self::Output, sqlx::Error>> + Send;
}

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

/// A job with its output and the channel to its caller. It runs even if the caller has disconnected.
pub(super) trait Queued: Send {
    /// Runs the job and keeps its output, which replaces that of an earlier run.
    fn apply<'a>(&'a mut self, conn: &'a mut PgConnection, log: &'a mut LogFrontier) -> Applied<'a>;
    /// Sends the output to the caller.
    fn answer(self: Box<Self>);
    /// Sends an error to the caller instead.
    fn fail(self: Box<Self>, error: WriteError);
}

struct Ticket<J: Job> {
    job: J,
    output: Option<J::Output>,
    caller: oneshot::Sender<Result<J::Output, WriteError>>,
}

/// Wraps `job` for the queue.
pub(super) fn ticket<J: Job>(
    job: J,
    caller: oneshot::Sender<Result<J::Output, WriteError>>,
) -> Box<dyn Queued> {
    Box::new(Ticket { job, output: None, caller })
}

impl<J: Job> Queued for Ticket<J> {
    fn apply<'a>(&'a mut self, conn: &'a mut PgConnection, log: &'a mut LogFrontier) -> Applied<'a> {
        Box::pin(async move {
            self.output = Some(self.job.apply(conn, log).await?);
            Ok(())
        })
    }

    fn answer(self: Box<Self>) {
        let _caller_gone = self.caller.send(self.output.ok_or(WriteError::Closed));
    }

    fn fail(self: Box<Self>, error: WriteError) {
        // The caller would log the error.
        if let Err(Err(error)) = self.caller.send(Err(error)) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a write failed after its caller disconnected"
            );
        }
    }
}

/// Awaits a job and turns a panic into an error. The transaction is rolled back then, so nothing half done remains.
pub(super) async fn catch_panic(mut applied: Applied<'_>) -> Result<(), sqlx::Error> {
    let polled = poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| applied.as_mut().poll(cx))).unwrap_or_else(|_| {
            tracing::error!("a database write panicked");
            Poll::Ready(Err(sqlx::Error::WorkerCrashed))
        })
    });
    polled.await
}

/// The inner nodes that an append completes, as columns.
pub(super) struct NodeColumns {
    pub(super) levels: Vec<i64>,
    pub(super) positions: Vec<i64>,
    pub(super) hashes: Vec<Vec<u8>>,
}

impl NodeColumns {
    pub(super) fn of(appended: &Appended) -> Self {
        let nodes = &appended.nodes;
        Self {
            levels: nodes.iter().map(|node| i64::from(node.level)).collect(),
            positions: nodes.iter().map(|node| crate::record::encode::integer(node.index)).collect(),
            hashes: nodes.iter().map(|node| node.hash.as_bytes().to_vec()).collect(),
        }
    }
}
