//! The file of trust roots of a node or of the authority: read at the start, and again when it changes.

use crate::bundle::read_signed_file;
use crate::{BundleError, Pins, Trust};
use gateway_domain::ids::Hex32;
use gateway_domain::{canonical, error_chain};
use std::path::PathBuf;

/// The file of trust roots, and what they are read into.
#[derive(Debug)]
pub struct TrustFile {
    file: PathBuf,
    pins: Pins,
    trust: Trust,
    /// Hash of the text that was read last, or of the error.
    fingerprint: Hex32,
}

impl TrustFile {
    /// Reads the trust roots into `trust`. While they cannot be read, no bundle is trusted.
    #[must_use]
    pub fn open(file: PathBuf, pins: Pins, trust: Trust) -> Self {
        let mut opened = Self { file, pins, trust, fingerprint: Hex32::ZERO };
        opened.reload_if_changed();
        opened
    }

    /// Reads the trust roots, and applies and logs a change.
    pub fn reload_if_changed(&mut self) {
        let text = read_signed_file(&self.file, "trust roots");
        let fingerprint = fingerprint(&text);
        if fingerprint == self.fingerprint {
            return;
        }
        self.fingerprint = fingerprint;
        let replaced = match &text {
            Ok(text) => self.trust.replace(Ok(text), self.pins.clone()),
            Err(_) => self.trust.replace(Err(BundleError::NoTrustRoots), self.pins.clone()),
        };
        if let Err(error) = text.map(drop).and(replaced) {
            let error = error_chain(&error);
            tracing::error!(
                error,
                "the policy trust roots cannot be used; until they can, no bundle is trusted"
            );
        }
    }
}

fn fingerprint(text: &Result<Vec<u8>, BundleError>) -> Hex32 {
    match text {
        Ok(text) => canonical::digest_bytes("", text),
        Err(why) => canonical::digest_bytes("svc/unreadable/v1", why.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BundleFiles, TrustedBundles};
    use gateway_domain::time::EpochMs;
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn bundles_follow_changes_of_the_trust_roots_file() {
        let bundles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles");
        let files = BundleFiles::read(&bundles.join("payment-guard")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roots.json");
        let trust = Trust::new(true);
        let verifier = TrustedBundles::new(trust.clone(), Arc::default());
        let add = || verifier.add(files.clone(), None, EpochMs(0)).map(drop);
        let (pins, fingerprint) = (Pins::default(), Hex32::ZERO);
        let mut read = TrustFile { file: file.clone(), pins, trust, fingerprint };
        read.reload_if_changed();
        assert!(matches!(add(), Err(BundleError::NoTrustRoots)), "there is no file");
        let roots = fs::read_to_string(bundles.join("trust-development.json")).unwrap();
        fs::write(&file, &roots).unwrap();
        assert!(add().is_err(), "not read yet");
        read.reload_if_changed();
        add().unwrap();
        fs::write(&file, "{}").unwrap();
        read.reload_if_changed();
        assert!(matches!(add(), Err(BundleError::NoTrustRoots)));
        fs::write(&file, &roots).unwrap();
        read.reload_if_changed();
        add().unwrap();
    }
}
