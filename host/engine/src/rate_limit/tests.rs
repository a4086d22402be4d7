//! Compares the arithmetic with a token bucket, and checks it with the smallest and largest numbers.

use super::*;
use proptest::prelude::*;

const RATE: RateLimit = RateLimit { per_second: 10, burst: 3 };

fn tenant(name: &str) -> Tenant {
    Tenant(name.to_owned())
}

/// A quota as the store keeps it.
struct Store {
    rate: RateLimit,
    full_at_us: u64,
}

impl Store {
    fn new(rate: RateLimit) -> Self {
        Self { rate, full_at_us: 0 }
    }

    fn submit(&mut self, now_ms: u64) -> Result<Quota, Quota> {
        let token = self.rate.token(&tenant("t"), "c", EpochMs(now_ms)).unwrap();
        if token.is_exhausted_at(self.full_at_us) {
            return Err(token.quota_at(self.full_at_us));
        }
        self.full_at_us = token.full_after(self.full_at_us);
        Ok(token.quota_at(self.full_at_us))
    }
}

#[test]
fn client_may_send_a_burst_and_then_at_its_rate() {
    let mut store = Store::new(RATE);
    let at = |ms: u64| 1_000_000 + ms;
    let accepted = |answer: Result<Quota, Quota>| {
        let quota = answer.unwrap();
        (quota.remaining, quota.full_in_ms)
    };
    let refused = |answer: Result<Quota, Quota>| {
        let quota = answer.unwrap_err();
        assert_eq!((quota.limit, quota.remaining), (3, 0));
        (quota.retry_after_ms, quota.full_in_ms)
    };
    assert_eq!(accepted(store.submit(at(0))), (2, 100));
    assert_eq!(accepted(store.submit(at(0))), (1, 200));
    assert_eq!(accepted(store.submit(at(0))), (0, 300));
    assert_eq!(refused(store.submit(at(0))), (100, 300));
    assert_eq!(refused(store.submit(at(99))), (1, 201));
    assert_eq!(accepted(store.submit(at(100))), (0, 300));
    assert_eq!(refused(store.submit(at(100))), (100, 300));
    assert_eq!(accepted(store.submit(at(10_000))), (2, 100));
}

#[test]
fn rate_of_zero_switches_the_limit_off() {
    let limiter = RateLimiter::new(RateLimit { per_second: 0, burst: 0 });
    assert_eq!(limiter.token(&tenant("t"), "c", EpochMs(0)), Ok(None));
}

#[test]
fn remembered_quota_refuses_until_it_has_a_token() {
    let limiter = RateLimiter::new(RATE);
    let token = |client: &str, ms| limiter.token(&tenant("t"), client, EpochMs(ms));
    let first = token("a", 1_000).unwrap().unwrap();
    // `token` only prepares a token and takes none from the quota.
    for _ in 0..10 {
        assert!(token("a", 1_000).is_ok());
    }
    assert_eq!(limiter.remember(&first, 1_300_000).remaining, 0);
    assert_eq!(token("a", 1_000).unwrap_err().retry_after_ms, 100);
    // An earlier instant that arrives late does not replace the remembered one.
    limiter.remember(&first, 1_100_000);
    assert!(token("a", 1_000).is_err() && token("a", 1_100).is_ok());
    // Another client, and a client with the same name of another tenant, have their own quotas.
    assert!(token("b", 1_000).is_ok() && limiter.token(&tenant("u"), "a", EpochMs(1_000)).is_ok());
}

#[test]
fn clock_put_back_neither_locks_out_a_client_nor_gives_a_burst() {
    let (hour, noon) = (3_600_000, 12 * 3_600_000);
    let mut store = Store::new(RATE);
    while store.submit(noon).is_ok() {}
    // Put back by less than the clocks of replicas may differ, it is as if the clock had not changed.
    assert!(store.submit(noon - 59_000).is_err());
    // Put back by more, the client gets one token, and then its rate.
    let quota = store.submit(noon - hour).unwrap();
    assert_eq!((quota.remaining, quota.full_in_ms), (0, 300));
    assert!(store.submit(noon - hour).is_err() && store.submit(noon - hour + 100).is_ok());
    // The instant that was remembered before is replaced.
    let limiter = RateLimiter::new(RATE);
    let late = limiter.token(&tenant("t"), "c", EpochMs(noon)).unwrap().unwrap();
    limiter.remember(&late, noon * 1000 + 300_000);
    let early = limiter.token(&tenant("t"), "c", EpochMs(noon - hour)).unwrap().unwrap();
    limiter.remember(&early, (noon - hour) * 1000 + 100_000);
    assert!(limiter.token(&tenant("t"), "c", EpochMs(noon)).is_ok());
}

#[test]
fn extreme_numbers_neither_overflow_nor_exceed_the_burst() {
    let ends = [0, 1, 2, 1_000_000, 1_000_001, u32::MAX];
    for (per_second, burst) in ends.into_iter().flat_map(|one| ends.map(|other| (one, other))) {
        for now_ms in [0, 1, u64::MAX / 1000, u64::MAX - 1, u64::MAX] {
            let rate = RateLimit { per_second, burst };
            let Some(token) = rate.token(&tenant("t"), "c", EpochMs(now_ms)) else {
                assert_eq!(per_second, 0);
                continue;
            };
            for full_at_us in [0, token.now_us, token.latest_us, token.trusted_until_us, u64::MAX] {
                let (after, left) = (token.full_after(full_at_us), token.quota_at(full_at_us));
                assert!(token.now_us < after && after <= token.trusted_until_us);
                // A database has signed integers.
                assert!(i64::try_from(token.trusted_until_us.max(after) + token.increment_us).is_ok());
                assert!(left.remaining <= burst);
            }
        }
    }
}

