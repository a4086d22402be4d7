//! `bundle sign`: signs a bundle that passes every other check.

use crate::bundle::key::{Key, PublicKey};
use crate::bundle::{Error, layout, source, trial};
use gateway_domain::ids::Hex32;
use gateway_policy::{BundleFiles, Evaluator, PolicyEngine};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// A signature that was written.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Signed {
    /// SHA-256 of the canonical manifest, which the signature covers.
    pub(crate) bundle_hash: Hex32,
    /// The name of the signature's file.
    pub(crate) file: String,
    /// The signer's key.
    #[serde(flatten)]
    pub(crate) key: PublicKey,
}

impl fmt::Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "bundle hash {}", self.bundle_hash)?;
        write!(f, "{}", self.key)?;
        writeln!(f, "wrote       {}", self.file)
    }
}

/// Signs the bundle at `path` after the checks of an activation except other signatures: the hash of every file, the imports,
/// and the bundle's vectors.
///
/// # Errors
/// [`Error::Bundle`] for a bundle that would be refused. Nothing is written then.
pub(crate) fn sign(path: &Path, key: &Key) -> Result<Signed, Error> {
    let folder = source::folder(path)?;
    let files = BundleFiles::read(&folder)?;
    let ((name, bytes), bundle) = trial::signed_by(&files, &key.signing)?;
    Evaluator::load(&PolicyEngine::new()?, &bundle)?;
    layout::write(&folder.join(&name), &bytes)?;
    Ok(Signed { bundle_hash: bundle.hash(), file: name, key: key.public.clone() })
}
