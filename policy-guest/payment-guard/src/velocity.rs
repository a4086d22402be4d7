//! Limits over time. The gateway supplies the sums of admitted payments; concurrent payments cannot exceed a limit together.

use crate::limits::Limits;
use gateway_policy_sdk::{Answer, Facts, Payment};

/// A limit in `limits.json`, and the fact that it limits.
pub(crate) struct Velocity {
    pub(crate) member: &'static str,
    fact: &'static str,
    /// What the fact sums, as reasons word it.
    sums: &'static str,
    /// Whether a payment adds 1 to the sum, not its amount.
    counts: bool,
}

const fn of(member: &'static str, fact: &'static str, sums: &'static str) -> Velocity {
    Velocity { member, fact, sums, counts: false }
}

pub(crate) const VELOCITIES: [Velocity; 5] = [
    of("account_hour_max", "velocity.account.hour_minor", "paid from the account in an hour"),
    of("account_day_max", "velocity.account.day_minor", "paid from the account in a day"),
    of("recipient_hour_max", "velocity.recipient.hour_minor", "paid to the recipient in an hour"),
    of("recipient_day_max", "velocity.recipient.day_minor", "paid to the recipient in a day"),
    Velocity {
        counts: true,
        ..of("account_day_count_max", "velocity.account.day_count", "payments from the account in a day")
    },
];

/// Whether the payment stays within every limit over time. Before admission an exhausted limit is an obligation, since it may
/// recover. It denies if `is_final`, or if the payment alone exceeds it.
pub(crate) fn judge(
    limits: &Limits,
    place: &str,
    payment: &Payment,
    facts: &dyn Facts,
    is_final: bool,
    answer: &mut Answer,
) -> bool {
    let mut fits_all = true;
    for (velocity, max) in VELOCITIES.iter().zip(&limits.velocities) {
        let Some(max) = *max else { continue };
        let adds = if velocity.counts { 1 } else { payment.amount_minor.unsigned_abs() };
        let Some(spent) = spent(velocity, place, facts, answer) else {
            fits_all = false;
            continue;
        };
        if spent.saturating_add(adds) <= max {
            continue;
        }
        fits_all = false;
        let detail = detail(velocity, place, &payment.currency, spent, adds, max);
        if is_final || adds > max {
            answer.deny("velocity_exceeded", detail);
        } else {
            answer.oblige("await_limit", detail);
        }
    }
    fits_all
}

/// The value of the fact. A missing fact denies, since the limit could not be enforced without it.
fn spent(velocity: &Velocity, place: &str, facts: &dyn Facts, answer: &mut Answer) -> Option<u64> {
    let fault = match facts.integer(velocity.fact) {
        Ok(Some(spent)) => return Some(spent),
        Ok(None) => ["is needed for data/", place, "/", velocity.member, " and is not given"].concat(),
        Err(fact) => ["has the unusable value `", &fact.value, "`"].concat(),
    };
    answer.deny("fact_unreadable", ["fact ", velocity.fact, " ", &fault].concat());
    None
}

fn detail(velocity: &Velocity, place: &str, currency: &str, spent: u64, adds: u64, max: u64) -> String {
    let unit = if velocity.counts { "" } else { currency };
    let space = if velocity.counts { "" } else { " " };
    let [spent_text, adds, max_text, room] =
        [spent, adds, max, max.saturating_sub(spent)].map(|number| number.to_string());
    let operands =
        [&spent_text, " and ", &adds, space, unit, " are above ", &max_text, " ", velocity.sums].concat();
    let remedy =
        ["; there is room for ", &room, ": wait, or raise data/", place, "/", velocity.member].concat();
    operands + &remedy
}
