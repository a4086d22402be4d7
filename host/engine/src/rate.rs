//! The budgets of each client: GCRA, the virtual scheduling form (ITU-T I.371, annex A).
//!
//! That of submissions is a row of the store, one instant for each tenant and client, so that replicas share it and a restart keeps
//! it. It is charged in the transaction that writes what the submission leaves behind, an operation or the record of a
//! refusal: what leaves nothing, a replay or a lost race, costs nothing. What is known here of the row only refuses
//! sooner. That of previews, which make nothing, is in this process's memory.

use crate::error::EngineError;
use crate::ports::RateLimited;
use gateway_domain::ids::Tenant;
use gateway_domain::time::EpochMs;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Clients remembered at once. To forget one costs a transaction that finds its budget spent.
const CLIENTS_MAX: usize = 10_000;

/// By how much the clocks of replicas may differ. A budget that is full later than any charge under a clock so much ahead
/// could have made it was charged before the clock was put back, or under another rate.
const CLOCKS_DIFFER_US_MAX: u64 = 60_000_000;

/// The last instant there is, so that no sum of instants overflows a database's integers: in the year 75,000.
const LAST_US: u64 = i64::MAX as u64 / 4;

/// How many submissions, or previews, a client may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// So many a second in the long run; 0 switches the limit off.
    pub per_second: u32,
    /// So many at once after a pause.
    pub burst: u32,
}

/// One submission to be charged to a client's budget. All instants are microseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Whose client.
    pub tenant: Tenant,
    /// The client.
    pub client_id: String,
    /// Now.
    pub now_us: u64,
    /// By how much later the budget is full after the charge.
    pub increment_us: u64,
    /// A budget that is full later than this has no room for one more.
    pub latest_us: u64,
    /// A budget that is full later than this is not believed: it counts as full at `latest_us`.
    pub believed_us: u64,
    /// As settled, for what the client is told.
    pub rate: RateLimit,
}

/// What a client may still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// So many at once after a pause.
    pub limit: u32,
    /// Of these, how many are left now.
    pub remaining: u32,
    /// Milliseconds until all of them are there again.
    pub full_in_ms: u64,
    /// Milliseconds until there is one; 0 when there is.
    pub retry_after_ms: u64,
}

impl RateLimit {
    fn charge(self, tenant: &Tenant, client_id: &str, now: EpochMs) -> Option<Token> {
        let increment_us = 1_000_000_u64.checked_div(u64::from(self.per_second))?.max(1);
        let now_us = now.0.saturating_mul(1000).min(LAST_US);
        let latest_us = now_us.saturating_add(increment_us * u64::from(self.burst.saturating_sub(1)));
        Some(Token {
            tenant: tenant.clone(),
            client_id: client_id.to_owned(),
            now_us,
            increment_us,
            latest_us,
            believed_us: latest_us.saturating_add(increment_us).saturating_add(CLOCKS_DIFFER_US_MAX),
            rate: self,
        })
    }
}

impl Token {
    /// Whether a budget that is full at this instant has no room for it.
    #[must_use]
    pub const fn is_beyond(&self, full_at_us: u64) -> bool {
        self.latest_us < full_at_us && full_at_us <= self.believed_us
    }

    /// When a budget that was full at this instant is full after the charge.
    #[must_use]
    pub fn applied_to(&self, full_at_us: u64) -> u64 {
        full_at_us.clamp(self.now_us, self.latest_us).saturating_add(self.increment_us)
    }

    /// What is left of a budget that is full at this instant.
    #[must_use]
    pub fn left_of(&self, full_at_us: u64) -> Quota {
        let early_us = full_at_us.saturating_sub(self.now_us);
        let room_us = (self.latest_us - self.now_us + self.increment_us).saturating_sub(early_us);
        let remaining = u32::try_from(room_us / self.increment_us).unwrap_or(u32::MAX);
        Quota {
            limit: self.rate.burst,
            remaining: remaining.min(self.rate.burst),
            full_in_ms: early_us.div_ceil(1000),
            retry_after_ms: full_at_us.saturating_sub(self.latest_us).div_ceil(1000),
        }
    }
}

/// What is known of the store's budgets, or budgets that are nowhere else.
pub(crate) struct RateLimiter {
    rate: RateLimit,
    /// For each client the instant at which its budget is full, as last learnt. The store's is never earlier, but for a
    /// clock that was put back.
    full_at_us: Mutex<BTreeMap<(Tenant, String), u64>>,
}

impl RateLimiter {
    pub(crate) const fn new(rate: RateLimit) -> Self {
        Self { rate, full_at_us: Mutex::new(BTreeMap::new()) }
    }

    /// What a submission costs its client; none while the limit is off.
    ///
    /// # Errors
    /// What is left, when that is certain to be nothing.
    pub(crate) fn charge(
        &self,
        tenant: &Tenant,
        client_id: &str,
        now: EpochMs,
    ) -> Result<Option<Token>, Quota> {
        let Some(charge) = self.rate.charge(tenant, client_id, now) else { return Ok(None) };
        let known = self.lock().get(&charge.client()).copied();
        match known {
            Some(full_at_us) if charge.is_beyond(full_at_us) => Err(charge.left_of(full_at_us)),
            Some(_) | None => Ok(Some(charge)),
        }
    }

    /// Takes one from a budget that no store has.
    ///
    /// # Errors
    /// What is left: less than one.
    pub(crate) fn take(&self, tenant: &Tenant, client_id: &str, now: EpochMs) -> Result<(), Quota> {
        let Some(charge) = self.rate.charge(tenant, client_id, now) else { return Ok(()) };
        let mut clients = self.with_room(charge.now_us);
        let full_at_us = clients.entry(charge.client()).or_default();
        if charge.is_beyond(*full_at_us) {
            return Err(charge.left_of(*full_at_us));
        }
        *full_at_us = charge.applied_to(*full_at_us);
        Ok(())
    }

    /// What was written, and what the client has left; remembers what the store said.
    ///
    /// # Errors
    /// `Conflict` and `RateLimited`: nothing was written.
    pub(crate) fn settle<T>(
        &self,
        charge: &Token,
        charged: RateLimited<T>,
    ) -> Result<(T, Quota), EngineError> {
        match charged {
            RateLimited::Written { written, full_at_us } => Ok((written, self.learn(charge, full_at_us))),
            RateLimited::Conflict => Err(EngineError::Conflict),
            RateLimited::Exhausted { full_at_us } => {
                Err(EngineError::submissions_limited(self.learn(charge, full_at_us)))
            }
        }
    }

    fn learn(&self, charge: &Token, full_at_us: u64) -> Quota {
        let mut clients = self.with_room(charge.now_us);
        let known = clients.entry(charge.client()).or_insert(full_at_us);
        // Answers overtake each other: the later instant is the newer, unless the clock was put back.
        let is_newer = full_at_us > *known || *known > charge.believed_us;
        *known = if is_newer { full_at_us } else { *known };
        charge.left_of(full_at_us)
    }

    /// The clients, with room for one more.
    fn with_room(&self, now_us: u64) -> MutexGuard<'_, BTreeMap<(Tenant, String), u64>> {
        let mut clients = self.lock();
        if clients.len() >= CLIENTS_MAX {
            clients.retain(|_, full_at_us| *full_at_us > now_us);
        }
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Tenant, String), u64>> {
        self.full_at_us.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Token {
    fn client(&self) -> (Tenant, String) {
        (self.tenant.clone(), self.client_id.clone())
    }
}

#[cfg(test)]
mod tests;
