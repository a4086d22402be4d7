//! The high-water mark of a verifier: the highest sequence of a bundle under which it admitted an operation. An older bundle admits
//! no further one, unless the verifier's pins name it, or it was offered with a signed activation record of a higher sequence, or
//! the mark rose less than [`SUPERSEDED_BUNDLE_MS`] ago.

use crate::limits::SUPERSEDED_BUNDLE_MS;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;

/// A bundle in the order of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// SHA-256 of its canonical manifest.
    pub hash: Hex32,
    /// See [`TrustedBundle::sequence`](crate::TrustedBundle::sequence).
    pub sequence: u64,
    /// When the verifier admitted the first operation under it; `None` if it admitted none.
    pub active_at: Option<EpochMs>,
}

/// Whether an admission makes the bundle the active one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its sequence is the new high-water mark.
    Rises,
    /// It is the active one, or is accepted besides it.
    Stays,
}

/// A bundle with a higher sequence is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the policy bundle's sequence {offered} is not above {reached}, under which operations were admitted"
)]
pub struct Superseded {
    /// The bundle's sequence.
    pub offered: u64,
    /// The high-water mark.
    pub reached: u64,
}

impl Ranked {
    /// Checks that this bundle may admit an operation while `mark` is the active one.
    pub fn check(self, mark: Option<Self>, is_pinned: bool, now: EpochMs) -> Result<Standing, Superseded> {
        let Some(mark) = mark else { return Ok(Standing::Rises) };
        if mark.hash == self.hash {
            return Ok(Standing::Stays);
        }
        if self.sequence > mark.sequence {
            return Ok(Standing::Rises);
        }
        let is_recent = mark.active_at.is_some_and(|since| now < since.plus_ms(SUPERSEDED_BUNDLE_MS));
        if is_pinned || (self.active_at.is_some() && is_recent) {
            return Ok(Standing::Stays);
        }
        Err(Superseded { offered: self.sequence, reached: mark.sequence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_below_the_mark_is_refused() {
        let now = EpochMs(10_000_000);
        let ranked = |byte, sequence, active_at: Option<u64>| Ranked {
            hash: Hex32::new([byte; 32]),
            sequence,
            active_at: active_at.map(EpochMs),
        };
        let long_ago = Some(now.0 - SUPERSEDED_BUNDLE_MS);
        let just_now = Some(now.0 - SUPERSEDED_BUNDLE_MS + 1);
        let superseded = Err(Superseded { offered: 4, reached: 5 });
        for (mark, (sequence, active_at), is_pinned, expected) in [
            (None, (0, None), false, Ok(Standing::Rises)),
            (long_ago, (6, None), false, Ok(Standing::Rises)),
            (long_ago, (5, None), false, Err(Superseded { offered: 5, reached: 5 })),
            (long_ago, (4, None), false, superseded),
            (long_ago, (4, Some(1)), false, superseded),
            (long_ago, (4, None), true, Ok(Standing::Stays)),
            (just_now, (4, Some(1)), false, Ok(Standing::Stays)),
            // It never was the active one.
            (just_now, (4, None), false, superseded),
        ] {
            let mark = mark.map(|since| ranked(1, 5, Some(since)));
            let own = ranked(2, sequence, active_at);
            assert_eq!(own.check(mark, is_pinned, now), expected, "{mark:?} {own:?} {is_pinned}");
        }
        let own = ranked(1, 5, long_ago);
        assert_eq!(own.check(Some(own), false, now), Ok(Standing::Stays));
    }
}
