//! `bundle sign`: a signature over a bundle that holds.

use crate::key::{Key, PublicKey};
use crate::{Error, layout, source, trial};
use gateway_domain::ids::Hex32;
use gateway_policy::{BundleFiles, Evaluator, PolicyEngine};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// What was signed, and by whom.
#[derive(Clone, Debug, Serialize)]
pub struct Signed {
    /// What a reviewer pins.
    pub bundle_hash: Hex32,
    /// The file that was written.
    pub file: String,
    /// The signer.
    #[serde(flatten)]
    pub key: PublicKey,
}

impl fmt::Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "bundle hash {}", self.bundle_hash)?;
        write!(f, "{}", self.key)?;
        writeln!(f, "wrote       {}", self.file)
    }
}

/// Signs the bundle at `path`, after everything was checked that activation checks but the signatures of others: the
/// hash of every file, the imports, and the bundle's own vectors.
///
/// # Errors
/// [`Error::Bundle`] for a bundle that would be refused, and nothing is written then.
pub fn sign(path: &Path, key: &Key) -> Result<Signed, Error> {
    let folder = source::folder(path)?;
    let files = BundleFiles::read(&folder)?;
    let ((name, bytes), bundle) = trial::signed_by(&files, &key.signing)?;
    Evaluator::load(&PolicyEngine::new()?, &bundle)?;
    layout::write(&folder.join(&name), &bytes)?;
    Ok(Signed { bundle_hash: bundle.hash(), file: name, key: key.public.clone() })
}
