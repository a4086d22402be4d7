//! How many must approve, and in which roles.

use crate::document::{Read, Unusable, at, members, number, unknown};

/// People that one rule may ask for: whoever means more has mistyped.
const PEOPLE_MAX: u64 = 64;

/// One quorum. The deployment's own number holds besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) approvals: u32,
    /// How many of them in which role, by name.
    pub(crate) roles: Vec<(String, u32)>,
}

impl Rule {
    /// What nobody reaches, for a rule that cannot be read.
    pub(crate) const fn strictest() -> Self {
        Self { approvals: u32::MAX, roles: Vec::new() }
    }

    /// `{"approvals": 2, "roles": {"treasurer": 1}}`, both optional.
    pub(crate) fn parse(place: &str, object: &str) -> Read<Self> {
        let mut rule = Self::default();
        for (member, value) in members(place, object)? {
            if !rule.take(place, &member, value)? {
                return Err(unknown(place, &member, value));
            }
        }
        Ok(rule)
    }

    /// Whether the member is one of a rule; then it is taken over.
    pub(crate) fn take(&mut self, place: &str, member: &str, value: &str) -> Read<bool> {
        match member {
            "approvals" => self.approvals = people(place, member, value)?,
            "roles" => {
                let place = at(place, member);
                for (role, n_people) in members(&place, value)? {
                    self.roles.push((role.to_string(), people(&place, &role, n_people)?));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn people(place: &str, member: &str, value: &str) -> Read<u32> {
    let n_people = number(place, member, value)?;
    match u32::try_from(n_people) {
        Ok(people) if n_people <= PEOPLE_MAX => Ok(people),
        _ => Err(Unusable::new(at(place, member), "at most 64", value)),
    }
}
