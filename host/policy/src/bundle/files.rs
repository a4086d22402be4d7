//! The files of a bundle, and the names they may have.

use super::{BundleError, archive, strict};
use crate::limits::{BUNDLE_FILE_BYTES_MAX, BUNDLE_FILES_MAX, SIGNED_FILE_BYTES_MAX};
use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The file that is signed.
pub const MANIFEST_FILE: &str = "manifest.json";
/// The component.
pub const COMPONENT_FILE: &str = "policy.wasm";
/// The folder of the bundle in a policy's sources.
pub const SOURCE_BUNDLE: &str = "bundle";
const SIGNATURES: &str = "signatures/";
const DATA: &str = "data/";
/// The extensions of data files that are text and not JSON.
const TEXTS: [&str; 2] = [".cedar", ".cedarschema"];
const FOLDERS: [&str; 3] = ["data", "signatures", "tests"];

/// A bundle's files by name, from a folder or from the store. Their content is not verified, but their names are allowed ones,
/// so none is a path out of the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleFiles(BTreeMap<String, Vec<u8>>);

impl BundleFiles {
    /// Checks names, number and sizes of the files.
    ///
    /// # Errors
    /// [`BundleError::FileName`], [`BundleError::TooManyFiles`], [`BundleError::FileTooLarge`].
    pub fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<Self, BundleError> {
        let mut all = BTreeMap::new();
        for (name, bytes) in files {
            if !is_allowed(&name) || all.contains_key(&name) {
                return Err(BundleError::FileName(name));
            }
            if bytes.len() as u64 > BUNDLE_FILE_BYTES_MAX {
                return Err(BundleError::FileTooLarge { file: name, bytes_max: BUNDLE_FILE_BYTES_MAX });
            }
            all.insert(name, bytes);
            if all.len() > BUNDLE_FILES_MAX {
                return Err(BundleError::TooManyFiles(BUNDLE_FILES_MAX));
            }
        }
        Ok(Self(all))
    }

    /// Reads a bundle's archive, or its folder, which may be a volume of Kubernetes. Any other symbolic link in it is an error.
    ///
    /// # Errors
    /// As [`BundleFiles::new`], and [`BundleError::Archive`], [`BundleError::Read`], [`BundleError::NotAFile`],
    /// [`BundleError::MissingFile`] for a folder without a manifest, [`BundleError::SourceFolder`].
    pub fn read(path: &Path) -> Result<Self, BundleError> {
        if path.is_file() {
            return Self::new(archive::read(path)?);
        }
        let folder = &mounted(path);
        if folder.is_dir() && !folder.join(MANIFEST_FILE).exists() {
            let is_source = folder.join(SOURCE_BUNDLE).join(MANIFEST_FILE).is_file();
            let missing = || BundleError::MissingFile(MANIFEST_FILE.to_owned());
            return Err(if is_source { BundleError::SourceFolder } else { missing() });
        }
        let mut files = Vec::new();
        read_folder(folder, "", &mut files)?;
        for name in FOLDERS {
            let inner = folder.join(name);
            if inner.is_dir() {
                read_folder(&inner, &format!("{name}/"), &mut files)?;
            }
        }
        Self::new(files)
    }

    /// The files as one file, a POSIX archive whose bytes depend only on them.
    ///
    /// # Errors
    /// [`BundleError::ArchiveName`].
    pub fn to_archive(&self) -> Result<Vec<u8>, BundleError> {
        archive::to_bytes(self.iter())
    }

