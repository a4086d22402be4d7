//! The submission budget of each client: GCRA, the virtual scheduling form (ITU-T I.371, annex A).

use gateway_domain::time::EpochMs;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Clients remembered at once. Those whose budget is full again are forgotten first.
const CLIENTS_MAX: usize = 10_000;

/// How many submissions a client may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Submissions a second in the long run; 0 switches the limit off.
    pub per_second: u32,
    /// Submissions at once after a pause.
    pub burst: u32,
}

/// Budgets by client.
pub(crate) struct Budgets {
    rate: Rate,
    /// For each client the instant, in microseconds, at which its budget is full again.
    full_at_us: Mutex<BTreeMap<String, u64>>,
}

impl Budgets {
    pub(crate) const fn new(rate: Rate) -> Self {
        Self { rate, full_at_us: Mutex::new(BTreeMap::new()) }
    }

    pub(crate) const fn limit(&self) -> u32 {
        self.rate.per_second
    }

    /// Takes one submission from the client's budget, or says in how many milliseconds there will be one.
    pub(crate) fn take(&self, client: &str, now: EpochMs) -> Result<(), u64> {
        if self.rate.per_second == 0 {
            return Ok(());
        }
        let increment_us = 1_000_000 / u64::from(self.rate.per_second);
        let tolerance_us = increment_us * u64::from(self.rate.burst.saturating_sub(1));
        let now_us = now.0.saturating_mul(1000);
        let mut clients = self.full_at_us.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= CLIENTS_MAX {
            clients.retain(|_, full_at_us| *full_at_us > now_us);
        }
        let full_at_us = clients.get(client).copied().unwrap_or(0).max(now_us);
        let early_us = full_at_us - now_us;
        if early_us > tolerance_us {
            return Err((early_us - tolerance_us).div_ceil(1000));
        }
        clients.insert(client.to_owned(), full_at_us + increment_us);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_burst_and_then_its_rate() {
        let budgets = Budgets::new(Rate { per_second: 10, burst: 3 });
        let at = |ms: u64| EpochMs(1_000_000 + ms);
        for _ in 0..3 {
            assert_eq!(budgets.take("a", at(0)), Ok(()));
        }
        assert_eq!(budgets.take("a", at(0)), Err(100));
        assert_eq!(budgets.take("b", at(0)), Ok(()));
        assert_eq!(budgets.take("a", at(99)), Err(1));
        assert_eq!(budgets.take("a", at(100)), Ok(()));
        assert_eq!(budgets.take("a", at(100)), Err(100));
    }

    #[test]
    fn zero_switches_the_limit_off() {
        let budgets = Budgets::new(Rate { per_second: 0, burst: 0 });
        assert!((0..1000).all(|_| budgets.take("a", EpochMs(0)).is_ok()));
    }
}
