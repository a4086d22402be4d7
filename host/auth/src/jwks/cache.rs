//! A cache of the issuer's keys.
//!
//! A token under a known key does not wait, unless the keys are so old that they may have been revoked meanwhile. An unknown
//! `kid` triggers a fetch, at most once a minute and by one task for all waiting callers: invented ids neither reach the
//! provider more often nor delay other callers. A fetch continues when the request that triggered it is gone, so that
//! disconnecting does not win another fetch.

use super::source::KeySource;
use crate::Clock;
use crate::jose::{Key, KeySet};
use crate::limits::{FIRST_FETCH_EVERY_MS, REFETCH_EVERY_MS, REFRESH_EVERY_MS, STALE_AFTER_MS};
use crate::provider::chain;
use gateway_domain::time::EpochMs;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

pub(super) struct KeyCache(Arc<Shared>);

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
    begun_at: Option<EpochMs>,
    /// Whether the last fetch failed.
    failed: bool,
    is_fetching: bool,
}

/// The reason for which there is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The issuer has no such key.
    Unknown,
    /// The keys cannot be fetched, so that it is not known.
    Unavailable,
}

impl State {
    /// The keys, unless they are older than the maximum age.
    fn usable(&self, now: EpochMs, max_age_ms: u64) -> Option<&KeySet> {
        let (keys, at) = self.keys.as_ref()?;
        (!has_passed(*at, now, max_age_ms)).then_some(keys)
    }

    fn is_due(&self, now: EpochMs, max_age_ms: u64) -> bool {
        let has_keys = self.usable(now, max_age_ms).is_some();
        let every_ms = if has_keys { REFETCH_EVERY_MS } else { FIRST_FETCH_EVERY_MS };
        !self.is_fetching && self.begun_at.is_none_or(|at| has_passed(at, now, every_ms))
    }

    fn is_older_than(&self, ms: u64, now: EpochMs) -> bool {
        self.keys.as_ref().is_none_or(|(_, at)| has_passed(*at, now, ms))
    }

    /// Whether the keys are old for lack of requests, and not because a fetch failed.
    fn is_stale(&self, now: EpochMs) -> bool {
        !self.failed && self.is_older_than(STALE_AFTER_MS, now)
    }
}

/// Whether `ms` have passed. True when the clock was set back: the time that passed is then unknown.
fn has_passed(since: EpochMs, now: EpochMs, ms: u64) -> bool {
    now.0.checked_sub(since.0).is_none_or(|passed_ms| passed_ms >= ms)
}

impl KeyCache {
    pub(super) fn new(source: KeySource, max_age: Duration, clock: Clock) -> Self {
        let max_age_ms = u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX);
        Self(Arc::new(Shared { source, max_age_ms, clock, state: watch::Sender::default() }))
    }

    /// The key with this `kid`.
    pub(super) async fn key(&self, id: &str) -> Result<Arc<Key>, Missing> {
        let now = (self.0.clock)();
        let known = self.0.known(id, now);
        let (is_old, is_stale) = {
            let state = self.0.state.borrow();
            (state.is_older_than(REFRESH_EVERY_MS, now), state.is_stale(now))
        };
        if known.is_none() || is_old {
            self.0.fetch_when_due(now);
        }
        if let Some(key) = known.filter(|_| !is_stale) {
            return Ok(key);
        }
        self.0.fetch_finished().await;
        let now = (self.0.clock)();
        self.0.known(id, now).ok_or_else(|| {
            let state = self.0.state.borrow();
            let was_fetched = !state.failed && state.usable(now, self.0.max_age_ms).is_some();
            if was_fetched { Missing::Unknown } else { Missing::Unavailable }
        })
    }

    /// Fetches the keys now, however recent they are, and replaces those in use. After a failed fetch the old ones stay.
    pub(super) async fn reload(&self) -> Result<(), String> {
        loop {
            // A fetch in flight may have read the keys from before a change.
            self.0.fetch_finished().await;
            let now = (self.0.clock)();
            if self.0.begin_fetch(now, |state| !state.is_fetching) {
                return Fetch(Arc::clone(&self.0)).fetch().await;
            }
        }
    }

    pub(super) fn warm_up(&self) {
        self.0.fetch_when_due((self.0.clock)());
    }

    pub(super) async fn check(&self) -> Result<(), &'static str> {
        let has_keys = || {
            let now = (self.0.clock)();
            self.0.state.borrow().usable(now, self.0.max_age_ms).is_some_and(|keys| !keys.is_empty())
        };
        if !has_keys() {
            self.warm_up();
            self.0.fetch_finished().await;
        }
        if has_keys() { Ok(()) } else { Err("there are no keys of the issuer, and they cannot be fetched") }
    }
}

impl Shared {
    fn known(&self, id: &str, now: EpochMs) -> Option<Arc<Key>> {
        let state = self.state.borrow();
        state.usable(now, self.max_age_ms)?.get(id).cloned()
    }

    /// Begins a fetch, unless one is in flight or the last was too recent.
    fn fetch_when_due(self: &Arc<Self>, now: EpochMs) {
        if self.begin_fetch(now, |state| state.is_due(now, self.max_age_ms)) {
            let fetch = Fetch(Arc::clone(self));
            tokio::spawn(async move { fetch.fetch().await });
        }
    }

    /// Marks a fetch as in flight if `begins` is true of the state; returns whether it did.
    fn begin_fetch(&self, now: EpochMs, begins: impl Fn(&State) -> bool) -> bool {
        self.state.send_if_modified(|state| {
            let begins = begins(state);
            if begins {
                (state.is_fetching, state.begun_at) = (true, Some(now));
            }
            begins
        })
    }

    /// Waits until no fetch is in flight: at most as long as the provider may take.
    async fn fetch_finished(&self) {
        let _sender_is_ours = self.state.subscribe().wait_for(|state| !state.is_fetching).await.map(|_| ());
    }
}

/// A fetch in flight, until it is dropped: then it counts as finished, however it ended.
struct Fetch(Arc<Shared>);

impl Fetch {
    /// Fetches keys and replaces those in use.
    ///
    /// # Errors
    /// The reason, which is logged too.
    async fn fetch(self) -> Result<(), String> {
        let fetched = self.0.source.fetch().await;
        let outcome = match &fetched {
            Ok(keys) if keys.is_empty() => Err("none of the issuer's keys can be used".to_owned()),
            Ok(_) => Ok(()),
            Err(fault) => Err(format!("the issuer's keys could not be fetched: {}", chain(fault))),
        };
        if let Err(why) = &outcome {
            tracing::warn!("{why}");
        }
        self.0.state.send_modify(|state| {
            // An empty set revokes all keys, but counts as failed: tokens are then unavailable, not invalid.
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
