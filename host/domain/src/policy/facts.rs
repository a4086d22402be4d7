//! What the deployment tells a policy: one function a fact, so that each has one definition.

use super::FactRead;
use crate::key::CustodyKey;
use crate::policy::Spent;
use crate::time::EpochMs;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deployment settings a policy may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Comma-separated accounts, or `*` for any; empty permits nobody.
    pub permitted_recipients: String,
    /// The least number of approvals; a bundle may ask for more.
    pub required_approvals: u32,
    /// Whether a submitter's own approval is refused.
    pub separation_of_duties: bool,
}

/// Facts by name. A policy asks for them one by one; what it asked is recorded. A clone is the same facts again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(Arc<BTreeMap<Cow<'static, str>, String>>);

impl Facts {
    /// The value of a fact, or none when there is no such fact.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Facts as given, for tests and vectors: names that the code spells, or that a file does.
    #[must_use]
    pub fn from_pairs<N: Into<Cow<'static, str>>>(pairs: impl IntoIterator<Item = (N, String)>) -> Self {
        Self(Arc::new(pairs.into_iter().map(|(name, value)| (name.into(), value)).collect()))
    }

    /// The facts of a past evaluation, to ask it again: what had no value then has none now.
    #[must_use]
    pub fn recorded(read: &[FactRead]) -> Self {
        let given = |fact: &FactRead| Some((fact.name.clone(), fact.value.clone()?));
        Self::from_pairs(read.iter().filter_map(given))
    }
}

/// Every fact there is, for one evaluation; of what was spent only if it was read.
#[must_use]
pub fn facts_for(rules: &Rules, key: Option<&CustodyKey>, spent: Option<&Spent>, now: EpochMs) -> Facts {
    let deployment = [
        ("deployment.permitted_recipients", rules.permitted_recipients.clone()),
        ("deployment.required_approvals", rules.required_approvals.to_string()),
        ("deployment.separation_of_duties", rules.separation_of_duties.to_string()),
        ("time.now_ms", now.0.to_string()),
    ];
    let key = key.map(|key| {
        [
            ("key.state", key.state.as_str().to_owned()),
            ("key.epoch", key.epoch.name.0.clone()),
            ("key.threshold", key.threshold.0.to_string()),
            ("key.roster", roster_text(key)),
        ]
    });
    let spent = spent.map(Spent::facts);
    Facts::from_pairs(
        deployment.into_iter().chain(key.into_iter().flatten()).chain(spent.into_iter().flatten()),
    )
}

/// Indices separated by commas, ascending.
fn roster_text(key: &CustodyKey) -> String {
    key.participants.iter().map(|index| index.to_string()).collect::<Vec<_>>().join(",")
}
