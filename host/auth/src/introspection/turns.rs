//! Who may ask the identity provider now, who waits, and who is sent away.

use crate::limits::{PROVIDER_WITHIN, QUESTIONS_WAITING_MAX};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// So many at a time, and behind them a queue with an end: whoever makes tokens up, and hangs up, leaves no longer one.
pub(super) struct Turns {
    now: Semaphore,
    places: Semaphore,
}

/// A turn, until it is dropped.
pub(super) struct Turn<'a> {
    _now: SemaphorePermit<'a>,
    _place: SemaphorePermit<'a>,
}

impl Turns {
    pub(super) fn new(n_max: usize) -> Self {
        Self {
            now: Semaphore::new(n_max),
            places: Semaphore::new(n_max.saturating_add(QUESTIONS_WAITING_MAX)),
        }
    }

    /// A turn; none when too many wait already, or it did not come within the time of an answer.
    pub(super) async fn take(&self) -> Option<Turn<'_>> {
        let place = self.places.try_acquire().ok()?;
        let now = timeout(PROVIDER_WITHIN, self.now.acquire()).await.ok()?.ok()?;
        Some(Turn { _now: now, _place: place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::task::JoinSet;

    #[tokio::test]
    async fn some_have_turns_some_wait_and_the_others_are_sent_away() {
        let turns = Arc::new(Turns::new(2));
        let (first, _second) = (turns.take().await.unwrap(), turns.take().await.unwrap());
        let mut waiting = JoinSet::new();
        for _ in 0..QUESTIONS_WAITING_MAX {
            let turns = Arc::clone(&turns);
            waiting.spawn(async move { turns.take().await.is_some() });
        }
        while turns.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(turns.take().await.is_none(), "there is no end to the queue");
        drop(first);
        assert!(waiting.join_all().await.into_iter().all(|had_one| had_one), "turns were lost");
        assert_eq!(
            (turns.now.available_permits(), turns.places.available_permits()),
            (1, QUESTIONS_WAITING_MAX + 1)
        );
    }
}
