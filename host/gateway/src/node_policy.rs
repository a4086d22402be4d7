//! The policy trust of the nodes: their trust roots and pins, read at the start and again when the file changes; and the bundles that
//! the gateway offers to them.

use crate::compose::StartError;
use crate::settings::{Profile, Settings};
use async_trait::async_trait;
use gateway_domain::canonical;
use gateway_domain::error_chain;
use gateway_domain::ids::Hex32;
use gateway_engine::Unavailable;
use gateway_policy::bundle::read_signed_file;
use gateway_policy::{BundleError, Pins, Trust};
use gateway_policy_host::Lifecycle;
use gateway_runtime::{BundleOffer, FindBundle};
use std::path::PathBuf;
use std::sync::Arc;

/// The nodes' trust, without roots until [`NodeTrust`] has read them.
#[must_use]
pub(crate) fn trust(settings: &Settings) -> Trust {
    Trust::new(settings.profile == Profile::Development)
}

/// The file of the nodes' trust roots.
#[derive(Debug)]
pub(crate) struct NodeTrust {
    file: PathBuf,
    pins: Pins,
    trust: Trust,
    /// Hash of the text that was read last, or of the error.
    fingerprint: Hex32,
}

impl NodeTrust {
    /// Reads the trust roots. While they cannot be read, nodes trust no bundle.
    ///
    /// # Errors
    /// [`StartError`] for pins that are not hashes.
    pub(crate) fn open(settings: &Settings, trust: Trust) -> Result<Self, StartError> {
        let pins = Pins::parse(&settings.policy.pins);
        let pins = pins.map_err(|error| StartError::new("policy pins", error))?;
        let file = settings.policy.trust_roots.clone();
        let mut opened = Self { file, pins, trust, fingerprint: Hex32::ZERO };
        opened.reload_if_changed();
        Ok(opened)
    }

    /// Reads the trust roots, and applies and logs a change.
    pub(crate) fn reload_if_changed(&mut self) {
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
                "the nodes' policy trust roots cannot be used; until they can, no bundle is trusted"
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

/// The bundles that are or were active in the gateway.
pub(crate) struct StoredBundles(pub(crate) Arc<Lifecycle>);

#[async_trait]
impl FindBundle for StoredBundles {
    async fn find(&self, bundle_hash: Hex32) -> Result<Option<BundleOffer>, Unavailable> {
        let found = self.0.stored_bundle(bundle_hash).await?;
        Ok(found.map(|(files, activation)| BundleOffer { files, activation }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::time::EpochMs;
    use gateway_policy::{BundleFiles, TrustedBundles};
    use std::fs;
    use std::path::Path;

    #[test]
    fn nodes_follow_changes_of_the_trust_roots_file() {
        let bundles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles");
        let files = BundleFiles::read(&bundles.join("payment-guard")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roots.json");
        let trust = Trust::new(true);
        let verifier = TrustedBundles::new(trust.clone(), Arc::default());
        let add = || verifier.add(files.clone(), None, EpochMs(0)).map(drop);
        let (pins, fingerprint) = (Pins::default(), Hex32::ZERO);
        let mut read = NodeTrust { file: file.clone(), pins, trust, fingerprint };
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
