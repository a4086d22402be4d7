//! Sources of key sets.

use crate::Provider;
use crate::jose::{KeySet, KeySetFault};
use crate::limits::KEY_SET_BYTES_MAX;
use crate::provider::ProviderFault;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// The source of an issuer's keys.
#[derive(Clone)]
pub enum KeySource {
    /// The identity provider publishes them at a URL.
    Provider(Provider),
    /// A file that the operator may replace at any time.
    File(PathBuf),
}

/// Why keys could not be fetched, for the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceFault {
    #[error(transparent)]
    Provider(#[from] ProviderFault),
    #[error("the key set cannot be read")]
    File(#[from] std::io::Error),
    #[error(transparent)]
    KeySet(#[from] KeySetFault),
}

impl KeySource {
    /// Fetches the current keys.
    pub(super) async fn fetch(&self) -> Result<KeySet, SourceFault> {
        let bytes = match self {
            Self::Provider(provider) => provider.get(KEY_SET_BYTES_MAX).await?,
            Self::File(path) => {
                let mut bytes = Vec::new();
                File::open(path)?.take(KEY_SET_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
                bytes
            }
        };
        Ok(KeySet::parse(&bytes)?)
    }
}
