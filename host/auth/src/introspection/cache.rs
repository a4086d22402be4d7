//! Recently active tokens, and the requests in flight.

use crate::limits::ACTIVE_TOKENS_MAX;
use crate::{Claims, TokenFault};
use gateway_domain::time::EpochMs;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;

/// The claims of an accepted token, or why there are none.
pub(super) type Outcome = Result<Arc<Claims>, Rejection>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    Token(TokenFault),
    NoValidResponse,
    Busy,
}

/// SHA-256 of a token: the cache holds no credential.
pub(super) type TokenHash = [u8; 32];

pub(super) fn hash(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

#[derive(Default)]
pub(super) struct TokenCache {
    active: BTreeMap<TokenHash, Active>,
    /// The same tokens ordered by the end of their entries: those that end first are evicted first.
    // INVARIANT: has one entry for each in `active`; `remember` and `forget` keep it so.
    by_end: BTreeSet<(EpochMs, TokenHash)>,
    pending: BTreeMap<TokenHash, watch::Receiver<Option<Outcome>>>,
}

struct Active {
    claims: Arc<Claims>,
    since: EpochMs,
    until: EpochMs,
}

impl Active {
    /// Whether the entry can be used. Not if the clock was set back, because its age is then unknown.
    fn is_valid_at(&self, now: EpochMs) -> bool {
        self.since <= now && now < self.until
    }
}

/// The result of looking a token up.
pub(super) enum Lookup {
    /// The token was active recently.
    Active(Arc<Claims>),
    /// A request is in flight; its outcome arrives here.
    Pending(watch::Receiver<Option<Outcome>>),
    /// Neither. The caller has to send the request, and its outcome to `sender`.
    Missing {
        sender: watch::Sender<Option<Outcome>>,
        /// Whether the token was active at the provider's last answer.
        was_active: bool,
    },
}

impl TokenCache {
    /// Looks a token up. If it is missing, marks a request for it as in flight.
    pub(super) fn find(&mut self, hash: TokenHash, now: EpochMs) -> Lookup {
        let was_active = match self.active.get(&hash) {
            Some(active) if active.is_valid_at(now) => return Lookup::Active(Arc::clone(&active.claims)),
            known => known.is_some(),
        };
        if let Some(outcome) = self.pending.get(&hash) {
            return Lookup::Pending(outcome.clone());
        }
        let (sender, outcome) = watch::channel(None);
        self.pending.insert(hash, outcome);
        Lookup::Missing { sender, was_active }
    }

    /// Caches an active token until `until`.
    pub(super) fn remember(&mut self, hash: TokenHash, claims: Arc<Claims>, until: EpochMs, now: EpochMs) {
        self.forget(hash);
        let active = Active { claims, since: now, until };
        if !active.is_valid_at(now) {
            return;
        }
        while self.active.len() >= ACTIVE_TOKENS_MAX
            && let Some((_, first)) = self.by_end.first().copied()
        {
            self.forget(first);
        }
        self.active.insert(hash, active);
        self.by_end.insert((until, hash));
    }

    /// Removes the mark of a request in flight.
    pub(super) fn finish(&mut self, hash: TokenHash) {
        self.pending.remove(&hash);
    }

    /// Removes a token that is no longer active.
    pub(super) fn forget(&mut self, hash: TokenHash) {
        if let Some(active) = self.active.remove(&hash) {
            self.by_end.remove(&(active.until, hash));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClaimRules;
    use serde_json::json;

    fn claims() -> Arc<Claims> {
        let name = || "roles".parse().unwrap();
        let rules = ClaimRules {
            issuer: None,
            audience: None,
            client: vec!["client_id".parse().unwrap()],
            scopes: vec!["scope".parse().unwrap(), "scp".parse().unwrap()],
            roles: name(),
            tenant: name(),
            facts: BTreeMap::new(),
            client_is_subject: true,
        };
        Arc::new(Claims::read(json!({"client_id": "c"}).as_object().unwrap(), &rules).unwrap())
    }

    fn is_active(cache: &mut TokenCache, hash: TokenHash, now: u64) -> bool {
        let found = matches!(cache.find(hash, EpochMs(now)), Lookup::Active(_));
        cache.finish(hash);
        found
    }

    fn was_active(cache: &mut TokenCache, hash: TokenHash, now: u64) -> bool {
        let found = matches!(cache.find(hash, EpochMs(now)), Lookup::Missing { was_active: true, .. });
        cache.finish(hash);
        found
    }

    #[test]
    fn an_entry_is_valid_until_just_before_its_end() {
        let mut cache = TokenCache::default();
        cache.remember([1; 32], claims(), EpochMs(100), EpochMs(0));
        assert!(is_active(&mut cache, [1; 32], 99) && !is_active(&mut cache, [2; 32], 99));
        assert!(!is_active(&mut cache, [1; 32], 100));
        assert!(was_active(&mut cache, [1; 32], 100) && !was_active(&mut cache, [2; 32], 100));
        cache.remember([1; 32], claims(), EpochMs(100), EpochMs(100));
        assert_eq!((cache.active.len(), cache.by_end.len()), (0, 0));
    }

    #[test]
    fn a_clock_set_back_does_not_extend_an_entry() {
        let mut cache = TokenCache::default();
        cache.remember([1; 32], claims(), EpochMs(30_050), EpochMs(50));
        assert!(is_active(&mut cache, [1; 32], 50) && !is_active(&mut cache, [1; 32], 49));
    }

    #[test]
    fn the_cache_is_bounded_and_evicts_the_first_to_end() {
        let mut cache = TokenCache::default();
        let hash = |i: usize| hash(&i.to_string());
        for i in 0..ACTIVE_TOKENS_MAX + 10 {
            cache.remember(hash(i), claims(), EpochMs(1_000 + i as u64), EpochMs(0));
            cache.remember(hash(i), claims(), EpochMs(1_000 + i as u64), EpochMs(0));
            assert_eq!(cache.active.len(), cache.by_end.len());
        }
        assert_eq!(cache.active.len(), ACTIVE_TOKENS_MAX);
        assert!(!is_active(&mut cache, hash(9), 0) && is_active(&mut cache, hash(10), 0));
    }

    #[test]
    fn concurrent_lookups_share_one_request() {
        let mut cache = TokenCache::default();
        let Lookup::Missing { sender, was_active: false } = cache.find([1; 32], EpochMs(0)) else { panic!() };
        let Lookup::Pending(outcome) = cache.find([1; 32], EpochMs(0)) else { panic!() };
        sender.send_replace(Some(Ok(claims())));
        assert!(outcome.borrow().is_some());
        cache.finish([1; 32]);
        assert!(matches!(cache.find([1; 32], EpochMs(0)), Lookup::Missing { .. }));
    }
}
