//! `bundle verify`: the checks of an activation. The sequence is compared with the active bundle's, if the caller knows it.

use crate::bundle::{Error, layout, source};
use clap::Args;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::bundle::{MANIFEST_FILE, Manifest};
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct Trust {
    /// The gateway's setting policy_trust_roots
    #[arg(long = "trust", value_name = "ROOTS")]
    pub(super) roots: PathBuf,
    /// The gateway's setting policy_pins: the bundle hashes that are allowed
    #[arg(long = "pin", value_name = "HASH,...", default_value = "", hide_default_value = true)]
    pub(super) pins: String,
}

/// The report of `bundle verify`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verified {
    pub(crate) bundle_id: String,
    pub(crate) version: String,
    /// The sequence number: a newer version has a higher one.
    pub(crate) sequence: u64,
    /// SHA-256 of the canonical manifest, which a reviewer pins.
    pub(crate) bundle_hash: Hex32,
    /// Ids of the trusted keys that signed.
    pub(crate) signers: Vec<String>,
    /// The number of vectors. All pass.
    pub(crate) n_vectors: usize,
    /// The last activation, which the bundle may follow; absent if none was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) follows: Option<LastActivation>,
}

/// The last activation of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LastActivation {
    /// Its sequence: that of the bundle, or of the rollback record.
    pub(crate) sequence: u64,
    /// Hash of the bundle that it activated.
    pub(crate) bundle_hash: Hex32,
}

impl LastActivation {
    /// The activation of the bundle at `path`, whose signatures are not verified.
    pub(crate) fn of_bundle(path: &Path) -> Result<Self, Error> {
        let manifest = Manifest::parse(source::read(path)?.get(MANIFEST_FILE)?)?;
        Ok(Self { sequence: manifest.sequence, bundle_hash: manifest.hash()? })
    }
}

impl ToLines for Verified {
    fn add_to(&self, lines: &mut Lines) {
        let Self { bundle_id, version, sequence, bundle_hash, signers, n_vectors, follows } = self;
        lines.add(format_args!("bundle      {bundle_id} {version}, sequence {sequence}"));
        lines.add(format_args!("bundle hash {bundle_hash}"));
        lines.add(format_args!("signed by   {}", signers.join(" ")));
        lines.add(format_args!("vectors     {n_vectors} pass"));
        match follows {
            Some(LastActivation { bundle_hash: active, .. }) if active == bundle_hash => {
                lines.add(format_args!("follows     itself: it is the active bundle"));
            }
            Some(LastActivation { sequence, .. }) => {
                lines.add(format_args!("follows     sequence {sequence}"))
            }
            None => {}
        }
    }
}

/// Runs the checks of an activation: signatures, pins, validity at `now`, the hash of every file, the imports, and the
/// bundle's vectors under the limits of production. `pins` has the form of the setting `policy_pins`. `last` is the gateway's last
/// activation, above whose sequence the bundle's must be; `None` skips this comparison.
pub(crate) fn verify(
    files: BundleFiles,
    Trust { roots, pins }: &Trust,
    last: Option<LastActivation>,
    now: EpochMs,
) -> Result<Verified, Error> {
    let trust = TrustPolicy::parse(&layout::read(roots)?)?;
    let bundle = Bundle::verify(files, &trust, &Pins::parse(pins)?, now)?;
    bundle.check_follows(last.map(|last| (last.sequence, last.bundle_hash)))?;
    Evaluator::load(&PolicyEngine::new()?, &bundle)?;
    let manifest = bundle.manifest();
    Ok(Verified {
        bundle_id: manifest.bundle_id.clone(),
        version: manifest.version.clone(),
        sequence: manifest.sequence,
        bundle_hash: bundle.hash(),
        signers: bundle.signers().to_vec(),
        n_vectors: bundle.vectors()?.len(),
        follows: last,
    })
}
