//! Test vectors: a bundle's own requests with the expected verdicts. They run when the bundle is loaded.

use super::{BundleError, BundleFiles, strict};
use crate::calendar;
use crate::fact_names::FactNames;
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{KeyRef, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::policy::document::{self, Document, DocumentError};
use gateway_domain::policy::{Decision, Facts, Moment, Outcome, Request, SignedDocument, Statement};
use gateway_domain::time::EpochMs;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

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
    /// The content of each document by name; the policy finds no others.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub documents: BTreeMap<String, Value>,
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

/// For people.
impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { decision, reasons, obligations, subjects, required, satisfied } = self;
        let (reasons, obligations, subjects) = (reasons.join(" "), obligations.join(" "), subjects.join(" "));
        let (decision, reached) = (decision.as_str(), if *satisfied { "reached" } else { "not reached" });
        write!(
            f,
            "{decision}, reasons [{reasons}], obligations [{obligations}], quorum [{subjects}] of {required} {reached}"
        )
    }
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

    /// The first fact or document that the vector sets and `declared` does not have.
    pub(crate) fn undeclared_fact(&self, declared: &FactNames) -> Option<String> {
        let documents = self.documents.keys().map(|name| format!("{}{name}", document::PREFIX));
        self.facts.keys().cloned().chain(documents).find(|name| !declared.contains(name))
    }

    /// The documents that the vector sets, which never expire.
    fn signed_documents(&self) -> Result<Vec<Arc<SignedDocument>>, DocumentError> {
        let unsigned = |(name, content): (&String, &Value)| {
            let (name, content) = (name.clone(), content.clone());
            let document = Document { name, sequence: 1, not_after_ms: EpochMs(u64::MAX), content };
            SignedDocument::unsigned(document).map(Arc::new)
        };
        self.documents.iter().map(unsigned).collect()
    }

    /// The facts that the vector sets.
    ///
    /// # Errors
    /// [`BundleError::Json`] for a fact that the manifest does not declare.
    pub(crate) fn facts(&self, file: &str, declared: &FactNames) -> Result<Facts, BundleError> {
        let fault = |name: &str, why: &str| BundleError::Json {
            file: file.to_owned(),
            fault: format!("vector `{}` sets `{name}`, which {why}", self.name),
        };
        if let Some(name) = self.undeclared_fact(declared) {
            return Err(fault(&name, "the manifest does not declare"));
        }
        if let Some(name) = self.facts.keys().find(|name| calendar::is_offered(name)) {
            return Err(fault(name, "follows from `time.now_ms`: set that"));
        }
        if let Some(name) = self.facts.keys().find(|name| name.starts_with(document::PREFIX)) {
            return Err(fault(name, "follows from a document: set its content in `documents`"));
        }
        let documents = self
            .signed_documents()
            .map_err(|error| fault("documents", &format!("cannot be used: {error}")))?;
        Ok(Facts::from_pairs(self.facts.clone()).with_documents(&documents, EpochMs(0)))
    }
}

/// All vectors, each with the name of its file.
pub(super) fn parse(files: &BundleFiles) -> Result<Vec<(String, Vector)>, BundleError> {
    let mut all = Vec::new();
    for (file, bytes) in files.iter().filter(|(name, _)| name.starts_with("tests/")) {
        let vectors: Vec<Value> = strict::parse(file, bytes)?;
        for (index, value) in vectors.into_iter().enumerate() {
            let name = value.get("name").and_then(Value::as_str).unwrap_or("without a name").to_owned();
            let vector = strict::typed(file, value).map_err(|error| in_vector(error, index, &name))?;
            all.push((file.to_owned(), vector));
        }
    }
    Ok(all)
}

/// The error with the vector that it is about.
fn in_vector(error: BundleError, index: usize, name: &str) -> BundleError {
    match error {
        BundleError::Json { file, fault } => {
            BundleError::Json { file, fault: format!("vector {index} (`{name}`): {fault}") }
        }
        BundleError::NotStrict { file, pointer } => {
            BundleError::NotStrict { file, pointer: format!("/{index}{pointer}") }
        }
        other => other,
    }
}
