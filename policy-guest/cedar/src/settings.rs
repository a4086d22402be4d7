//! What the bundle's author sets besides the policies.

use gateway_policy_sdk::Data;
use serde::Deserialize;
use std::collections::BTreeMap;

const FILE: &str = "settings.json";

/// `data/settings.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The facts that `context.facts` has, each with what its text is to be read as. The manifest declares them too.
    #[serde(default)]
    pub(crate) facts: BTreeMap<String, Kind>,
    /// People who have to approve, when the deployment asks for fewer.
    #[serde(default)]
    pub(crate) required_approvals: u32,
}

/// What a fact is to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A decimal number of 64 bits with a sign.
    Long,
    /// `true` or `false`.
    Bool,
    /// The text as it is.
    String,
    /// Texts separated by commas, white space around them removed; empty ones do not count.
    Set,
}

impl Settings {
    /// # Errors
    /// What is wrong with the file. None at all is as good as `{}`.
    pub(crate) fn read(data: &dyn Data) -> Result<Self, String> {
        let Some(text) = data.get(FILE, "") else { return Ok(Self::default()) };
        // serde would take a list for a struct.
        if !text.starts_with('{') {
            return Err(format!("data/{FILE} is not an object"));
        }
        serde_json::from_str(&text).map_err(|fault| format!("data/{FILE} cannot be read: {fault}"))
    }
}
