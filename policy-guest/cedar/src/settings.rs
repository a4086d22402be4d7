//! The bundle's settings beside its policies.

use gateway_policy_sdk::Data;
use serde::Deserialize;
use std::collections::BTreeMap;

const FILE: &str = "settings.json";

/// `data/settings.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The facts in `context.facts`, each with the type that its text is read as. The manifest must declare them too.
    #[serde(default)]
    pub(crate) facts: BTreeMap<String, Kind>,
    /// Approvals required, if that is more than the deployment requires.
    #[serde(default)]
    pub(crate) required_approvals: u32,
}

/// The type of a fact in Cedar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A signed 64-bit decimal number.
    Long,
    /// `true` or `false`.
    Bool,
    /// The text unchanged.
    String,
    /// Comma-separated texts without surrounding white space; empty ones are dropped.
    Set,
}

impl Settings {
    /// # Errors
    /// What is wrong with the file. A missing file counts as `{}`.
    pub(crate) fn read(data: &dyn Data) -> Result<Self, String> {
        let Some(text) = data.get(FILE, "") else { return Ok(Self::default()) };
        // serde would also accept a list in place of an object.
        if !text.starts_with('{') {
            return Err(format!("data/{FILE} is not an object"));
        }
        serde_json::from_str(&text).map_err(|fault| format!("data/{FILE} cannot be read: {fault}"))
    }
}
