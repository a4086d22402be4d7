//! Signed bundles: the form in which policies are shipped, and the checks before any of a bundle's code runs.
//!
//! [`Bundle::verify`] is the only way to a [`Bundle`], and no switch makes it skip a step.

mod activation;
mod archive;
mod error;
mod files;
mod manifest;
pub mod pack;
mod strict;
mod trust;
mod vectors;
mod world;

pub use activation::{
    ACTIVATION_PAYLOAD_TYPE, ActivationRecord, REASON_BYTES_MAX, SignedActivation, signature,
};
pub use error::{BundleError, EngineError};
pub use files::{BundleFiles, COMPONENT_FILE, MANIFEST_FILE, SOURCE_BUNDLE, is_signature, read_signed_file};
pub use manifest::{Declaration, Limits, Manifest, PAYLOAD_TYPE, Severity};
pub use trust::{DEVELOPMENT_ROLE, Pins, TrustPolicy};
pub use vectors::{Expectation, Vector, VectorInput};
pub use world::{WASI_WORLD, WORLD, World};

use crate::limits::SEQUENCE_MAX;
use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use std::collections::BTreeMap;

/// A bundle that passed [`Bundle::verify`].
#[derive(Clone, Debug)]
pub struct Bundle {
    // INVARIANT: private, so that only `verify` makes one.
    manifest: Manifest,
    hash: Hex32,
    files: BundleFiles,
    signers: Vec<String>,
}

impl Bundle {
    /// Checks the manifest, the signatures of every role, pins, validity, and each file's hash. Does not compile the component.
    pub fn verify(
        files: BundleFiles,
        trust: &TrustPolicy,
        pins: &Pins,
        now: EpochMs,
    ) -> Result<Self, BundleError> {
        let manifest = Manifest::parse(files.get(MANIFEST_FILE)?)?;
        let canonical = manifest.canonical_bytes()?;
        let hash = canonical::digest_bytes("", &canonical);
        let signers = trust.check(PAYLOAD_TYPE, &canonical, files.signatures())?;
        pins.check(hash)?;
        manifest.check_validity(now)?;
        files.check_against(&manifest.files)?;
        Ok(Self { manifest, hash, files, signers })
    }

    /// Checks signatures and pins again, with trust roots or pins that may have changed.
    pub fn check_trust(&self, trust: &TrustPolicy, pins: &Pins) -> Result<(), BundleError> {
        trust.check(PAYLOAD_TYPE, &self.manifest.canonical_bytes()?, self.files.signatures())?;
        pins.check(self.hash)
    }

    /// Checks the manifest's validity period.
    ///
    /// # Errors
    /// [`BundleError::NotYetValid`] or [`BundleError::Expired`].
    pub fn check_validity(&self, now: EpochMs) -> Result<(), BundleError> {
        self.manifest.check_validity(now)
    }

    /// The manifest.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// SHA-256 of the canonical manifest, which contains the hash of every other file except the signatures.
    #[must_use]
    pub const fn hash(&self) -> Hex32 {
        self.hash
    }

    /// Ids of the trusted keys whose signatures were counted, ascending.
    #[must_use]
    pub fn signers(&self) -> &[String] {
        &self.signers
    }

    /// The component's bytes.
    ///
    /// # Errors
    /// [`BundleError::MissingFile`] when the bundle has none.
    pub fn component(&self) -> Result<&[u8], BundleError> {
        self.files.get(COMPONENT_FILE)
    }

    /// The bundle's own test vectors, each with the name of its file.
    ///
    /// # Errors
    /// [`BundleError::Json`] for a file that is not a list of vectors.
    pub fn vectors(&self) -> Result<Vec<(String, Vector)>, BundleError> {
        vectors::parse(&self.files)
    }

    /// The policy's own data, by file name without the folder. A `.cedar` file is one string.
    ///
    /// # Errors
    /// [`BundleError::Json`] or [`BundleError::DuplicateKey`] for a file that is not valid JSON; [`BundleError::NotText`].
    pub fn data(&self) -> Result<BTreeMap<String, serde_json::Value>, BundleError> {
        self.files.documents()
    }

    /// All files, to be stored. A bundle that is read from the store is verified again.
    #[must_use]
    pub const fn files(&self) -> &BundleFiles {
        &self.files
    }

    /// Checks that this bundle may become active after the last activation: its sequence must be higher, unless the last activation
    /// was of the same bundle. `last` has the sequence of that activation and the hash of its bundle.
    ///
    /// # Errors
    /// [`BundleError::Rollback`], or [`BundleError::Sequence`] for a sequence above the limit.
    pub fn check_follows(&self, last: Option<(u64, Hex32)>) -> Result<(), BundleError> {
        let reached = last.filter(|(_, hash)| *hash != self.hash).map(|(sequence, _)| sequence);
        check_rises(self.manifest.sequence, reached)
    }
}

/// Checks that the offered sequence is within the limit and higher than the one that was reached.
///
/// # Errors
/// [`BundleError::Sequence`] or [`BundleError::Rollback`].
pub fn check_rises(offered: u64, reached: Option<u64>) -> Result<(), BundleError> {
    if offered > SEQUENCE_MAX {
        return Err(BundleError::Sequence { offered });
    }
    match reached {
        Some(reached) if reached >= offered => Err(BundleError::Rollback { offered, reached }),
        Some(_) | None => Ok(()),
    }
}
