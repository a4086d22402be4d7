//! The rate limits of each client: GCRA, the virtual scheduling form (ITU-T I.371, annex A).
//!
//! A client's quota is one instant: when it will be full again. For submissions the store has the instant of each
//! tenant and client, so that replicas share it and it survives a restart. A token is taken in the transaction that
//! writes the operation or the record of a refusal; a replay and a version conflict take none. This process remembers
//! the last instants only to refuse sooner. The quota of previews is in memory only.

use gateway_domain::ids::Tenant;
use gateway_domain::time::EpochMs;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;

/// The most clients remembered. Forgetting one costs at most a transaction that finds its quota exhausted; its quota
/// of previews becomes full.
const CLIENTS_MAX: usize = 10_000;

/// The largest difference between the clocks of replicas, microseconds. A quota that is full later than any replica's clock
/// could have made it was written before the clock was put back, or under another limit.
const CLOCKS_DIFFER_US_MAX: u64 = 60_000_000;

/// The latest instant, microseconds since the epoch (about the year 75,000): no sum of instants overflows a database's
/// integers.
const LAST_US: u64 = i64::MAX as u64 / 4;

/// The rate limit of a client's submissions, or of its previews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Tokens added each second; 0 switches the limit off.
    pub per_second: u32,
    /// Tokens of a full quota.
    pub burst: u32,
}

/// One token to be taken from a client's quota. All instants are microseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The client's tenant.
    pub tenant: Tenant,
    /// The client's id.
    pub client_id: String,
    /// The present time.
    pub now_us: u64,
    /// How much later the quota is full once the token is taken, microseconds.
    pub increment_us: u64,
    /// A quota that is full later than this has no token left.
    pub latest_us: u64,
    /// A stored instant later than this is not trusted: it counts as `latest_us`.
    pub trusted_until_us: u64,
    /// The limit, for the headers of the response.
    pub rate: RateLimit,
}

/// A client's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Tokens of a full quota.
    pub limit: u32,
    /// Tokens left now.
    pub remaining: u32,
    /// Milliseconds until the quota is full.
    pub full_in_ms: u64,
    /// Milliseconds until there is a token; 0 when there is one.
    pub retry_after_ms: u64,
}

impl RateLimit {
    fn token(self, tenant: &Tenant, client_id: &str, now: EpochMs) -> Option<Token> {
        let increment_us = 1_000_000_u64.checked_div(u64::from(self.per_second))?.max(1);
        let now_us = now.0.saturating_mul(1000).min(LAST_US);
        let latest_us = now_us.saturating_add(increment_us * u64::from(self.burst.saturating_sub(1)));
        Some(Token {
            tenant: tenant.clone(),
            client_id: client_id.to_owned(),
            now_us,
            increment_us,
            latest_us,
            trusted_until_us: latest_us.saturating_add(increment_us).saturating_add(CLOCKS_DIFFER_US_MAX),
            rate: self,
        })
    }
}

impl Token {
    /// Whether a quota that is full at this instant has no token left.
    #[must_use]
    pub const fn is_exhausted_at(&self, full_at_us: u64) -> bool {
        self.latest_us < full_at_us && full_at_us <= self.trusted_until_us
    }

    /// When a quota that was full at this instant is full once the token is taken.
    #[must_use]
    pub fn full_after(&self, full_at_us: u64) -> u64 {
        full_at_us.clamp(self.now_us, self.latest_us).saturating_add(self.increment_us)
    }

    /// The quota of a client whose tokens are full at this instant.
    #[must_use]
    pub fn quota_at(&self, full_at_us: u64) -> Quota {
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

    fn client(&self) -> (Tenant, String) {
        (self.tenant.clone(), self.client_id.clone())
    }
}

/// The quotas of all clients: for submissions as last read from the store, for previews the only copy.
pub(crate) struct RateLimiter {
    limit: RateLimit,
    /// When each client's quota is full. The store's instant is never earlier, unless a clock was put back.
    full_at_us: Mutex<BTreeMap<(Tenant, String), u64>>,
}

impl RateLimiter {
    pub(crate) const fn new(limit: RateLimit) -> Self {
        Self { limit, full_at_us: Mutex::new(BTreeMap::new()) }
    }

    /// The token that a submission takes; `None` while the limit is off.
    ///
    /// # Errors
    /// The client's quota, when it is known to have no token.
    pub(crate) fn token(
        &self,
        tenant: &Tenant,
        client_id: &str,
        now: EpochMs,
    ) -> Result<Option<Token>, Quota> {
        let Some(token) = self.limit.token(tenant, client_id, now) else { return Ok(None) };
        let known = self.full_at_us.lock().get(&token.client()).copied();
        match known {
            Some(full_at_us) if token.is_exhausted_at(full_at_us) => Err(token.quota_at(full_at_us)),
            Some(_) | None => Ok(Some(token)),
        }
    }

    /// Takes a token from a quota in memory.
    ///
    /// # Errors
    /// The client's quota, when it has no token.
    pub(crate) fn take(&self, tenant: &Tenant, client_id: &str, now: EpochMs) -> Result<(), Quota> {
        let Some(token) = self.limit.token(tenant, client_id, now) else { return Ok(()) };
        let mut clients = self.with_room(token.now_us);
        let full_at_us = clients.entry(token.client()).or_default();
        if token.is_exhausted_at(*full_at_us) {
            return Err(token.quota_at(*full_at_us));
        }
        *full_at_us = token.full_after(*full_at_us);
        Ok(())
    }

    /// Remembers the instant that the store has for a client, and returns the client's quota.
    pub(crate) fn remember(&self, token: &Token, full_at_us: u64) -> Quota {
        let mut clients = self.with_room(token.now_us);
        let known = clients.entry(token.client()).or_insert(full_at_us);
        // Answers may arrive out of order: the later instant is the newer, unless the clock was put back.
        let is_newer = full_at_us > *known || *known > token.trusted_until_us;
        *known = if is_newer { full_at_us } else { *known };
        token.quota_at(full_at_us)
    }

    /// The clients, with room for one more.
    fn with_room(&self, now_us: u64) -> MutexGuard<'_, BTreeMap<(Tenant, String), u64>> {
        let mut clients = self.full_at_us.lock();
        if clients.len() >= CLIENTS_MAX {
            clients.retain(|_, full_at_us| *full_at_us > now_us);
        }
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients
    }
}

#[cfg(test)]
mod tests;
