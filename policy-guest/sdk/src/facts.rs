//! Facts about the deployment.

use std::collections::BTreeMap;

/// The facts that a policy may read. The contract (`wit/policy.wit`) lists their names.
pub trait Facts {
    /// The value of the fact; `None` if the deployment does not have it.
    fn get(&self, name: &str) -> Option<String>;

    /// A decimal number; `None` if the deployment does not have the fact.
    ///
    /// # Errors
    /// [`Unreadable`] if the value is not an unsigned 64-bit decimal number. Deny in that case: guessing is not safe.
    fn integer(&self, name: &'static str) -> Result<Option<u64>, Unreadable> {
        read(name, self.get(name), |value| value.parse().ok())
    }

    /// `true` or `false`; `None` if the deployment does not have the fact.
    ///
    /// # Errors
    /// [`Unreadable`] if the value is neither. Deny in that case: guessing is not safe.
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

/// A fact whose value does not have the requested type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The fact's name.
    pub name: &'static str,
    /// The value that the deployment supplied.
    pub value: String,
}

impl Facts for BTreeMap<String, String> {
    fn get(&self, name: &str) -> Option<String> {
        BTreeMap::get(self, name).cloned()
    }
}
