//! A bundle loaded for a tool, whoever signed it.
//!
//! There is one way to a [`Bundle`], and it wants signatures. A tool takes it like everybody else: it signs a copy in
//! memory with a key that exists for that call, and trusts that key alone. So a draft is held to every rule that a
//! signed bundle is held to, and nothing that leaves this process is signed.

use crate::Error;
use ed25519_dalek::SigningKey;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::bundle::{MANIFEST_FILE, Manifest, is_signature, pack};
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use zeroize::Zeroizing;

/// A bundle that is whole, and its policy, compiled and linked. Its vectors have not been run.
#[derive(Debug)]
pub struct Trial {
    /// The bundle. Its signer is of no meaning.
    pub bundle: Bundle,
    /// Its policy.
    pub evaluator: Evaluator,
}

/// Loads the files as production would, at an instant at which the bundle is valid. A draft, which is a bundle
/// without signatures, is completed in memory first: its author has changed files since the last build.
///
/// # Errors
/// [`Error::Bundle`]: the first thing that does not hold.
pub fn load(engine: &PolicyEngine, files: &BundleFiles) -> Result<Trial, Error> {
    let is_draft = !files.iter().any(|(name, _)| is_signature(name));
    let files = if is_draft { pack::complete(engine, files)? } else { files.clone() };
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice()).map_err(|_| Error::NoRandomness)?;
    let bundle = signed_by(&files, &SigningKey::from_bytes(&seed))?.1;
    let evaluator = Evaluator::link(engine, &bundle)?;
    Ok(Trial { bundle, evaluator })
}

/// The signature file of `key` over the manifest, and the bundle with that signature and no other.
pub(crate) fn signed_by(files: &BundleFiles, key: &SigningKey) -> Result<((String, Vec<u8>), Bundle), Error> {
    let signature = pack::sign(files, key)?;
    let files = files.only(|name| !is_signature(name)).with([signature.clone()])?;
    let valid_at = Manifest::parse(files.get(MANIFEST_FILE)?)?.not_before_ms.unwrap_or(0);
    let trust = TrustPolicy::of_one("trial", Hex32::new(key.verifying_key().to_bytes()));
    let bundle = Bundle::verify(files, &trust, &Pins::default(), EpochMs(valid_at))?;
    Ok((signature, bundle))
}
