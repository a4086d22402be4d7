//! Approver roles, and quorums that rise with the amount, from `data/quorum.json`.

use crate::document::{Read, Unusable, at, check_object, flag, members, number, unknown};
use crate::rule::Rule;
use gateway_policy_sdk::{Data, Payment, json};

const FILE: &str = "quorum.json";
const PAYMENTS: &str = "quorum.json /payments";

/// The name of the tiers for every currency that has none of its own.
const ANY_CURRENCY: &str = "*";

/// The content of the file. The default, for a missing file, adds nothing to the deployment's rules.
#[derive(Default)]
pub(crate) struct QuorumData {
    /// The roles in which an approval counts; `None`: any role.
    pub(crate) approver_roles: Option<Vec<String>>,
    /// Whether the submitter's own approval does not count, even if the deployment permits it.
    pub(crate) submitter_excluded: bool,
    /// Whether one person may fill several of the roles that a rule requires.
    pub(crate) roles_shared: bool,
    /// The tiers by currency, as JSON.
    payments: Option<String>,
}

impl QuorumData {
    /// For a file that cannot be read: no approval counts.
    pub(crate) fn strictest() -> Self {
        Self { approver_roles: Some(Vec::new()), submitter_excluded: true, ..Self::default() }
    }

    pub(crate) fn read(data: &dyn Data) -> Read<Self> {
        let mut read = Self::default();
        let Some(whole) = data.get(FILE, "") else { return Ok(read) };
        for (member, value) in members(FILE, &whole)? {
            match &*member {
                "approver_roles" => read.approver_roles = Some(roles(value)?),
                "submitter_may_approve" => read.submitter_excluded = !flag(FILE, &member, value)?,
                "one_person_many_roles" => read.roles_shared = flag(FILE, &member, value)?,
                "payments" => {
                    check_object(PAYMENTS, value)?;
                    read.payments = Some(value.into());
                }
                _ => return Err(unknown(FILE, &member, value)),
            }
        }
        Ok(read)
    }

    /// The rule of the highest tier that the amount reaches.
    pub(crate) fn rule_for(&self, payment: &Payment) -> Read<Rule> {
        let Some(payments) = &self.payments else { return Ok(Rule::default()) };
        let tiers_of = |currency: &str| {
            members(PAYMENTS, payments).map(|mut all| all.find(|(name, _)| name == currency))
        };
        let listed = match tiers_of(&payment.currency)? {
            None => tiers_of(ANY_CURRENCY)?,
            own => own,
        };
        let Some((currency, tiers)) = listed else { return Ok(Rule::default()) };
        let amount_minor = u64::try_from(payment.amount_minor).unwrap_or(0);
        highest(&at(PAYMENTS, &currency), tiers, amount_minor)
    }
}

fn roles(list: &str) -> Read<Vec<String>> {
    let texts = json::items(list).and_then(|mut items| {
        items.try_fold(Vec::new(), |mut all, item| {
            all.push(json::text(item)?.into_owned());
            Some(all)
        })
    });
    texts.ok_or_else(|| Unusable::new(at(FILE, "approver_roles"), "a list of texts", list))
}

/// The rule of the highest tier reached. Reads all tiers, so that a mistake in any of them denies at once.
fn highest(place: &str, tiers: &str, amount_minor: u64) -> Read<Rule> {
    let list = json::items(tiers).ok_or_else(|| Unusable::new(place, "a list of tiers", tiers))?;
    let (mut reached, mut from_before) = (Rule::default(), None);
    for tier in list {
        let (from, rule) = parse(place, tier)?;
        if from_before.is_some_and(|before| before >= from) {
            return Err(Unusable::new(place, "a list with rising `from`", tiers));
        }
        from_before = Some(from);
        if amount_minor >= from {
            reached = rule;
        }
    }
    Ok(reached)
}

/// Parses `{"from": 100000, "approvals": 3, "roles": {"treasurer": 1}}`: `from` is in minor units, 0 if left out.
fn parse(place: &str, tier: &str) -> Read<(u64, Rule)> {
    let (mut from, mut rule) = (0, Rule::default());
    for (member, value) in members(place, tier)? {
        if member == "from" {
            from = number(place, &member, value)?;
        } else if !rule.take(place, &member, value)? {
            return Err(unknown(place, &member, value));
        }
    }
    Ok((from, rule))
}
