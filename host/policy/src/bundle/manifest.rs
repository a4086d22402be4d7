//! The manifest: what a bundle's authors declare and sign.

use super::files::{is_allowed, is_plain};
use super::{BundleError, BundleFiles, MANIFEST_FILE, World, strict};
use crate::fact_names;
use crate::limits::{FUEL_MAX, MEMORY_BYTES_MAX};
use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// DSSE payload type of a signed manifest.
pub const PAYLOAD_TYPE: &str = "application/vnd.svc.policy-manifest.v1+json";

/// The content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The bundle's name, the same for every version.
    pub bundle_id: String,
    /// The version, for people.
    pub version: String,
    /// Rises with every release. A bundle with a lower one than the active is activated only by a signed activation record.
    pub sequence: u64,
    /// [`WORLD`](super::WORLD) or [`WASI_WORLD`](super::WASI_WORLD).
    pub world: String,
    /// First instant of validity, by the gateway's clock; absent for no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_before_ms: Option<u64>,
    /// Last instant of validity, by the gateway's clock; absent for no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_after_ms: Option<u64>,
    /// What one evaluation may use.
    pub limits: Limits,
    /// All imports of the component.
    pub capabilities: Vec<String>,
    /// The facts that the policy may read, ascending. An entry `prefix.*` stands for all facts whose names begin with `prefix.`.
    pub facts: Vec<String>,
    /// The codes that a reason may have.
    pub reasons: Vec<Declaration>,
    /// The codes that an obligation may have.
    pub obligations: Vec<Declaration>,
    /// SHA-256 of every file except the manifest and its signatures, by file name.
    pub files: BTreeMap<String, Hex32>,
}

/// What one evaluation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Wasm fuel, about one unit for each instruction.
    pub fuel: u64,
    /// Linear memory, in bytes.
    pub memory_bytes: u64,
}

/// A code of a reason or an obligation, with its explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// The code: lower case letters, digits and `_`.
    pub code: String,
    /// Its meaning, for people.
    pub text: String,
    /// Its severity.
    pub severity: Severity,
    /// What to do about it, for people; empty when there is nothing to do.
    pub remedy: String,
}

/// The severity of a reason or an obligation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A condition that is met.
    Info,
    /// Something that is still to be done.
    Warning,
    /// A reason for which the operation is denied.
    Error,
}

impl Manifest {
    /// Parses a manifest and checks its values. Does not check its signatures.
    ///
    /// # Errors
    /// [`BundleError`] for JSON that is not exactly a manifest, or for a value that is not allowed.
    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        let manifest: Self = strict::parse(MANIFEST_FILE, bytes)?;
        manifest.check_names()?;
        check_codes(&manifest.reasons)?;
        check_codes(&manifest.obligations)?;
        fact_names::check(&manifest.facts)?;
        let memory_bytes_max = u64::try_from(MEMORY_BYTES_MAX).unwrap_or(u64::MAX);
        check_limit("units of fuel", manifest.limits.fuel, FUEL_MAX)?;
        check_limit("bytes of memory", manifest.limits.memory_bytes, memory_bytes_max)?;
        Ok(manifest)
    }

    /// The bytes that are hashed and signed.
    ///
    /// # Errors
    /// [`BundleError::Canonical`], which does not occur for a parsed manifest.
    pub fn canonical_bytes(&self) -> Result<Vec<u8>, BundleError> {
        canonical::to_bytes(self)
            .map_err(|source| BundleError::Canonical { file: MANIFEST_FILE.to_owned(), source })
    }

    /// The bundle's hash: SHA-256 of the canonical bytes.
    pub fn hash(&self) -> Result<Hex32, BundleError> {
        Ok(canonical::digest_bytes("", &self.canonical_bytes()?))
    }

    pub(super) fn check_validity(&self, now: EpochMs) -> Result<(), BundleError> {
        match (self.not_before_ms, self.not_after_ms) {
            (Some(not_before_ms), _) if now.0 < not_before_ms => {
                Err(BundleError::NotYetValid { not_before_ms, now_ms: now.0 })
            }
            (_, Some(not_after_ms)) if now.0 > not_after_ms => {
                Err(BundleError::Expired { not_after_ms, now_ms: now.0 })
            }
            _ => Ok(()),
        }
    }

    fn check_names(&self) -> Result<(), BundleError> {
        World::parse(&self.world)?;
        if let Some(name) = [&self.bundle_id, &self.version].into_iter().find(|name| !is_plain(name)) {
            return Err(BundleError::Name(name.clone()));
        }
        match self.files.keys().find(|name| !is_allowed(name)) {
            Some(name) => Err(BundleError::FileName(name.clone())),
            None => Ok(()),
        }
    }
}

impl BundleFiles {
    /// The hash of the manifest, whose signatures are not verified.
    ///
    /// # Errors
    /// [`BundleError`] when there is no valid manifest.
    pub fn bundle_hash(&self) -> Result<Hex32, BundleError> {
        Manifest::parse(self.get(MANIFEST_FILE)?)?.hash()
    }

    /// Checks that the manifest lists exactly the files that are present, each with its hash.
    ///
    /// # Errors
    /// [`BundleError`] for the first file that differs, or when there is no valid manifest.
    pub fn check_listed(&self) -> Result<(), BundleError> {
        self.check_against(&Manifest::parse(self.get(MANIFEST_FILE)?)?.files)
    }
}

fn check_codes(declarations: &[Declaration]) -> Result<(), BundleError> {
    let mut seen = BTreeSet::new();
    for Declaration { code, .. } in declarations {
        let plain =
            code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !plain || !(1..=64).contains(&code.len()) || code.starts_with("policy_fault") {
            return Err(BundleError::Code(code.clone()));
        }
        if !seen.insert(code) {
            return Err(BundleError::DuplicateCode(code.clone()));
        }
    }
    Ok(())
}

fn check_limit(what: &'static str, requested: u64, max: u64) -> Result<(), BundleError> {
    if (1..=max).contains(&requested) { Ok(()) } else { Err(BundleError::Limit { what, requested, max }) }
}
