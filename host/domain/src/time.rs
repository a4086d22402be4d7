//! Time as a value. This crate never reads a clock: the present time is always an argument.

use serde::{Deserialize, Serialize};

/// A day of UTC.
pub const DAY_MS: u64 = 86_400_000;

/// Milliseconds since 1970-01-01 UTC, by the gateway's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EpochMs(#[serde(deserialize_with = "crate::canonical::integer")] pub u64);

impl EpochMs {
    /// This instant plus `ms` milliseconds, saturating.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// The first millisecond of a day in the Gregorian calendar, UTC, from 1970 on: `YYYY-MM-DD`.
    #[must_use]
    pub fn of_day(text: &str) -> Option<Self> {
        let mut parts = text.split('-').map(|part| part.parse().ok().filter(|number: &u64| *number <= 9999));
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        // Counted from March of the year 0, as below.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
        let n_days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
        let at = Self(n_days.checked_sub(719_469)? * DAY_MS);
        (at.rfc3339()?.get(..10)? == text).then_some(at)
    }

    /// This moment in UTC as RFC 3339 has it; `None` after the year 9999, which has no such form.
    #[must_use]
    pub fn rfc3339(self) -> Option<String> {
        let (year, month, day) = date(self.0 / DAY_MS);
        let ms = self.0 % DAY_MS;
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        let ms = ms % 1_000;
        (year <= 9999)
            .then(|| format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"))
    }
}

/// The year, month and day in the Gregorian calendar, so many days after 1970-01-01.
const fn date(n_days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that a leap day is the last one; the first is that of the year 0. 400 years have 146,097 days.
    let n_days = n_days + 719_468;
    let (era, day_of_era) = (n_days / 146_097, n_days % 146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339_has_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_790_000_000_001, "2026-09-21T14:13:20.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(EpochMs(ms).rfc3339().as_deref(), Some(text));
        }
        assert_eq!(EpochMs(253_402_300_800_000).rfc3339(), None);
        assert_eq!(EpochMs(u64::MAX).rfc3339(), None);
    }

    #[test]
    fn every_day_of_400_years_follows_the_day_before() {
        let is_leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let mut next = (1970, 1, 1);
        for n_days in 0..=146_097 {
            let (year, month, day) = date(n_days);
            assert_eq!((year, month, day), next);
            let length = match month {
                2 => 28 + u64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            next = match (month, day == length) {
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
                (_, false) => (year, month, day + 1),
            };
        }
    }
}
