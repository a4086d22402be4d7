//! A bundle's own tests: requests with the answers its authors promise. They run when it is loaded.

use super::{BundleError, BundleFiles, strict};
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{KeyRef, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::policy::{Decision, Facts, Moment};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The facts a vector may set: those of `wit/policy.wit`.
const FACT_NAMES: [&str; 8] = [
    "deployment.permitted_recipients",
    "deployment.required_approvals",
    "deployment.separation_of_duties",
    "key.epoch",
    "key.roster",
    "key.state",
    "key.threshold",
    "time.now_ms",
];

/// One request and the answer promised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// What it shows.
    pub name: String,
    /// The request.
    pub input: VectorInput,
    /// The deployment's facts.
    pub facts: BTreeMap<String, String>,
    /// The answer.
    pub expect: Expectation,
}

/// A request to the policy; its intent hash follows from the intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields of gateway_domain::policy::Request")]
pub struct VectorInput {
    pub moment: Moment,
    pub tenant: Tenant,
    pub key_ref: KeyRef,
    pub submitter: ClientBinding,
    pub intent: Intent,
    pub approvals: Vec<Approval>,
}

/// What a verdict must be: codes in order, and who counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields of gateway_domain::policy::Outcome")]
pub struct Expectation {
    pub decision: Decision,
    pub reasons: Vec<String>,
    pub obligations: Vec<String>,
    pub subjects: Vec<String>,
    pub required: u32,
    pub satisfied: bool,
}

impl Vector {
    /// The facts by the names the contract gives them.
    pub(crate) fn facts(&self, file: &str) -> Result<Facts, BundleError> {
        let known = |name: &String| FACT_NAMES.into_iter().find(|known| known == name);
        let unknown = |name: &String| BundleError::Json {
            file: file.to_owned(),
            fault: format!("vector `{}` sets `{name}`, which is no fact", self.name),
        };
        let pair = |(name, value): (&String, &String)| {
            known(name).map(|known| (known, value.clone())).ok_or_else(|| unknown(name))
        };
        self.facts.iter().map(pair).collect::<Result<Vec<_>, _>>().map(Facts::from_pairs)
    }
}

/// All vectors, each with the file it is from.
pub(super) fn parse(files: &BundleFiles) -> Result<Vec<(String, Vector)>, BundleError> {
    let mut all = Vec::new();
    for (file, bytes) in files.iter().filter(|(name, _)| name.starts_with("tests/")) {
        let vectors: Vec<Vector> = strict::parse(file, bytes)?;
        all.extend(vectors.into_iter().map(|vector| (file.to_owned(), vector)));
    }
    Ok(all)
}
