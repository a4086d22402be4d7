//! Reads the operator's files, without verifying them.

use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::document::DOCUMENTS_MAX;
use gateway_domain::time::EpochMs;
use gateway_policy::bundle::read_signed_file;
use gateway_policy::{BundleError, BundleFiles, Pins};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The files that determine a deployment's policy.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The folder of the bundle to activate.
    pub bundle: PathBuf,
    /// The file of trust roots.
    pub trust_roots: PathBuf,
    /// The path of an activation record. The file need not exist.
    pub activation: Option<PathBuf>,
    /// The folder of the candidate bundle, which is evaluated without effect. It need not exist.
    pub candidate: Option<PathBuf>,
    /// The folder of signed documents. It need not exist.
    pub documents: Option<PathBuf>,
    /// The hashes of the only bundles that are allowed, if there are any.
    pub pins: Pins,
    /// Whether the committed development key may be trusted.
    pub allows_development: bool,
}

/// The content of a file or folder, or the error of reading it, with a fingerprint to notice changes.
pub(super) struct Offer<T> {
    pub(super) content: Result<T, BundleError>,
    pub(super) fingerprint: Hex32,
}

/// All offers, read at one time.
pub(super) struct Offers {
    pub(super) trust_roots: Offer<Vec<u8>>,
    pub(super) bundle: Offer<BundleFiles>,
    pub(super) activation: Option<Offer<Vec<u8>>>,
    pub(super) candidate: Option<Offer<BundleFiles>>,
    pub(super) documents: Option<Offer<Files>>,
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
            documents: self.documents.as_ref().filter(present).map(|path| read_documents(path)),
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
    Offer::of(read_signed_file(path, what), |bytes| canonical::digest_bytes("", bytes))
}

/// The files of the folder of documents, by the name of their document.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Reads the folder of documents. Files with another ending are not read.
fn read_documents(folder: &Path) -> Offer<Files> {
    let read = || {
        let unreadable = |source: io::Error| BundleError::Read { path: "documents".to_owned(), source };
        let mut files = Files::new();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json"));
            let Some(name) = name.filter(|name| !name.starts_with('.')) else { continue };
            if files.len() >= DOCUMENTS_MAX {
                let many = format!("it has more than {DOCUMENTS_MAX} documents");
                return Err(unreadable(io::Error::other(many)));
            }
            files.insert(name.to_owned(), read_signed_file(&path, name)?);
        }
        Ok(files)
    };
    Offer::of(read(), |files| {
        let hashes =
            files.iter().map(|(name, bytes)| format!("{name} {}\n", canonical::digest_bytes("", bytes)));
        canonical::digest_bytes("", hashes.collect::<String>().as_bytes())
    })
}

/// The offer that was considered last, and when to consider it again.
#[derive(Default)]
pub(super) struct Seen {
    fingerprint: Option<Hex32>,
    retry_at: Option<EpochMs>,
}

impl Seen {
    /// Whether to consider the offer: if it changed, its time to retry has come, or `again` is set. Marks it as considered.
    pub(super) fn is_due(&mut self, fingerprint: Hex32, now: EpochMs, again: bool) -> bool {
        let is_same = self.fingerprint.replace(fingerprint) == Some(fingerprint);
        let is_time = self.retry_at.take_if(|at| now >= *at).is_some();
        again || !is_same || is_time
    }

    /// Forgets the offer, so that the next reload considers it again.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Makes the same offer due again at this time.
    pub(super) fn retry_at(&mut self, at: EpochMs) {
        self.retry_at = Some(at);
    }
}
