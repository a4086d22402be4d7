//! What waits for the writer: jobs of any type behind one face.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use sqlx::SqliteConnection;
use tokio::sync::oneshot;

use crate::error::WriteError;
use crate::job::Job;

/// One thing for the writer to do.
pub(crate) enum Message<S> {
    /// Commit a job, in company.
    Job(Box<dyn Queued<S>>),
    /// Move the log into the database file and say whether all of it moved.
    Checkpoint(oneshot::Sender<Result<bool, WriteError>>),
    /// Take no more, finish what is queued, close, then answer.
    Close(oneshot::Sender<()>),
}

/// Why a job could not be applied.
#[derive(Debug)]
pub(crate) enum Failure {
    Error(sqlx::Error),
    Panicked,
}

impl Failure {
    pub(crate) fn into_write_error(self) -> WriteError {
        match self {
            Self::Error(error) => WriteError::Job(Arc::new(error)),
            Self::Panicked => WriteError::Panicked,
        }
    }
}

type Applied<'a> = Pin<Box<dyn Future<Output = Result<(), sqlx::Error>> + Send + 'a>>;

/// A job with its output and the way back to its caller. A caller that has gone away changes nothing.
pub(crate) trait Queued<S>: Send {
    /// Runs the job and keeps its output in place of any earlier one.
    fn apply<'a>(&'a mut self, conn: &'a mut SqliteConnection, state: &'a mut S) -> Applied<'a>;
    /// Gives the caller the output kept.
    fn answer(self: Box<Self>);
    /// Gives the caller an error instead.
    fn fail(self: Box<Self>, error: WriteError);
}

struct Ticket<J: Job> {
    job: J,
    output: Option<J::Output>,
    caller: oneshot::Sender<Result<J::Output, WriteError>>,
}

/// Wraps `job` for the queue.
pub(crate) fn ticket<J: Job>(
    job: J,
    caller: oneshot::Sender<Result<J::Output, WriteError>>,
) -> Box<dyn Queued<J::State>> {
    Box::new(Ticket { job, output: None, caller })
}

impl<J: Job> Queued<J::State> for Ticket<J> {
    fn apply<'a>(&'a mut self, conn: &'a mut SqliteConnection, state: &'a mut J::State) -> Applied<'a> {
        Box::pin(async move {
            self.output = Some(self.job.apply(conn, state).await?);
            Ok(())
        })
    }

    fn answer(self: Box<Self>) {
        let answer = self.output.ok_or(WriteError::Lost);
        let _ = self.caller.send(answer);
    }

    fn fail(self: Box<Self>, error: WriteError) {
        // The caller logs its error; without a caller, nobody else would.
        if let Err(Err(error)) = self.caller.send(Err(error)) {
            tracing::warn!(error = &error as &dyn std::error::Error, "a write failed whose caller had gone");
        }
    }
}

/// Waits for a job, turning its panic into a failure.
pub(crate) async fn caught(mut applied: Applied<'_>) -> Result<(), Failure> {
    let settled = poll_fn(|cx| {
        // INVARIANT: what a panic leaves half done is thrown away: the writer rolls back and restores the state.
        match catch_unwind(AssertUnwindSafe(|| applied.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(result.map_err(Failure::Error)),
            Err(payload) => Poll::Ready(Err(panicked(payload.as_ref()))),
        }
    });
    settled.await
}

fn panicked(payload: &(dyn Any + Send)) -> Failure {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("no message"), "a database write panicked");
    Failure::Panicked
}
