//! The issuer's keys, as they were last seen.
//!
//! Whoever has a token under a known key waits for nothing, unless nobody came for so long that the keys may have been
//! withdrawn meanwhile. An unknown name has the keys fetched again, at most
//! once a minute and by one task for all who wait: whoever invents names neither reaches the provider more often than
//! that, nor delays anybody else. A fetch outlives the request that caused it, so that hanging up saves nobody his turn.

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
    /// The last keys that were had, and when.
    keys: Option<(Arc<KeySet>, EpochMs)>,
    /// When they were last asked for.
    asked_at: Option<EpochMs>,
    /// Whether that failed.
    failed: bool,
    is_fetching: bool,
}

/// Why there is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The issuer has no such key.
    Unknown,
    /// Whether it has can not be found out.
    Unavailable,
}

impl State {
    /// The keys, unless they are too old to be believed.
    fn usable(&self, now: EpochMs, max_age_ms: u64) -> Option<&KeySet> {
        let (keys, at) = self.keys.as_ref()?;
        (!has_passed(*at, now, max_age_ms)).then_some(keys)
    }

    fn is_due(&self, now: EpochMs, max_age_ms: u64) -> bool {
        let has_keys = self.usable(now, max_age_ms).is_some();
        let every_ms = if has_keys { REFETCH_EVERY_MS } else { FIRST_FETCH_EVERY_MS };
        !self.is_fetching && self.asked_at.is_none_or(|at| has_passed(at, now, every_ms))
    }

    fn is_older_than(&self, ms: u64, now: EpochMs) -> bool {
        self.keys.as_ref().is_none_or(|(_, at)| has_passed(*at, now, ms))
    }

    /// Whether the keys are old because nobody asked for them, and not because they could not be had.
    fn is_stale(&self, now: EpochMs) -> bool {
        !self.failed && self.is_older_than(STALE_AFTER_MS, now)
    }
}

/// Whether so much time has passed. A clock that was set back says nothing of how much has, so it counts as enough.
fn has_passed(since: EpochMs, now: EpochMs, ms: u64) -> bool {
    now.0.checked_sub(since.0).is_none_or(|passed_ms| passed_ms >= ms)
}

impl KeyCache {
    pub(super) fn new(source: KeySource, max_age: Duration, clock: Clock) -> Self {
        let max_age_ms = u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX);
        Self(Arc::new(Shared { source, max_age_ms, clock, state: watch::Sender::default() }))
    }

    /// The key of this name.
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
        self.0.settled().await;
        let now = (self.0.clock)();
        self.0.known(id, now).ok_or_else(|| {
            let state = self.0.state.borrow();
            let was_asked = !state.failed && state.usable(now, self.0.max_age_ms).is_some();
            if was_asked { Missing::Unknown } else { Missing::Unavailable }
        })
    }

    /// Fetches the keys now, however short ago they were fetched, and replaces those in use. Keys that cannot be had leave those
    /// in use.
    pub(super) async fn reload(&self) -> Result<(), String> {
        loop {
            // A fetch that has begun may have read what was there before.
            self.0.settled().await;
            let now = (self.0.clock)();
            if self.0.begin_fetch(now, |state| !state.is_fetching) {
                return UnderWay(Arc::clone(&self.0)).fetch().await;
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
            self.0.settled().await;
        }
        if has_keys() { Ok(()) } else { Err("there are no keys of the issuer, and they can not be had") }
    }
}

impl Shared {
    fn known(&self, id: &str, now: EpochMs) -> Option<Arc<Key>> {
        let state = self.state.borrow();
        state.usable(now, self.max_age_ms)?.get(id).cloned()
    }

    /// Begins a fetch, unless there is one under way or the last was too short ago.
    fn fetch_when_due(self: &Arc<Self>, now: EpochMs) {
        if self.begin_fetch(now, |state| state.is_due(now, self.max_age_ms)) {
            let under_way = UnderWay(Arc::clone(self));
            tokio::spawn(async move { under_way.fetch().await });
        }
    }

    /// Marks a fetch as under way, if one is to begin; whether it is.
    fn begin_fetch(&self, now: EpochMs, begins: impl Fn(&State) -> bool) -> bool {
        self.state.send_if_modified(|state| {
            let begins = begins(state);
            if begins {
                (state.is_fetching, state.asked_at) = (true, Some(now));
            }
            begins
        })
    }

    /// Waits until nothing is under way; that is as long as the provider may take.
    async fn settled(&self) {
        let _sender_is_ours = self.state.subscribe().wait_for(|state| !state.is_fetching).await.map(|_| ());
    }
}

/// A fetch that is under way, until it is dropped: however it ends, nobody waits for it any longer.
struct UnderWay(Arc<Shared>);

impl UnderWay {
    /// Puts the keys that there are now in use.
    ///
    /// # Errors
    /// Why there are none, for the log, where it is by then.
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
            // Keys that are withdrawn are gone, even if they were all; but then it is not the tokens that are wrong.
            state.failed = outcome.is_err();
            if let Ok(keys) = fetched {
                state.keys = Some((Arc::new(keys), (self.0.clock)()));
            }
        });
        outcome
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.is_fetching = false);
    }
}
