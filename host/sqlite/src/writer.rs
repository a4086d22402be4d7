//! The one task that writes: it commits whatever waits, together.

use std::fs::File;
use std::mem;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::error::WriteError;
use crate::job::State;
use crate::limits::JOBS_PER_COMMIT_MAX;
use crate::queue::{Message, Queued};
use crate::session::{Outcome, Session};

type Batch<S> = Vec<Box<dyn Queued<S>>>;

/// The queue as the writer sees it: jobs, and now and then an order that stands alone.
pub(crate) struct Intake<S> {
    queue: mpsc::Receiver<Message<S>>,
    /// Taken from the queue while jobs were collected; carried out once they are settled.
    order: Option<Order>,
}

enum Order {
    Checkpoint(oneshot::Sender<Result<bool, WriteError>>),
    Close(oneshot::Sender<()>),
}

impl<S> Intake<S> {
    /// Waits until there is something to do; false when there will never be anything again.
    async fn wait(&mut self, batch: &mut Batch<S>) -> bool {
        let Some(message) = self.queue.recv().await else { return false };
        self.take(message, batch);
        true
    }

    /// Adds the jobs that wait now. Called again after the last job of a batch, for those that arrived while it
    /// ran: they share its sync instead of waiting for the next one.
    pub(crate) fn fill(&mut self, batch: &mut Batch<S>) {
        while self.order.is_none() && batch.len() < JOBS_PER_COMMIT_MAX {
            let Ok(message) = self.queue.try_recv() else { return };
            self.take(message, batch);
        }
    }

    fn take(&mut self, message: Message<S>, batch: &mut Batch<S>) {
        match message {
            Message::Job(job) => batch.push(job),
            Message::Checkpoint(caller) => self.order = Some(Order::Checkpoint(caller)),
            Message::Close(caller) => self.order = Some(Order::Close(caller)),
        }
    }
}

/// Works until the queue is closed and empty, then closes the database; `lock` is let go last.
pub(crate) async fn serve<S: State>(mut session: Session<S>, queue: mpsc::Receiver<Message<S>>, lock: File) {
    let mut intake = Intake { queue, order: None };
    let mut closers = Vec::new();
    let mut batch = Vec::with_capacity(JOBS_PER_COMMIT_MAX);
    while intake.wait(&mut batch).await {
        intake.fill(&mut batch);
        commit(&mut session, &mut intake, mem::take(&mut batch)).await;
        match intake.order.take() {
            None => {}
            Some(Order::Checkpoint(caller)) => {
                let done = session.checkpoint().await;
                let _ = caller.send(done.map_err(|error| WriteError::Unavailable(Arc::new(error))));
            }
            Some(Order::Close(caller)) => {
                intake.queue.close();
                closers.push(caller);
            }
        }
    }
    session.finish().await;
    drop(lock);
    for caller in closers {
        let _ = caller.send(());
    }
}

/// Commits the jobs in one transaction; if one of them spoils it, each in its own.
async fn commit<S: State>(session: &mut Session<S>, intake: &mut Intake<S>, mut batch: Batch<S>) {
    if batch.is_empty() {
        return;
    }
    let outcome = session.transaction(&mut batch, |batch| intake.fill(batch)).await;
    session.note_disk(&outcome);
    if batch.len() == 1 || !matches!(outcome, Outcome::Poisoned(_)) {
        return settle(batch, outcome);
    }
    for job in batch {
        let mut alone = vec![job];
        let outcome = session.transaction(&mut alone, |_| {}).await;
        session.note_disk(&outcome);
        settle(alone, outcome);
    }
}

/// Tells every caller how the transaction of its job ended.
fn settle<S>(batch: Batch<S>, outcome: Outcome) {
    let error = match outcome {
        Outcome::Committed => return batch.into_iter().for_each(|job| job.answer()),
        Outcome::Poisoned(failure) => failure.into_write_error(),
        Outcome::Unavailable(error) => WriteError::Unavailable(Arc::new(error)),
        Outcome::InDoubt(error) => WriteError::Commit(Arc::new(error)),
    };
    for job in batch {
        job.fail(error.clone());
    }
}
