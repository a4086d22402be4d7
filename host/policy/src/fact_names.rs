//! The facts that a policy may read: those that its manifest declares.

use crate::bundle::BundleError;
use crate::calendar;
use crate::limits::{FACT_NAME_BYTES_MAX, FACT_NAMES_MAX};
use gateway_domain::policy::facts::classes;
use gateway_domain::policy::{document, spending};
use std::collections::BTreeSet;

/// Declared names. An entry `prefix.*` stands for all names that begin with `prefix.`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FactNames(Vec<String>);

impl FactNames {
    pub(crate) const fn new(declared: Vec<String>) -> Self {
        Self(declared)
    }

    /// Whether the policy may read this fact. A calendar is read with the time that it follows from, and a document with the time that it has
    /// not expired at. Payments in a currency that is declared are summed, so it has to be named.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|declared| match declared.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix) && spending::currency(name).is_none(),
            None => name == declared,
        }) || (name == calendar::NOW && self.0.iter().any(|declared| needs_time(declared)))
    }

    /// The currencies in which payments over time are declared.
    pub(crate) fn currencies(&self) -> BTreeSet<String> {
        self.0.iter().filter_map(|declared| spending::currency(declared)).map(str::to_owned).collect()
    }

    /// Whether the policy may read a fact whose name begins with `prefix`.
    pub(crate) fn has_prefix(&self, prefix: &str) -> bool {
        self.0.iter().any(|declared| match declared.strip_suffix('*') {
            Some(declared_prefix) => {
                declared_prefix.starts_with(prefix) || prefix.starts_with(declared_prefix)
            }
            None => declared.starts_with(prefix),
        })
    }
}

fn needs_time(declared: &str) -> bool {
    calendar::is_offered(declared) || declared.starts_with(document::PREFIX)
}

/// Checks that the declared names are facts that a deployment offers, ascending and different.
///
/// # Errors
/// [`BundleError::FactName`], [`BundleError::UnknownFact`], [`BundleError::FactOrder`], [`BundleError::TooManyFacts`].
pub(crate) fn check(declared: &[String]) -> Result<(), BundleError> {
    if declared.len() > FACT_NAMES_MAX {
        return Err(BundleError::TooManyFacts(FACT_NAMES_MAX));
    }
    if let Some(name) = declared.iter().find(|name| !is_allowed(name)) {
        return Err(BundleError::FactName(name.clone()));
    }
    let is_offered = |name: &str| !calendar::is_named(name) || calendar::is_offered(name);
    if let Some(name) = declared.iter().find(|name| classes(name).is_empty() || !is_offered(name)) {
        return Err(BundleError::UnknownFact(name.clone()));
    }
    match declared.iter().zip(declared.iter().skip(1)).find(|(before, after)| before >= after) {
        Some((_, after)) => Err(BundleError::FactOrder(after.clone())),
        None => Ok(()),
    }
}

/// Whether the name is words of lower case letters, digits and `_`, joined by dots. The last may be `*`, unless it is the only
/// one; that of a calendar is a time zone, and that of payments may be a currency.
fn is_allowed(name: &str) -> bool {
    let words = name.strip_suffix(".*").unwrap_or(name);
    let is_word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let is_named =
        words.split('.').all(is_word) || calendar::is_named(name) || spending::currency(name).is_some();
    name.len() <= FACT_NAME_BYTES_MAX && is_named
}
