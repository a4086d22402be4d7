//! The keys and values that a reader trusts: `roots.json`, which must come from another source than the evidence.
//!
//! ```json
//! {
//!   "format": "svc/evidence-roots/v1",
//!   "authorities": ["<64 hexadecimal: Ed25519 public key>"],
//!   "authority_threshold": 1,
//!   "nodes": { "0": "<64 hexadecimal: Ed25519 public key>" },
//!   "logs": ["<origin>+<key id>+<key>: a verifier key as in C2SP signed-note"],
//!   "keys": { "<key_id>": "<profile>:<public key>" },
//!   "bundles": ["<bundle_hash>"],
//!   "documents": [{ "role": "rates", "threshold": 1, "keys": ["<64 hexadecimal: Ed25519 public key>"] }],
//!   "facts": { "<name of a policy fact>": ["<an allowed value>"] },
//!   "approvers": { "format": "svc/approvers/v2", … },
//!   "signed_approvals": "required"
//! }
//! ```
//!
//! `authority_threshold`, `keys`, `bundles`, `documents`, `facts`, `approvers` and `signed_approvals` are optional. Without `keys`, a public key is
//! trusted because the nodes or the log signed for it. Without `bundles`, any bundle is accepted. Facts that are not
//! listed, and without `approvers` the signatures of approvals, are not checked.

use gateway_domain::admission::{Authorities, AuthoritiesError};
use gateway_domain::approval::{Approvers, ApproversFile, RegistryError};
use gateway_domain::dsse::Role;
use gateway_domain::ids::{Hex32, KeyId};
use gateway_domain::json::NotJson;
use gateway_domain::log::VerifierKey;
use gateway_domain::log::note::VerifierKeyError;
use gateway_domain::policy::document::{DocumentError, DocumentRoles};
use gateway_domain::roster::ParticipantIndex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The file's `format`.
pub const FORMAT: &str = "svc/evidence-roots/v1";

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootsFile {
    /// [`FORMAT`].
    pub format: String,
    /// Ed25519 public keys of admission authorities.
    pub authorities: Vec<Hex32>,
    /// How many of them must sign a decision; 1 if it is not given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub authority_threshold: Option<usize>,
    /// Ed25519 public keys of the runtime nodes, by participant.
    pub nodes: BTreeMap<ParticipantIndex, Hex32>,
    /// Verifier keys of the log.
    pub logs: Vec<String>,
    /// The public keys of custody keys that the reader knows.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub keys: BTreeMap<KeyId, String>,
    /// The policy bundles that may decide; empty allows any.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub bundles: Vec<Hex32>,
    /// Those who sign the documents that policies read: a role for each name.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub documents: Vec<Role>,
    /// The allowed values of policy facts, by name of the fact.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub facts: BTreeMap<String, Vec<String>>,
    /// The registry of approvers that sign their approvals.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approvers: Option<ApproversFile>,
    /// Whether approvals must be signed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signed_approvals: Option<SignedApprovals>,
}

/// The deployment's rule for signed approvals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignedApprovals {
    /// Signatures are verified where present.
    Optional,
    /// An approval without a signature is invalid.
    Required,
}

/// The checked content of a roots file.
#[derive(Clone, Debug)]
pub struct Roots {
    pub(crate) authorities: Authorities,
    pub(crate) nodes: BTreeMap<ParticipantIndex, [u8; 32]>,
    pub(crate) logs: Vec<VerifierKey>,
    pub(crate) keys: BTreeMap<KeyId, String>,
    pub(crate) bundles: Vec<Hex32>,
    pub(crate) documents: DocumentRoles,
    pub(crate) facts: BTreeMap<String, Vec<String>>,
    pub(crate) approvers: Option<Approvers>,
    pub(crate) requires_signatures: bool,
}

/// Why a roots file is invalid. Each error displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The file is not JSON, or has a duplicate member.
    #[error(transparent)]
    NotJson(#[from] NotJson),
    /// A member is missing, unknown or mistyped.
    #[error("not a roots file")]
    Shape(#[from] serde_json::Error),
    /// The file has another format.
    #[error("the roots file has format `{0}` instead of `{FORMAT}`")]
    Format(String),
    /// An authority key, or their threshold, is invalid.
    #[error("the authorities are invalid: {0}")]
    Authorities(#[from] AuthoritiesError),
    /// The registry of approvers is invalid.
    #[error("the registry of approvers is invalid: {0}")]
    Approvers(#[from] RegistryError),
    /// A role of documents is invalid.
    #[error("the roles of documents are invalid: {0}")]
    Documents(#[from] DocumentError),
    /// Signatures are required without approvers to verify them.
    #[error("`signed_approvals` is `required`, but there are no `approvers`")]
    NoApprovers,
    /// A verifier key of the log is invalid.
    #[error("a log key is invalid: {0}")]
    Log(#[from] VerifierKeyError),
}

impl Roots {
    /// Reads a roots file.
    pub fn parse(text: &[u8]) -> Result<Self, RootsError> {
        Self::new(serde_json::from_value(crate::parse(text)?)?)
    }

    /// Checks the content of a roots file.
    ///
    /// # Errors
    /// [`RootsError`], except [`RootsError::NotJson`] and [`RootsError::Shape`].
    pub fn new(file: RootsFile) -> Result<Self, RootsError> {
        if file.format != FORMAT {
            return Err(RootsError::Format(file.format));
        }
        let requires_signatures = file.signed_approvals == Some(SignedApprovals::Required);
        if requires_signatures && file.approvers.is_none() {
            return Err(RootsError::NoApprovers);
        }
        Ok(Self {
            authorities: Authorities::new(
                file.authorities.iter().map(|key| *key.as_bytes()),
                file.authority_threshold.unwrap_or(1),
            )?,
            nodes: file.nodes.iter().map(|(node, key)| (*node, *key.as_bytes())).collect(),
            logs: file.logs.iter().map(|key| key.parse()).collect::<Result<_, _>>()?,
            keys: file.keys,
            bundles: file.bundles,
            documents: DocumentRoles::new(&file.documents, &BTreeSet::new())?,
            facts: file.facts,
            approvers: file.approvers.map(Approvers::new).transpose()?,
            requires_signatures,
        })
    }
}
