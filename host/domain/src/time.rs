//! Time as a value. This crate never reads a clock: the present time is always an argument.

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 UTC, by the gateway's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct EpochMs(#[serde(deserialize_with = "crate::canonical::integer")] pub u64);

impl EpochMs {
    /// This instant plus `ms` milliseconds, saturating.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}
