//! The only clock.

use gateway_domain::time::EpochMs;
use gateway_engine::ports::TellTime;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine's clock.
pub struct SystemClock;

impl TellTime for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the clock adapter is where time comes from")]
    fn now(&self) -> EpochMs {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        EpochMs(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }
}
