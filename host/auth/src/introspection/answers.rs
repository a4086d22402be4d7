//! What was said of tokens lately, and what is being asked.

use super::Verdict;
use crate::Claims;
use crate::limits::ACTIVE_TOKENS_MAX;
use gateway_domain::time::EpochMs;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;

/// SHA-256 of a token: what is remembered is no credential.
pub(super) type TokenHash = [u8; 32];

pub(super) fn hash(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

#[derive(Default)]
pub(super) struct Answers {
    active: BTreeMap<TokenHash, Active>,
    /// The same, by their ends: the first to end are the first to be forgotten.
    // INVARIANT: one entry here for each in `active`; `remember` and `forget` keep it.
    ends: BTreeSet<(EpochMs, TokenHash)>,
    asked: BTreeMap<TokenHash, watch::Receiver<Option<Verdict>>>,
}

struct Active {
    claims: Arc<Claims>,
    since: EpochMs,
    until: EpochMs,
}

impl Active {
    /// A clock that was put back says nothing of how long ago it was.
    fn holds(&self, now: EpochMs) -> bool {
        self.since <= now && now < self.until
    }
}

/// What there is about a token.
pub(super) enum Found {
    /// It was active a moment ago.
    Active(Arc<Claims>),
    /// Somebody is asking.
    Asked(watch::Receiver<Option<Verdict>>),
    /// Nothing: whoever asks tells the others here.
    Nothing {
        told: watch::Sender<Option<Verdict>>,
        /// Whether it was active when it was asked about last.
        was_active: bool,
    },
}

impl Answers {
    pub(super) fn find(&mut self, hash: TokenHash, now: EpochMs) -> Found {
        let was_active = match self.active.get(&hash) {
            Some(active) if active.holds(now) => return Found::Active(Arc::clone(&active.claims)),
            known => known.is_some(),
        };
        if let Some(verdict) = self.asked.get(&hash) {
            return Found::Asked(verdict.clone());
        }
        let (told, verdict) = watch::channel(None);
        self.asked.insert(hash, verdict);
        Found::Nothing { told, was_active }
    }

    /// Remembers an active token until then.
    pub(super) fn remember(&mut self, hash: TokenHash, claims: Arc<Claims>, until: EpochMs, now: EpochMs) {
        self.forget(hash);
        let active = Active { claims, since: now, until };
        if !active.holds(now) {
            return;
        }
        while self.active.len() >= ACTIVE_TOKENS_MAX
            && let Some((_, first)) = self.ends.first().copied()
        {
            self.forget(first);
        }
        self.active.insert(hash, active);
        self.ends.insert((until, hash));
    }

    /// A question is no longer under way.
    pub(super) fn settled(&mut self, hash: TokenHash) {
        self.asked.remove(&hash);
    }

    /// It is not active any more.
    pub(super) fn forget(&mut self, hash: TokenHash) {
        if let Some(active) = self.active.remove(&hash) {
            self.ends.remove(&(active.until, hash));
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
            roles: name(),
            tenant: name(),
            client_is_subject: true,
        };
        Arc::new(Claims::read(json!({"client_id": "c"}).as_object().unwrap(), &rules).unwrap())
    }

    fn is_active(answers: &mut Answers, hash: TokenHash, now: u64) -> bool {
        let found = matches!(answers.find(hash, EpochMs(now)), Found::Active(_));
        answers.settled(hash);
        found
    }

    fn was_active(answers: &mut Answers, hash: TokenHash, now: u64) -> bool {
        let found = matches!(answers.find(hash, EpochMs(now)), Found::Nothing { was_active: true, .. });
        answers.settled(hash);
        found
    }

    #[test]
    fn what_is_active_is_so_until_its_end_and_not_at_it() {
        let mut answers = Answers::default();
        answers.remember([1; 32], claims(), EpochMs(100), EpochMs(0));
        assert!(is_active(&mut answers, [1; 32], 99) && !is_active(&mut answers, [2; 32], 99));
        assert!(!is_active(&mut answers, [1; 32], 100));
        assert!(was_active(&mut answers, [1; 32], 100) && !was_active(&mut answers, [2; 32], 100));
        answers.remember([1; 32], claims(), EpochMs(100), EpochMs(100));
        assert_eq!((answers.active.len(), answers.ends.len()), (0, 0));
    }

    #[test]
    fn a_clock_that_is_put_back_makes_nothing_active_for_longer() {
        let mut answers = Answers::default();
        answers.remember([1; 32], claims(), EpochMs(30_050), EpochMs(50));
        assert!(is_active(&mut answers, [1; 32], 50) && !is_active(&mut answers, [1; 32], 49));
    }

    #[test]
    fn there_are_never_too_many_and_the_first_to_end_goes_first() {
        let mut answers = Answers::default();
        let hash = |i: usize| hash(&i.to_string());
        for i in 0..ACTIVE_TOKENS_MAX + 10 {
            answers.remember(hash(i), claims(), EpochMs(1_000 + i as u64), EpochMs(0));
            answers.remember(hash(i), claims(), EpochMs(1_000 + i as u64), EpochMs(0));
            assert_eq!(answers.active.len(), answers.ends.len());
        }
        assert_eq!(answers.active.len(), ACTIVE_TOKENS_MAX);
        assert!(!is_active(&mut answers, hash(9), 0) && is_active(&mut answers, hash(10), 0));
    }

    #[test]
    fn one_asks_and_the_others_wait() {
        let mut answers = Answers::default();
        let Found::Nothing { told, was_active: false } = answers.find([1; 32], EpochMs(0)) else { panic!() };
        let Found::Asked(verdict) = answers.find([1; 32], EpochMs(0)) else { panic!() };
        told.send_replace(Some(Ok(claims())));
        assert!(verdict.borrow().is_some());
        answers.settled([1; 32]);
        assert!(matches!(answers.find([1; 32], EpochMs(0)), Found::Nothing { .. }));
    }
}
