//! The messages in the writer's queue. Jobs of any type implement one trait.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::oneshot;

use crate::connection::Connection;
use crate::error::WriteError;
use crate::job::Job;

/// A message to the writer.
pub(crate) enum Message<S> {
    /// Commit a job, in a transaction with other jobs.
    Job(Box<dyn Queued<S>>),
    /// Do something outside of transactions.
    Order(Order),
}

pub(crate) enum Order {
    /// Move the log into the database file, and answer whether all of it moved.
    Checkpoint(oneshot::Sender<Result<bool, WriteError>>),
    /// Refuse new messages, finish the queued ones, close, then answer.
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

/// A job with its output and the channel to its caller. It runs even if the caller has disconnected.
pub(crate) trait Queued<S>: Send {
    /// Runs the job and keeps its output, which replaces that of an earlier run.
    fn apply<'a>(&'a mut self, conn: &'a mut Connection, state: &'a mut S) -> Applied<'a>;
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
pub(crate) fn ticket<J: Job>(
    job: J,
    caller: oneshot::Sender<Result<J::Output, WriteError>>,
) -> Box<dyn Queued<J::State>> {
    Box::new(Ticket { job, output: None, caller })
}

impl<J: Job> Queued<J::State> for Ticket<J> {
    fn apply<'a>(&'a mut self, conn: &'a mut Connection, state: &'a mut J::State) -> Applied<'a> {
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
        // The caller would log the error.
        if let Err(Err(error)) = self.caller.send(Err(error)) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a write failed after its caller disconnected"
            );
        }
    }
}

/// Applies a job, and turns a panic into a failure.
pub(crate) fn catch_panic(applied: Applied<'_>) -> Result<(), Failure> {
    // INVARIANT: after a panic the writer rolls back and restores the state, so nothing half done remains.
    match catch_unwind(AssertUnwindSafe(|| at_once(applied))) {
        Ok(result) => result.map_err(Failure::Error),
        Err(payload) => Err(panicked(payload.as_ref())),
    }
}

/// The output of a future that awaits nothing but the writer's connection, which is always ready.
pub(crate) fn at_once<T>(future: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => {
            Err(sqlx::Error::Protocol("a write awaited something else than its connection".to_owned()))
        }
    }
}

fn panicked(payload: &(dyn Any + Send)) -> Failure {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("no message"), "a database write panicked");
    Failure::Panicked
}
