//! A worker pool for evaluations that are too long for the async runtime's threads.
//!
//! It has few threads, of the lowest priority, so requests that need no such evaluation are answered first. Its queue is
//! bounded, so that a bundle with only long evaluations cannot use up memory.

use gateway_domain::policy::Moment;
use gateway_policy::limits::HEAVY_EVALUATIONS_WAITING_MAX;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// The lowest priority on Linux, as a nice value.
const NICE: i32 = 19;

/// Threads that run long evaluations, and the queue in front of them.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    jobs: SyncSender<Job>,
}

/// The worker pool of an evaluation. Previews have a pool of their own, so that they cannot fill the queue of decisions.
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

/// One value for each lane.
#[derive(Debug, Default)]
pub(crate) struct PerLane<T> {
    decisions: T,
    previews: T,
}

impl<T> PerLane<T> {
    pub(crate) const fn get(&self, lane: Lane) -> &T {
        match lane {
            Lane::Decisions => &self.decisions,
            Lane::Previews => &self.previews,
        }
    }
}

/// The queue is full.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

impl Default for WorkerPool {
    /// A pool with one thread for every two hardware threads, at least one. They end when the pool is dropped.
    fn default() -> Self {
        let (jobs, waiting) = sync_channel::<Job>(HEAVY_EVALUATIONS_WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..n_threads() {
            let waiting = Arc::clone(&waiting);
            // If a thread does not start, the others do its work. Without any, the queue fills, and further jobs are refused.
            let _not_started =
                thread::Builder::new().name("policy-worker".into()).spawn(move || work(&waiting));
        }
        Self { jobs }
    }
}

impl WorkerPool {
    /// Runs `job` on one of the threads. `Ok(None)` if it panicked.
    ///
    /// # Errors
    /// [`Busy`] when the queue is full.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, Busy> {
        let (done, answer) = oneshot::channel();
        let job = Box::new(move || {
            let _is_received = done.send(job());
        });
        self.jobs.try_send(job).map_err(|_| Busy)?;
        Ok(answer.await.ok())
    }
}

fn n_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).div_ceil(2)
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    lower_priority();
    loop {
        let next = waiting.lock().recv();
        let Ok(job) = next else { return };
        // A job that panics drops its sender, which `run` reports; the thread takes the next job.
        let _panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    }
}

/// Gives this thread the lowest priority. Does nothing except on Linux, where priorities belong to threads.
pub(crate) fn lower_priority() {
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
    async fn full_queue_refuses_jobs_and_a_panicking_job_does_not_stop_the_pool() {
        let pool = WorkerPool::default();
        assert_eq!(pool.run(|| 7).await, Ok(Some(7)));
        assert_eq!(pool.run(|| -> u8 { panic!("on purpose") }).await, Ok(None));
        let (release, blocked) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel::<()>();
        let blocked = Arc::new(Mutex::new(blocked));
        let job = || -> Job {
            let (begins, blocked) = (begins.clone(), Arc::clone(&blocked));
            Box::new(move || {
                begins.send(()).unwrap();
                let _released = blocked.lock().recv();
            })
        };
        // Once every thread is busy, jobs stay in the queue.
        for _ in 0..n_threads() {
            pool.jobs.try_send(job()).unwrap();
            begun.recv().unwrap();
        }
        for _ in 0..HEAVY_EVALUATIONS_WAITING_MAX {
            pool.jobs.try_send(job()).unwrap();
        }
        assert_eq!(pool.run(|| 7).await, Err(Busy));
        drop(release);
        while pool.run(|| 7).await == Err(Busy) {
            tokio::task::yield_now().await;
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn only_worker_threads_have_the_lowest_priority() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        assert_eq!(WorkerPool::default().run(nice).await, Ok(Some(NICE)));
        assert_eq!(nice(), before);
    }
}
