//! Work that is done again and again until the process stops.

use std::time::Duration;
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};

/// Waits until the process stops, or the sender is dropped.
pub async fn until_stopped(stopping: &mut watch::Receiver<bool>) {
    let _sender_gone = stopping.wait_for(|stop| *stop).await.map(drop);
}

/// Waits for a signal. One that cannot be handled never comes.
pub(crate) async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Why a round is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The interval passed.
    Interval,
    /// The operator asks for it, with SIGHUP.
    Hangup,
}

/// The rounds of a task. The first is due now; one that takes long delays the next.
#[derive(Debug)]
pub struct Rounds {
    interval: Option<Interval>,
    hangups: Option<Signal>,
    stopping: watch::Receiver<bool>,
}

impl Rounds {
    /// Rounds with this time between them.
    #[must_use]
    pub fn every(period: Duration, stopping: watch::Receiver<bool>) -> Self {
        Self::every_or_on(Some(period), None, stopping)
    }

    /// Rounds with this time between them, if there is one, and one for each of these signals.
    #[must_use]
    pub fn every_or_on(
        period: Option<Duration>,
        hangups: Option<Signal>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let interval = period.map(|period| {
            let mut interval = tokio::time::interval(period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        });
        Self { interval, hangups, stopping }
    }

    /// Waits for the next round. `None` when the process stops.
    pub async fn next(&mut self) -> Option<Cause> {
        let passed = async {
            match &mut self.interval {
                Some(interval) => drop(interval.tick().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = until_stopped(&mut self.stopping) => None,
            () = received(&mut self.hangups) => Some(Cause::Hangup),
            () = passed => Some(Cause::Interval),
        }
    }

    /// Makes the next round due now.
    pub fn hurry(&mut self) {
        self.interval.iter_mut().for_each(Interval::reset_immediately);
    }
}
