//! `bundle verify`: the checks of an activation that need no gateway: all but the sequence.

use crate::bundle::{Error, layout};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// The report of `bundle verify`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verified {
    /// The bundle's name.
    pub(crate) bundle_id: String,
    /// The bundle's version.
    pub(crate) version: String,
    /// The sequence number: a newer version has a higher one.
    pub(crate) sequence: u64,
    /// SHA-256 of the canonical manifest, which a reviewer pins.
    pub(crate) bundle_hash: Hex32,
    /// Ids of the trusted keys that signed.
    pub(crate) signers: Vec<String>,
    /// The number of vectors. All pass.
    pub(crate) n_vectors: usize,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bundle_id, version, sequence, bundle_hash, signers, n_vectors } = self;
        writeln!(f, "bundle      {bundle_id} {version}, sequence {sequence}")?;
        writeln!(f, "bundle hash {bundle_hash}")?;
        writeln!(f, "signed by   {}", signers.join(" "))?;
        writeln!(f, "vectors     {n_vectors} pass")
    }
}

/// Runs the checks of an activation: signatures, pins, validity at `now`, the hash of every file, the imports, and the
/// bundle's vectors under the limits of production. `pins` has the form of the setting `policy_pins`.
///
/// # Errors
/// [`Error::Bundle`] for the first check that fails.
pub(crate) fn verify(files: BundleFiles, roots: &Path, pins: &str, now: EpochMs) -> Result<Verified, Error> {
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
