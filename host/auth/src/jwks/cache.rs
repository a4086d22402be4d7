//! A cache of the issuer's keys.
//!
//! A caller whose key is known does not wait, unless the keys are so old that they may have been revoked meanwhile. An unknown
//! `kid` triggers a fetch, for which all such callers wait together: at most once a minute, or once in five seconds while there
//! are no keys. So invented ids neither reach the provider more often nor delay callers with known keys. A fetch continues when
//! the caller that triggered it disconnects, so that disconnecting does not lead to another fetch.

use super::source::KeySource;
use crate::Clock;
use crate::jose::{Key, KeySet};
use crate::limits::{FIRST_FETCH_EVERY_MS, REFETCH_EVERY_MS, REFRESH_EVERY_MS, STALE_AFTER_MS};
use gateway_domain::error_chain;
use gateway_domain::time::EpochMs;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Begins empty: keys are fetched when one is first needed.
pub(crate) struct KeyCache(Arc<Shared>);

struct Shared {
    source: KeySource,
    max_age_ms: u64,
    clock: Clock,
    state: watch::Sender<State>,
}

#[derive(Default)]
struct State {
    /// The last fetched keys, and the time of the fetch.
    keys: Option<(Arc<KeySet>, EpochMs)>,
    /// The start of the last fetch.
    started_at: Option<EpochMs>,
    /// Whether the last fetch failed.
    failed: bool,
    is_fetching: bool,
}

/// Why a key cannot be returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingKey {
    /// The issuer has no such key.
    Unknown,
    /// The keys could not be fetched, so it is not known whether the issuer has this one.
    Unavailable,
}

impl State {
    /// The keys, unless they are older than the maximum age.
    fn usable(&self, now: EpochMs, max_age_ms: u64) -> Option<&KeySet> {
        let (keys, at) = self.keys.as_ref()?;
        (!has_passed(*at, now, max_age_ms)).then_some(keys)
    }

    fn is_fetch_due(&self, now: EpochMs, max_age_ms: u64) -> bool {
        let has_keys = self.usable(now, max_age_ms).is_some();
        let every_ms = if has_keys { REFETCH_EVERY_MS } else { FIRST_FETCH_EVERY_MS };
        !self.is_fetching && self.started_at.is_none_or(|at| has_passed(at, now, every_ms))
    }

    fn is_older_than(&self, ms: u64, now: EpochMs) -> bool {
        self.keys.as_ref().is_none_or(|(_, at)| has_passed(*at, now, ms))
    }

    /// Whether callers must wait for a new fetch: the keys are old, or there are none, and the last fetch did not fail.
    fn is_stale(&self, now: EpochMs) -> bool {
        !self.failed && self.is_older_than(STALE_AFTER_MS, now)
    }
}

/// Whether at least `ms` milliseconds have passed. True if the clock was set back: the elapsed time is then unknown.
fn has_passed(since: EpochMs, now: EpochMs, ms: u64) -> bool {
    now.0.checked_sub(since.0).is_none_or(|passed_ms| passed_ms >= ms)
}

impl KeyCache {
    pub(super) fn new(source: KeySource, max_age: Duration, clock: Clock) -> Self {
        let max_age_ms = u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX);
        Self(Arc::new(Shared { source, max_age_ms, clock, state: watch::Sender::default() }))
    }

    /// The key with this `kid`.
    pub(super) async fn key(&self, id: &str) -> Result<Arc<Key>, MissingKey> {
        let now = (self.0.clock)();
        let known = self.0.find(id, now);
        let (is_old, is_stale) = {
            let state = self.0.state.borrow();
            (state.is_older_than(REFRESH_EVERY_MS, now), state.is_stale(now))
        };
        if known.is_none() || is_old {
            self.0.start_fetch_if_due(now);
        }
        if let Some(key) = known.filter(|_| !is_stale) {
            return Ok(key);
        }
        self.0.wait_for_fetch().await;
        let now = (self.0.clock)();
        self.0.find(id, now).ok_or_else(|| {
            let state = self.0.state.borrow();
            let was_fetched = !state.failed && state.usable(now, self.0.max_age_ms).is_some();
            if was_fetched { MissingKey::Unknown } else { MissingKey::Unavailable }
        })
    }

    /// Fetches the keys now, however recent they are, and replaces those in use. If that fails, the old ones stay.
    pub(crate) async fn reload(&self) -> Result<(), String> {
        loop {
            // A fetch that is already in flight may have read the keys before they changed.
            self.0.wait_for_fetch().await;
            let now = (self.0.clock)();
            if self.0.begin_fetch(now, |state| !state.is_fetching) {
                return Fetch(Arc::clone(&self.0)).fetch().await;
            }
        }
    }

    /// Starts to fetch keys in the background.
    pub(crate) fn warm_up(&self) {
        self.0.start_fetch_if_due((self.0.clock)());
    }

    /// Whether there are usable keys.
    pub(crate) async fn check(&self) -> Result<(), &'static str> {
        let has_keys = || {
            let now = (self.0.clock)();
            self.0.state.borrow().usable(now, self.0.max_age_ms).is_some_and(|keys| !keys.is_empty())
        };
        if !has_keys() {
            self.warm_up();
            self.0.wait_for_fetch().await;
        }
        if has_keys() { Ok(()) } else { Err("the issuer's keys are missing and cannot be fetched") }
    }
}

impl Shared {
    fn find(&self, id: &str, now: EpochMs) -> Option<Arc<Key>> {
        let state = self.state.borrow();
        state.usable(now, self.max_age_ms)?.get(id).cloned()
    }

    /// Starts a fetch in the background, unless one is in flight or the last was too recent.
    fn start_fetch_if_due(self: &Arc<Self>, now: EpochMs) {
        if self.begin_fetch(now, |state| state.is_fetch_due(now, self.max_age_ms)) {
            let fetch = Fetch(Arc::clone(self));
            tokio::spawn(async move { fetch.fetch().await });
        }
    }

    /// Marks a fetch as in flight if the condition holds for the state; returns whether it did.
    fn begin_fetch(&self, now: EpochMs, condition: impl Fn(&State) -> bool) -> bool {
        self.state.send_if_modified(|state| {
            let begins = condition(state);
            if begins {
                (state.is_fetching, state.started_at) = (true, Some(now));
            }
            begins
        })
    }

    /// Waits until no fetch is in flight, which takes at most the provider's deadline.
    async fn wait_for_fetch(&self) {
        let _sender_is_ours = self.state.subscribe().wait_for(|state| !state.is_fetching).await.map(drop);
    }
}

/// A fetch in flight. Dropping it marks the fetch as finished, however it ended.
struct Fetch(Arc<Shared>);

impl Fetch {
    /// Fetches keys and replaces those in use.
    ///
    /// # Errors
    /// The reason, which is also logged.
    async fn fetch(self) -> Result<(), String> {
        let fetched = self.0.source.fetch().await;
        let outcome = match &fetched {
            Ok(keys) if keys.is_empty() => Err("none of the issuer's keys can be used".to_owned()),
            Ok(_) => Ok(()),
            Err(fault) => Err(format!("the issuer's keys could not be fetched: {}", error_chain(fault))),
        };
        if let Err(why) = &outcome {
            tracing::warn!("{why}");
        }
        self.0.state.send_modify(|state| {
            // An empty set replaces the keys but counts as a failure: the answer is then 503, not that tokens are invalid.
            state.failed = outcome.is_err();
            if let Ok(keys) = fetched {
                state.keys = Some((Arc::new(keys), (self.0.clock)()));
            }
        });
        outcome
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.is_fetching = false);
    }
}
