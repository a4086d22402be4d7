//! The thread that writes. It commits all waiting jobs together.

use std::mem;
use std::sync::Arc;
use std::thread;

use tokio::sync::mpsc;

use crate::error::WriteError;
use crate::files::Locks;
use crate::job::State;
use crate::limits::{GATHERED_FOR, JOBS_PER_COMMIT_MAX};
use crate::queue::{Message, Order, Queued};
use crate::session::{Outcome, Session};

type Batch<S> = Vec<Box<dyn Queued<S>>>;

/// Takes jobs from the queue, until an order comes.
pub(crate) struct Intake<S> {
    queue: mpsc::Receiver<Message<S>>,
    /// An order taken from the queue while collecting jobs. It is carried out after their commit.
    order: Option<Order>,
}

impl<S> Intake<S> {
    /// Waits for a message. Returns false if the queue is closed and empty.
    fn wait(&mut self, batch: &mut Batch<S>) -> bool {
        let Some(message) = self.queue.blocking_recv() else { return false };
        self.take(message, batch);
        true
    }

    /// Adds the waiting jobs to the batch. Called again after its last job has run, so that jobs that arrived meanwhile
    /// share its sync.
    pub(crate) fn fill(&mut self, batch: &mut Batch<S>) {
        while self.order.is_none() && batch.len() < JOBS_PER_COMMIT_MAX {
            let Ok(message) = self.queue.try_recv() else { return };
            self.take(message, batch);
        }
    }

    fn take(&mut self, message: Message<S>, batch: &mut Batch<S>) {
        match message {
            Message::Job(job) => batch.push(job),
            Message::Order(order) => self.order = Some(order),
        }
    }
}

/// Runs until the queue is closed and empty, then closes the database. Releases the locks last.
pub(crate) fn serve<S: State>(mut session: Session<S>, queue: mpsc::Receiver<Message<S>>, locks: Locks) {
    let mut intake = Intake { queue, order: None };
    let mut closers = Vec::new();
    let mut batch = Vec::with_capacity(JOBS_PER_COMMIT_MAX);
    // Whether callers write at the same time, so that more jobs are likely to come.
    let mut is_shared = false;
    while intake.wait(&mut batch) {
        if is_shared {
            thread::sleep(GATHERED_FOR);
        }
        intake.fill(&mut batch);
        is_shared = commit(&mut session, &mut intake, mem::take(&mut batch));
        match intake.order.take() {
            None => {}
            Some(Order::Checkpoint(caller)) => {
                let done = session.checkpoint();
                let _ = caller.send(done.map_err(|error| WriteError::Unavailable(Arc::new(error))));
            }
            Some(Order::Close(caller)) => {
                intake.queue.close();
                closers.push(caller);
            }
        }
    }
    session.finish();
    drop(locks);
    for caller in closers {
        let _ = caller.send(());
    }
}

/// Commits the jobs in one transaction; if one of them fails, each in its own. Returns whether there were several.
fn commit<S: State>(session: &mut Session<S>, intake: &mut Intake<S>, mut batch: Batch<S>) -> bool {
    if batch.is_empty() {
        return false;
    }
    let outcome = session.transaction(&mut batch, |batch| intake.fill(batch));
    session.note_disk(&outcome);
    let is_shared = batch.len() > 1;
    if !is_shared || !matches!(outcome, Outcome::JobFailed(_)) {
        answer_callers(batch, outcome);
        return is_shared;
    }
    for job in batch {
        let mut alone = vec![job];
        let outcome = session.transaction(&mut alone, |_| {});
        session.note_disk(&outcome);
        answer_callers(alone, outcome);
    }
    is_shared
}

/// Answers the callers of a transaction's jobs.
fn answer_callers<S>(batch: Batch<S>, outcome: Outcome) {
    let error = match outcome {
        Outcome::Committed => return batch.into_iter().for_each(|job| job.answer()),
        Outcome::JobFailed(failure) => failure.into_write_error(),
        Outcome::Unavailable(error) => WriteError::Unavailable(Arc::new(error)),
        Outcome::InDoubt(error) => WriteError::Commit(Arc::new(error)),
    };
    for job in batch {
        job.fail(error.clone());
    }
}
