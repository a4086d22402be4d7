//! Loads a bundle without trusted signatures, for tools.
//!
//! A [`Bundle`] can only be loaded with signatures. So a tool signs a copy in memory with a temporary key, and trusts that key
//! alone. A draft is checked by the same rules as a signed bundle, and the temporary signature never leaves the process.

use crate::bundle::Error;
use ed25519_dalek::SigningKey;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::bundle::{MANIFEST_FILE, Manifest, is_signature, pack};
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use zeroize::Zeroizing;

/// A complete bundle, and its policy, compiled and linked. Loading does not evaluate the vectors.
#[derive(Debug)]
pub(crate) struct Trial {
    /// The bundle; its signature is the temporary one.
    pub(crate) bundle: Bundle,
    pub(crate) evaluator: Evaluator,
}

/// Loads the files as the gateway does, at a time when the bundle is valid. A draft (a bundle without signatures) is completed
/// in memory first, because its files may have changed since the last build.
pub(crate) fn load(engine: &PolicyEngine, files: &BundleFiles) -> Result<Trial, Error> {
    let is_draft = !files.iter().any(|(name, _)| is_signature(name));
    let files = if is_draft { pack::complete(engine, files)? } else { files.clone() };
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice()).map_err(|_| Error::NoRandomness)?;
    let bundle = sign_and_verify(&files, &SigningKey::from_bytes(&seed))?.1;
    let evaluator = Evaluator::link(engine, &bundle)?;
    Ok(Trial { bundle, evaluator })
}

/// Signs the manifest with `key`, and verifies the bundle with that signature only. Returns the signature's file and the bundle.
pub(crate) fn sign_and_verify(
    files: &BundleFiles,
    key: &SigningKey,
) -> Result<((String, Vec<u8>), Bundle), Error> {
    let signature = pack::sign(files, key)?;
    let files = files.only(|name| !is_signature(name)).with([signature.clone()])?;
    let valid_at = Manifest::parse(files.get(MANIFEST_FILE)?)?.not_before_ms.unwrap_or(0);
    let trust = TrustPolicy::of_one("trial", Hex32::new(key.verifying_key().to_bytes()));
    let bundle = Bundle::verify(files, &trust, &Pins::default(), EpochMs(valid_at))?;
    Ok((signature, bundle))
}
