//! Test vectors: a bundle's own requests with the expected verdicts. They run when the bundle is loaded.

use super::{BundleError, BundleFiles, strict};
use crate::fact_names::FactNames;
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{KeyRef, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::policy::{Decision, Facts, Moment, Outcome, Request, Statement};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A request with its expected verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// The name, for people.
    pub name: String,
    /// The request.
    pub input: VectorInput,
    /// The facts by name; the policy finds no others.
    pub facts: BTreeMap<String, String>,
    /// The expected verdict.
    pub expect: Expectation,
}

/// The request of a vector, without the intent hash, which is computed.
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

/// The expected verdict: the decision, the codes in order, and the quorum.
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

impl From<Outcome> for Expectation {
    fn from(outcome: Outcome) -> Self {
        let codes = |statements: Vec<Statement>| statements.into_iter().map(|it| it.code).collect();
        Self {
            decision: outcome.decision,
            reasons: codes(outcome.reasons),
            obligations: codes(outcome.obligations),
            subjects: outcome.quorum.subjects,
            required: outcome.quorum.required,
            satisfied: outcome.quorum.satisfied,
        }
    }
}

impl Vector {
    /// The request. `file` is the vector's file, for errors.
    ///
    /// # Errors
    /// [`BundleError::Canonical`] for an intent that has no hash.
    pub fn request(&self, file: &str) -> Result<Request<'_>, BundleError> {
        let input = &self.input;
        let hash = |source| BundleError::Canonical { file: file.to_owned(), source };
        Ok(Request {
            moment: input.moment,
            intent_hash: input.intent.hash().map_err(hash)?,
            tenant: &input.tenant,
            key_ref: &input.key_ref,
            submitter: &input.submitter,
            intent: &input.intent,
            approvals: &input.approvals,
        })
    }

    /// The first fact that the vector sets and `declared` does not have.
    pub(crate) fn undeclared_fact(&self, declared: &FactNames) -> Option<&str> {
        self.facts.keys().map(String::as_str).find(|name| !declared.contains(name))
    }

    /// The facts that the vector sets.
    ///
    /// # Errors
    /// [`BundleError::Json`] for a fact that the manifest does not declare.
    pub(crate) fn facts(&self, file: &str, declared: &FactNames) -> Result<Facts, BundleError> {
        match self.undeclared_fact(declared) {
            None => Ok(Facts::from_pairs(self.facts.clone())),
            Some(name) => Err(BundleError::Json {
                file: file.to_owned(),
                fault: format!("vector `{}` sets `{name}`, which the manifest does not declare", self.name),
            }),
        }
    }
}

/// All vectors, each with the name of its file.
pub(super) fn parse(files: &BundleFiles) -> Result<Vec<(String, Vector)>, BundleError> {
    let mut all = Vec::new();
    for (file, bytes) in files.iter().filter(|(name, _)| name.starts_with("tests/")) {
        let vectors: Vec<Vector> = strict::parse(file, bytes)?;
        all.extend(vectors.into_iter().map(|vector| (file.to_owned(), vector)));
    }
    Ok(all)
}
