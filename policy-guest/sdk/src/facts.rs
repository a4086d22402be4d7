//! What the deployment knows.

use std::collections::BTreeMap;

/// The facts a policy may ask for, by the names listed in the contract (`wit/policy.wit`).
pub trait Facts {
    /// The value of the fact, or none when the deployment has no such fact.
    fn get(&self, name: &str) -> Option<String>;

    /// A decimal number, or none when the deployment has no such fact.
    ///
    /// # Errors
    /// [`Unreadable`] when there is a value and it is not a decimal number. Deny then: guessing is not safe.
    fn integer(&self, name: &'static str) -> Result<Option<u64>, Unreadable> {
        read(name, self.get(name), |value| value.parse().ok())
    }

    /// `true` or `false`, or none when the deployment has no such fact.
    ///
    /// # Errors
    /// [`Unreadable`] when there is a value and it is neither. Deny then: guessing is not safe.
    fn flag(&self, name: &'static str) -> Result<Option<bool>, Unreadable> {
        read(name, self.get(name), |value| match value {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }
}

fn read<T>(
    name: &'static str,
    value: Option<String>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Unreadable> {
    match value {
        None => Ok(None),
        Some(value) => parse(&value).map(Some).ok_or(Unreadable { name, value }),
    }
}

/// A fact whose value is not what its name promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The fact's name.
    pub name: &'static str,
    /// What the deployment gave.
    pub value: String,
}

impl Facts for BTreeMap<String, String> {
    fn get(&self, name: &str) -> Option<String> {
        BTreeMap::get(self, name).cloned()
    }
}