    /// The files whose names `is_kept` accepts.
    #[must_use]
    pub fn only(&self, is_kept: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|(name, _)| is_kept(name));
        Self(kept.map(|(name, bytes)| (name.clone(), bytes.clone())).collect())
    }

    /// The same files with these added, which replace those of the same name.
    ///
    /// # Errors
    /// As [`BundleFiles::new`].
    pub fn with(&self, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<Self, BundleError> {
        let mut all = self.0.clone();
        all.extend(files);
        Self::new(all)
    }

    /// One file.
    ///
    /// # Errors
    /// [`BundleError::MissingFile`].
    pub fn get(&self, name: &str) -> Result<&[u8], BundleError> {
        self.0.get(name).map(Vec::as_slice).ok_or_else(|| BundleError::MissingFile(name.to_owned()))
    }

    /// Name and bytes, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// A hash over all files, signatures included, to notice changes.
    #[must_use]
    pub fn fingerprint(&self) -> Hex32 {
        let line = |(name, bytes): (&str, &[u8])| format!("{} {name}\n", canonical::digest_bytes("", bytes));
        let listing: String = self.iter().map(line).collect();
        canonical::digest_bytes("svc/bundle-files/v1", listing.as_bytes())
    }

    /// The policy's own data, by file name without the folder. A file of Cedar is one string.
    ///
    /// # Errors
    /// [`BundleError::Json`] or [`BundleError::DuplicateKey`] for a file that is not valid JSON; [`BundleError::NotText`].
    pub fn documents(&self) -> Result<BTreeMap<String, serde_json::Value>, BundleError> {
        let data = self.iter().filter_map(|(name, bytes)| Some((name, name.strip_prefix(DATA)?, bytes)));
        data.map(|(name, file, bytes)| {
            let value = if TEXTS.iter().any(|extension| file.ends_with(extension)) {
                let text = str::from_utf8(bytes).map_err(|_| BundleError::NotText(name.to_owned()))?;
                Ok(text.into())
            } else {
                // A dependency can make `serde_json` keep the order of members, and policies read them sorted.
                strict::parse_unique(name, bytes).map(|mut value| {
                    value.sort_all_objects();
                    value
                })
            };
            value.map(|value| (file.to_owned(), value))
        })
        .collect()
    }

    pub(super) fn signatures(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.iter().filter(|(name, _)| is_signature(name))
    }

    /// The hashes of the files that a manifest lists: all except the manifest and its signatures.
    pub(super) fn hashes(&self) -> BTreeMap<String, Hex32> {
        self.iter()
            .filter(|(name, _)| *name != MANIFEST_FILE && !is_signature(name))
            .map(|(name, bytes)| (name.to_owned(), canonical::digest_bytes("", bytes)))
            .collect()
    }

    /// Checks that exactly the listed files are present, each with the listed hash.
    pub(super) fn check_against(&self, listed: &BTreeMap<String, Hex32>) -> Result<(), BundleError> {
        let present = self.hashes();
        if let Some(name) = present.keys().find(|name| !listed.contains_key(*name)) {
            return Err(BundleError::UnknownFile(name.clone()));
        }
        for (name, expected) in listed {
            let Some(actual) = present.get(name) else { return Err(BundleError::MissingFile(name.clone())) };
            if actual != expected {
                return Err(BundleError::Tampered {
                    file: name.clone(),
                    expected: *expected,
                    actual: *actual,
                });
            }
        }
        Ok(())
    }
}

/// Whether this is the name of a signature file. A manifest lists all files except these and itself.
#[must_use]
pub fn is_signature(name: &str) -> bool {
    name.starts_with(SIGNATURES)
}

/// Whether a file may have this name: `manifest.json`, `policy.wasm`, `data/<name>.cedar`, `data/<name>.cedarschema`, or
/// `data|signatures|tests/<name>.json`.
pub(super) fn is_allowed(name: &str) -> bool {
    if name == MANIFEST_FILE || name == COMPONENT_FILE {
        return true;
    }
    let Some((folder, file)) = name.split_once('/') else { return false };
    let text = TEXTS.iter().find_map(|extension| file.strip_suffix(extension)).filter(|_| folder == "data");
    text.or_else(|| file.strip_suffix(".json"))
        .is_some_and(|stem| FOLDERS.contains(&folder) && is_plain(stem))
}

/// Whether the text has 1 to 128 characters of ASCII letters, digits, `.`, `_` and `-`, and does not start with a dot.
pub(super) fn is_plain(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// The folder that a volume of Kubernetes shows: its files are links through `..data`, which is moved from one version of all of them to the
/// next. Every other folder is its own.
fn mounted(folder: &Path) -> PathBuf {
    match fs::read_link(folder.join("..data")) {
        Ok(version) => folder.join(version),
        Err(_) => folder.to_owned(),
    }
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<(String, Vec<u8>)>) -> Result<(), BundleError> {
    let unreadable = |name: &str| {
        let path = if name.is_empty() { folder.display().to_string() } else { format!("{prefix}{name}") };
        move |source| BundleError::Read { path, source }
    };
    for entry in fs::read_dir(folder).map_err(unreadable(""))? {
        let entry = entry.map_err(unreadable(""))?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().map_err(unreadable(&name))?;
        if kind.is_dir() && prefix.is_empty() && FOLDERS.contains(&name.as_str()) {
            continue;
        }
        if !kind.is_file() {
            return Err(BundleError::NotAFile(name));
        }
        if files.len() >= BUNDLE_FILES_MAX {
            return Err(BundleError::TooManyFiles(BUNDLE_FILES_MAX));
        }
        let bytes =
            read_limited(&entry.path()).map_err(|source| BundleError::Read { path: name.clone(), source })?;
        files.push((name, bytes));
    }
    Ok(())
}

/// Reads a file of trust roots or an activation record. `what` names it in errors.
///
/// # Errors
/// [`BundleError::Read`], [`BundleError::FileTooLarge`].
pub fn read_signed_file(path: &Path, what: &str) -> Result<Vec<u8>, BundleError> {
    let read = || -> io::Result<Vec<u8>> {
        // Reading a pipe could block forever.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(SIGNED_FILE_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) if bytes.len() as u64 > SIGNED_FILE_BYTES_MAX => {
            Err(BundleError::FileTooLarge { file: what.to_owned(), bytes_max: SIGNED_FILE_BYTES_MAX })
        }
        Ok(bytes) => Ok(bytes),
        Err(source) => Err(BundleError::Read { path: what.to_owned(), source }),
    }
}

/// Reads at most one byte more than allowed, so that the size check refuses the file.
fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(BUNDLE_FILE_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
