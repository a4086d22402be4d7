//! `bundle sign`: signs a bundle that passes every other check.

use crate::bundle::key::{Key, PublicKey};
use crate::bundle::{Error, layout, source, trial};
use gateway_domain::ids::Hex32;
use gateway_policy::{BundleError, BundleFiles, Evaluator, PolicyEngine};
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::path::Path;

/// The report of `bundle sign`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Signed {
    /// SHA-256 of the canonical manifest, which the signature covers.
    pub(crate) bundle_hash: Hex32,
    pub(crate) file: String,
    #[serde(flatten)]
    pub(crate) key: PublicKey,
}

impl ToLines for Signed {
    fn add_to(&self, lines: &mut Lines) {
        lines.add(format_args!("bundle hash {}", self.bundle_hash));
        self.key.add_to(lines);
        lines.add(format_args!("wrote       {}", self.file));
    }
}

/// Signs the bundle at `path` after these checks of an activation: the hash of every file, the imports, and the bundle's vectors.
///
/// # Errors
/// [`Error::Bundle`] for a bundle that fails a check. Nothing is written then.
pub(crate) fn sign(path: &Path, key: &Key) -> Result<Signed, Error> {
    let folder = source::folder(path)?;
    let files = BundleFiles::read(&folder)?;
    let signed = trial::sign_and_verify(&files, &key.signing).map_err(|error| match error {
        Error::Bundle(
            stale
            @ (BundleError::Tampered { .. } | BundleError::UnknownFile(_) | BundleError::MissingFile(_)),
        ) => Error::Incomplete(Box::new(stale)),
        other => other,
    });
    let ((name, bytes), bundle) = signed?;
    Evaluator::load(&PolicyEngine::new()?, &bundle)?;
    layout::write(&folder.join(&name), &bytes)?;
    Ok(Signed { bundle_hash: bundle.hash(), file: name, key: key.public.clone() })
}
