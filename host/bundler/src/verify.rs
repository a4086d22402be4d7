//! `bundle verify`: whether a deployment with these trust roots would activate a bundle.

use crate::{Error, layout, source};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// A bundle that would be activated.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// Its name.
    pub bundle_id: String,
    /// Its version.
    pub version: String,
    /// Its place among its versions.
    pub sequence: u64,
    /// What a reviewer pins.
    pub bundle_hash: Hex32,
    /// Ids of the trusted keys that signed.
    pub signers: Vec<String>,
    /// Vectors that held.
    pub n_vectors: usize,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bundle_id, version, sequence, bundle_hash, signers, n_vectors } = self;
        writeln!(f, "bundle      {bundle_id} {version}, sequence {sequence}")?;
        writeln!(f, "bundle hash {bundle_hash}")?;
        writeln!(f, "signed by   {}", signers.join(" "))?;
        writeln!(f, "vectors     {n_vectors} hold")
    }
}

/// Exactly what activation does: signatures, pins, validity at `now`, the hash of every file, the imports, and the
/// bundle's vectors under the limits of production. `pins` is as the setting `policy_pins`.
///
/// # Errors
/// [`Error::Bundle`]: the first thing that does not hold.
pub fn verify(path: &Path, roots: &Path, pins: &str, now: EpochMs) -> Result<Verified, Error> {
    verify_files(source::read(path)?, roots, pins, now)
}

pub(crate) fn verify_files(
    files: BundleFiles,
    roots: &Path,
    pins: &str,
    now: EpochMs,
) -> Result<Verified, Error> {
    let trust = TrustPolicy::parse(&layout::read(roots)?)?;
    let bundle = Bundle::verify(files, &trust, &Pins::parse(pins)?, now)?;
    Evaluator::load(&PolicyEngine::new()?, &bundle)?;
    let manifest = bundle.manifest();
    Ok(Verified {
        bundle_id: manifest.bundle_id.clone(),
        version: manifest.version.clone(),
        sequence: manifest.sequence,
        bundle_hash: bundle.hash(),
        signers: bundle.signers().to_vec(),
        n_vectors: bundle.vectors()?.len(),
    })
}
