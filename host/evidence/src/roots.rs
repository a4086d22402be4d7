//! What a reader believes before reading: `roots.json`, which must reach it by another way than the evidence.
//!
//! ```json
//! {
//!   "format": "svc/evidence-roots/v1",
//!   "authorities": ["<64 hexadecimal: Ed25519 public key>"],
//!   "nodes": { "0": "<64 hexadecimal: Ed25519 public key>" },
//!   "logs": ["<origin>+<key id>+<key>: a verifier key as C2SP's signed-note has it"],
//!   "keys": { "<key_id>": "<profile>:<public key>" },
//!   "bundles": ["<bundle_hash>"],
//!   "facts": { "<name of a policy's fact>": ["<a value that it may have had>"] },
//!   "approvers": { "format": "svc/approvers/v1", … },
//!   "signed_approvals": "required"
//! }
//! ```
//!
//! `keys`, `bundles`, `facts`, `approvers` and `signed_approvals` may be left out: then a document's own word for a public key is believed as far as the nodes'
//! and the log's signatures vouch for it, and any bundle that the authority named. Facts and approvers are then not checked.

use gateway_domain::approval::{Approvers, ApproversFile, RegistryError};
use gateway_domain::dsse::{EnvelopeError, KeySet};
use gateway_domain::ids::{Hex32, KeyId};
use gateway_domain::json::NotJson;
use gateway_domain::log::VerifierKey;
use gateway_domain::log::note::VerifierKeyError;
use gateway_domain::roster::ParticipantIndex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file's `format`.
pub const FORMAT: &str = "svc/evidence-roots/v1";

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootsFile {
    /// [`FORMAT`].
    pub format: String,
    /// Ed25519 public keys of admission authorities.
    pub authorities: Vec<Hex32>,
    /// Ed25519 public keys of the runtime nodes, by participant.
    pub nodes: BTreeMap<ParticipantIndex, Hex32>,
    /// Verifier keys of the log.
    pub logs: Vec<String>,
    /// The public keys of custody keys, where they are known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub keys: BTreeMap<KeyId, String>,
    /// The policy bundles that may decide; any when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub bundles: Vec<Hex32>,
    /// The policy facts that the reader knows: by name, each value that the fact may have had.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub facts: BTreeMap<String, Vec<String>>,
    /// The registry of the approvers, who sign their approvals.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approvers: Option<ApproversFile>,
    /// Whether an approval without a signature is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signed_approvals: Option<SignedApprovals>,
}

/// What the deployment settled on signed approvals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignedApprovals {
    /// Those that are signed are verified.
    Optional,
    /// An approval without a signature is none.
    Required,
}

/// The file, checked.
#[derive(Clone, Debug)]
pub struct Roots {
    pub(crate) authorities: KeySet,
    pub(crate) nodes: BTreeMap<ParticipantIndex, [u8; 32]>,
    pub(crate) logs: Vec<VerifierKey>,
    pub(crate) keys: BTreeMap<KeyId, String>,
    pub(crate) bundles: Vec<Hex32>,
    pub(crate) facts: BTreeMap<String, Vec<String>>,
    pub(crate) approvers: Option<Approvers>,
    pub(crate) requires_signatures: bool,
}

/// Why a roots file is of no use. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// Not JSON, or a name stands twice.
    #[error(transparent)]
    NotJson(#[from] NotJson),
    /// Not these members.
    #[error("not a roots file: {0}")]
    Shape(#[from] serde_json::Error),
    /// Another form.
    #[error("the roots file has format `{0}`; `{FORMAT}` is known here")]
    Format(String),
    /// Not a key.
    #[error("the authority's key is not one: {0}")]
    Authority(#[from] EnvelopeError),
    /// Not a registry of approvers.
    #[error("the approvers are not a registry: {0}")]
    Approvers(#[from] RegistryError),
    /// A demand that nothing can meet.
    #[error("`signed_approvals` is `required`, and there are no `approvers`")]
    NoApprovers,
    /// Not a verifier key.
    #[error("a key of the log is not one: {0}")]
    Log(#[from] VerifierKeyError),
}

impl Roots {
    /// Reads a roots file.
    ///
    /// # Errors
    /// [`RootsError`].
    pub fn parse(text: &[u8]) -> Result<Self, RootsError> {
        Self::new(serde_json::from_value(crate::parse(text)?)?)
    }

    /// As [`Self::parse`].
    ///
    /// # Errors
    /// [`RootsError`], but for what a text alone can be.
    pub fn new(file: RootsFile) -> Result<Self, RootsError> {
        if file.format != FORMAT {
            return Err(RootsError::Format(file.format));
        }
        let requires_signatures = file.signed_approvals == Some(SignedApprovals::Required);
        if requires_signatures && file.approvers.is_none() {
            return Err(RootsError::NoApprovers);
        }
        Ok(Self {
            authorities: KeySet::new(file.authorities.iter().map(|key| *key.as_bytes()))?,
            nodes: file.nodes.iter().map(|(node, key)| (*node, *key.as_bytes())).collect(),
            logs: file.logs.iter().map(|key| key.parse()).collect::<Result<_, _>>()?,
            keys: file.keys,
            bundles: file.bundles,
            facts: file.facts,
            approvers: file.approvers.map(Approvers::new).transpose()?,
            requires_signatures,
        })
    }
}
