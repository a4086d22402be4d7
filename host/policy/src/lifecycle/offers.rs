//! What a deployment offers: files, read in one go, with nothing believed of them.

use crate::bundle::{BundleError, BundleFiles, Pins};
use crate::limits::SIGNED_FILE_BYTES_MAX;
use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Where a deployment's policy comes from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Folder of the bundle that is to be active.
    pub bundle: PathBuf,
    /// Whose signatures count.
    pub trust_roots: PathBuf,
    /// An activation record; there need not be one.
    pub activation: Option<PathBuf>,
    /// Folder of the bundle that is to look on; there need not be one.
    pub candidate: Option<PathBuf>,
    /// Bundles allowed besides their signatures.
    pub pins: Pins,
    /// Whether the committed development key may be trusted.
    pub allows_development: bool,
}

/// Content that was read, or the error, with a fingerprint to notice changes.
pub(super) struct Offer<T> {
    pub(super) content: Result<T, BundleError>,
    pub(super) fingerprint: Hex32,
}

/// Everything that is offered at one moment.
pub(super) struct Offers {
    pub(super) trust_roots: Offer<Vec<u8>>,
    pub(super) bundle: Offer<BundleFiles>,
    pub(super) activation: Option<Offer<Vec<u8>>>,
    pub(super) candidate: Option<Offer<BundleFiles>>,
}

impl Sources {
    pub(super) fn read(&self) -> Offers {
        let present = |path: &&PathBuf| path.exists();
        Offers {
            trust_roots: read_file(&self.trust_roots, "trust roots"),
            bundle: read_bundle(&self.bundle),
            activation: self
                .activation
                .as_ref()
                .filter(present)
                .map(|path| read_file(path, "activation record")),
            candidate: self.candidate.as_ref().filter(present).map(|path| read_bundle(path)),
        }
    }
}

impl<T> Offer<T> {
    fn of(content: Result<T, BundleError>, fingerprint: impl FnOnce(&T) -> Hex32) -> Self {
        let fingerprint = match &content {
            Ok(content) => fingerprint(content),
            Err(why) => canonical::digest_bytes("svc/unreadable/v1", why.to_string().as_bytes()),
        };
        Self { content, fingerprint }
    }
}

pub(super) fn read_bundle(folder: &Path) -> Offer<BundleFiles> {
    Offer::of(BundleFiles::read(folder), BundleFiles::fingerprint)
}

pub(super) fn read_file(path: &Path, what: &str) -> Offer<Vec<u8>> {
    let read = || -> io::Result<Vec<u8>> {
        // Reading a pipe would block every later reload.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(SIGNED_FILE_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let content = match read() {
        Ok(bytes) if bytes.len() as u64 > SIGNED_FILE_BYTES_MAX => {
            Err(BundleError::FileTooLarge { file: what.to_owned(), bytes_max: SIGNED_FILE_BYTES_MAX })
        }
        Ok(bytes) => Ok(bytes),
        Err(source) => Err(BundleError::Read { path: what.to_owned(), source }),
    };
    Offer::of(content, |bytes| canonical::digest_bytes("", bytes))
}

/// When an offer was last considered.
#[derive(Default)]
pub(super) struct Seen {
    fingerprint: Option<Hex32>,
    retry_at: Option<EpochMs>,
}

impl Seen {
    /// Whether the offer has to be considered, and marks it as considered.
    pub(super) fn is_due(&mut self, fingerprint: Hex32, now: EpochMs, again: bool) -> bool {
        let is_same = self.fingerprint.replace(fingerprint) == Some(fingerprint);
        let is_time = self.retry_at.take_if(|at| now >= *at).is_some();
        again || !is_same || is_time
    }

    /// Forgets the offer, so that the next reload considers it again: the obstacle was not the offer's.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Considers the same offer again at this instant.
    pub(super) fn retry_at(&mut self, at: EpochMs) {
        self.retry_at = Some(at);
    }
}