#[test]
fn forgotten_client_is_not_refused() {
    let limiter = RateLimiter::new(RateLimit { per_second: 1, burst: 1 });
    for client in 0..=CLIENTS_MAX {
        let token = limiter.token(&tenant("t"), &client.to_string(), EpochMs(0)).unwrap().unwrap();
        limiter.remember(&token, 1_000_000);
    }
    assert!(limiter.full_at_us.lock().len() <= CLIENTS_MAX);
    assert!(limiter.token(&tenant("t"), &CLIENTS_MAX.to_string(), EpochMs(0)).is_err());
    assert!(limiter.token(&tenant("t"), "0", EpochMs(0)).is_ok());
}

/// A token bucket that counts tokens, for comparison.
struct Bucket {
    rate: RateLimit,
    tokens: f64,
    at_ms: u64,
}

impl Bucket {
    /// Takes a token, if there is one. Returns whether there was, and the distance of the number of tokens from one.
    fn take(&mut self, now_ms: u64) -> (bool, f64) {
        let elapsed_s = (now_ms - self.at_ms) as f64 / 1000.0;
        let filled = self.tokens + elapsed_s * f64::from(self.rate.per_second);
        (self.tokens, self.at_ms) = (filled.min(f64::from(self.rate.burst)), now_ms);
        let margin = (self.tokens - 1.0).abs();
        let has_token = self.tokens >= 1.0;
        if has_token {
            self.tokens -= 1.0;
        }
        (has_token, margin)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Uses rates that divide a second, so that the results differ only by rounding when the bucket has about one token.
    #[test]
    fn quota_agrees_with_a_token_bucket(
        per_second in prop::sample::select(vec![1_u32, 2, 5, 10, 50, 1000]),
        burst in 1_u32..40,
        steps in prop::collection::vec(0_u64..400, 1..60),
    ) {
        let rate = RateLimit { per_second, burst };
        let (mut now_ms, mut store) = (1_700_000_000_000, Store::new(rate));
        let mut bucket = Bucket { rate, tokens: f64::from(burst), at_ms: now_ms };
        for step in steps {
            now_ms += step;
            let (expected, margin) = bucket.take(now_ms);
            let answer = store.submit(now_ms);
            if margin > 1e-6 {
                prop_assert_eq!(answer.is_ok(), expected);
            } else if answer.is_ok() != expected {
                // The two rounded differently, so they differ from here on.
                return Ok(());
            }
            let quota = answer.unwrap_or_else(|exhausted| exhausted);
            prop_assert!((f64::from(quota.remaining) - bucket.tokens).abs() < 1.0 + 1e-6);
        }
    }

    /// However the clock jumps, and whatever the quota was before: while the clock only advances, no more than the
    /// burst and the rate is accepted.
    #[test]
    fn no_more_than_burst_and_rate_is_accepted_between_clock_jumps(
        per_second in 1_u32..2000,
        burst in 1_u32..20,
        before_us in any::<u64>(),
        jumps in prop::collection::vec(-400_000_i64..2_000, 1..8),
        steps in prop::collection::vec(0_u64..50, 1..200),
    ) {
        let rate = RateLimit { per_second, burst };
        let mut store = Store { rate, full_at_us: before_us };
        let mut now_ms = 1_700_000_000_000_u64;
        for jump in jumps {
            now_ms = now_ms.saturating_add_signed(jump);
            let (start_ms, mut n_accepted) = (now_ms, 0_u64);
            for step in &steps {
                now_ms += step;
                n_accepted += u64::from(store.submit(now_ms).is_ok());
                let increment_us = 1_000_000 / u64::from(per_second);
                let allowed = u64::from(burst) + (now_ms - start_ms) * 1000 / increment_us;
                prop_assert!(n_accepted <= allowed, "{} of {}", n_accepted, allowed);
            }
        }
    }

    #[test]
    fn client_is_accepted_exactly_after_its_retry_after(per_second in 1_u32..2000, burst in 1_u32..20, n_sent in 1_u32..60) {
        let now_ms = 1_700_000_000_000;
        let mut store = Store::new(RateLimit { per_second, burst });
        let mut last = Ok(Quota { limit: 0, remaining: 0, full_in_ms: 0, retry_after_ms: 0 });
        for _ in 0..n_sent {
            last = store.submit(now_ms);
        }
        prop_assert_eq!(last.is_ok(), n_sent <= burst);
        if let Err(quota) = last {
            prop_assert!(store.submit(now_ms + quota.retry_after_ms - 1).is_err());
            prop_assert!(store.submit(now_ms + quota.retry_after_ms).is_ok());
        }
    }
}

#[test]
fn quota_in_memory_allows_a_burst_for_each_client_and_tenant() {
    let limiter = RateLimiter::new(RATE);
    let take = |client: &str, ms| limiter.take(&tenant("t"), client, EpochMs(ms));
    for _ in 0..RATE.burst {
        assert_eq!(take("a", 1_000), Ok(()));
    }
    // A refused request takes no token.
    for _ in 0..10 {
        assert_eq!(take("a", 1_000).unwrap_err().retry_after_ms, 100);
    }
    assert!(take("b", 1_000).is_ok() && limiter.take(&tenant("u"), "a", EpochMs(1_000)).is_ok());
    assert!(take("a", 1_100).is_ok() && take("a", 1_100).is_err());
    assert_eq!(
        RateLimiter::new(RateLimit { per_second: 0, burst: 0 }).take(&tenant("t"), "a", EpochMs(0)),
        Ok(())
    );
}
