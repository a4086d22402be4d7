//! A limit on concurrent requests to the identity provider, with a bounded queue.

use crate::limits::{PROVIDER_TIMEOUT, REQUESTS_WAITING_MAX};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Lets at most `n_max` requests run and [`REQUESTS_WAITING_MAX`] wait, so that invented tokens cannot fill the memory.
pub(super) struct Limiter {
    running: Semaphore,
    /// One permit for each request that runs or waits.
    queue: Semaphore,
}

/// The right to send one request, until it is dropped.
pub(super) struct Permit<'a> {
    _running: SemaphorePermit<'a>,
    _queue: SemaphorePermit<'a>,
}

impl Limiter {
    pub(super) fn new(n_max: usize) -> Self {
        Self {
            running: Semaphore::new(n_max),
            queue: Semaphore::new(n_max.saturating_add(REQUESTS_WAITING_MAX)),
        }
    }

    /// Waits for a permit. `None` when the queue is full, or when no permit became free within [`PROVIDER_TIMEOUT`].
    pub(super) async fn acquire(&self) -> Option<Permit<'_>> {
        let queued = self.queue.try_acquire().ok()?;
        let running = timeout(PROVIDER_TIMEOUT, self.running.acquire()).await.ok()?.ok()?;
        Some(Permit { _running: running, _queue: queued })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::task::JoinSet;

    #[tokio::test]
    async fn requests_are_rejected_when_the_queue_is_full() {
        let limiter = Arc::new(Limiter::new(2));
        let (first, _second) = (limiter.acquire().await.unwrap(), limiter.acquire().await.unwrap());
        let mut waiting = JoinSet::new();
        for _ in 0..REQUESTS_WAITING_MAX {
            let limiter = Arc::clone(&limiter);
            waiting.spawn(async move { limiter.acquire().await.is_some() });
        }
        while limiter.queue.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(limiter.acquire().await.is_none(), "the queue has no limit");
        drop(first);
        assert!(waiting.join_all().await.into_iter().all(|had_permit| had_permit), "permits were lost");
        assert_eq!(
            (limiter.running.available_permits(), limiter.queue.available_permits()),
            (1, REQUESTS_WAITING_MAX + 1)
        );
    }
}
