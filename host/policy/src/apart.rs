//! Threads for evaluations that are too long for the async runtime's own.
//!
//! Few, and of the lowest priority: whatever a bundle computes there, requests that need no such evaluation are answered
//! first. The queue before them is bounded: a bundle that is always too long costs its own callers, and nobody's memory.

use crate::limits::HEAVY_EVALUATIONS_WAITING_MAX;
use gateway_domain::policy::Moment;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// As little of the processor as the system gives to anyone.
const NICE: i32 = 19;

/// Where long evaluations run.
#[derive(Debug)]
pub(crate) struct Apart {
    jobs: SyncSender<Job>,
}

/// Who waits for whom. Questions that decide nothing cost nothing and are asked by anybody: they queue on a way of their own, so
/// that no number of them, and nothing they say, holds up a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lane {
    Decisions,
    Previews,
}

impl Lane {
    pub(crate) const fn of(moment: Moment) -> Self {
        match moment {
            Moment::Submit | Moment::Approval | Moment::Admission => Self::Decisions,
            Moment::Preview => Self::Previews,
        }
    }
}

/// One for each lane.
#[derive(Debug, Default)]
pub(crate) struct EachLane<T> {
    decisions: T,
    previews: T,
}

impl<T> EachLane<T> {
    pub(crate) const fn get(&self, lane: Lane) -> &T {
        match lane {
            Lane::Decisions => &self.decisions,
            Lane::Previews => &self.previews,
        }
    }
}

/// Everybody is busy, and enough are waiting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

impl Default for Apart {
    /// One thread for every two of the machine, at least one; they end with the value.
    fn default() -> Self {
        let (jobs, waiting) = sync_channel::<Job>(HEAVY_EVALUATIONS_WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..n_threads() {
            let waiting = Arc::clone(&waiting);
            // A thread less only makes the others' queue longer; without any, every job is refused as busy.
            let _fewer = thread::Builder::new().name("policy-apart".into()).spawn(move || work(&waiting));
        }
        Self { jobs }
    }
}

impl Apart {
    /// Runs `job` on one of the threads. `Ok(None)` when it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, Busy> {
        let (done, answer) = oneshot::channel();
        let job = Box::new(move || {
            let _caller_gone = done.send(job());
        });
        self.jobs.try_send(job).map_err(|_| Busy)?;
        Ok(answer.await.ok())
    }
}

fn n_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).div_ceil(2)
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    be_last();
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // What a job answers with is dropped with it when it panics; the thread goes on.
        let _panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    }
}

/// On Linux priorities belong to threads, whatever POSIX says of processes.
pub(crate) fn be_last() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "policy threads keep their priority");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn what_does_not_fit_is_refused_and_what_panics_harms_nobody() {
        let apart = Apart::default();
        assert_eq!(apart.run(|| 7).await, Ok(Some(7)));
        assert_eq!(apart.run(|| -> u8 { panic!("on purpose") }).await, Ok(None));
        let (release, blocked) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel::<()>();
        let blocked = Arc::new(Mutex::new(blocked));
        let job = || -> Job {
            let (begins, blocked) = (begins.clone(), Arc::clone(&blocked));
            Box::new(move || {
                begins.send(()).unwrap();
                let _released = blocked.lock().unwrap_or_else(PoisonError::into_inner).recv();
            })
        };
        // Once every thread has begun, nobody takes from the queue any more.
        for _ in 0..n_threads() {
            apart.jobs.try_send(job()).unwrap();
            begun.recv().unwrap();
        }
        for _ in 0..HEAVY_EVALUATIONS_WAITING_MAX {
            apart.jobs.try_send(job()).unwrap();
        }
        assert_eq!(apart.run(|| 7).await, Err(Busy));
        drop(release);
        while apart.run(|| 7).await == Err(Busy) {
            tokio::task::yield_now().await;
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn its_threads_are_the_last_and_nobody_else_is() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        assert_eq!(Apart::default().run(nice).await, Ok(Some(NICE)));
        assert_eq!(nice(), before);
    }
}
