//! Limits over time. The gateway supplies the sums of admitted payments; concurrent payments cannot exceed a limit together.

use crate::limits::Limits;
use gateway_policy_sdk::{Answer, Facts, Payment};

/// A limit in `limits.json`, and the fact that it limits.
pub(crate) struct Velocity {
    pub(crate) member: &'static str,
    fact: &'static str,
    /// Whether a payment adds 1 to the sum, not its amount.
    counts: bool,
}

const fn of(member: &'static str, fact: &'static str) -> Velocity {
    Velocity { member, fact, counts: false }
}

pub(crate) const VELOCITIES: [Velocity; 8] = [
    of("account_hour_max", "velocity.account.1h.units"),
    of("account_day_max", "velocity.account.24h.units"),
    of("account_week_max", "velocity.account.7d.units"),
    of("account_month_max", "velocity.account.30d.units"),
    of("recipient_hour_max", "velocity.recipient.1h.units"),
    of("recipient_day_max", "velocity.recipient.24h.units"),
    of("submitter_day_max", "velocity.submitter.24h.units"),
    Velocity { counts: true, ..of("account_day_count_max", "velocity.account.24h.count") },
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
        let [spent, adds_text, limit, room] =
            [spent, adds, max, max.saturating_sub(spent)].map(|number| number.to_string());
        let place = ["data/", place, "/", velocity.member].concat();
        let operands = [
            ("spent", &*spent),
            ("adds", &adds_text),
            ("currency", if velocity.counts { "" } else { &payment.currency }),
            ("limit", &limit),
            ("room", &room),
            ("place", &place),
        ];
        // A number of payments has no currency.
        let operands: Vec<_> = operands.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        if is_final || adds > max {
            answer.deny("velocity_exceeded", &operands);
        } else {
            answer.oblige("await_limit", &operands);
        }
    }
    fits_all
}

/// The value of the fact. A missing fact denies, since the limit could not be enforced without it.
fn spent(velocity: &Velocity, place: &str, facts: &dyn Facts, answer: &mut Answer) -> Option<u64> {
    let unreadable = match facts.integer(velocity.fact) {
        Ok(Some(spent)) => return Some(spent),
        Ok(None) => ("needed_for", ["data/", place, "/", velocity.member].concat()),
        Err(fact) => ("value", fact.value),
    };
    answer.deny("fact_unreadable", &[("fact", velocity.fact), (unreadable.0, &unreadable.1)]);
    None
}
