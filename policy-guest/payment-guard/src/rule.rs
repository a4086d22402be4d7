//! A quorum rule: how many people must approve, and in which roles.

use crate::document::{Read, Unusable, at, members, number, unknown};

/// Most people that one rule may require: a larger number is a typing error.
const PEOPLE_MAX: u64 = 64;

/// One quorum rule, in addition to the number of approvals that the deployment requires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) approvals: u32,
    /// The number of people required in each role, by the role's name.
    pub(crate) roles: Vec<(String, u32)>,
}

impl Rule {
    /// A quorum that cannot be reached, for a rule that cannot be read.
    pub(crate) const fn strictest() -> Self {
        Self { approvals: u32::MAX, roles: Vec::new() }
    }

    /// Parses `{"approvals": 2, "roles": {"treasurer": 1}}`; both members are optional.
    pub(crate) fn parse(place: &str, object: &str) -> Read<Self> {
        let mut rule = Self::default();
        for (member, value) in members(place, object)? {
            if !rule.take(place, &member, value)? {
                return Err(unknown(place, &member, value));
            }
        }
        Ok(rule)
    }

    /// Reads the member if rules have one of this name; returns false otherwise.
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
