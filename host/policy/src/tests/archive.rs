//! Bundles as one file.

use crate::testing::committed;
use crate::{BundleError, BundleFiles};
use std::path::PathBuf;
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

/// Reads an archive of these entries: name, type, content.
fn check(entries: &[(&str, EntryType, &[u8])]) -> Result<BundleFiles, BundleError> {
    let mut builder = Builder::new(Vec::new());
    for (name, kind, content) in entries {
        let mut header = Header::new_ustar();
        // Written directly: `set_path` refuses names that an attacker would use.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_entry_type(*kind);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    let (_folder, path) = written(&builder.into_inner().unwrap());
    BundleFiles::read(&path)
}

fn written(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle.tar");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn archive_round_trips_and_has_the_same_bytes_every_time() {
    let files = committed();
    let bytes = files.to_archive().unwrap();
    let (_folder, path) = written(&bytes);
    assert_eq!(BundleFiles::read(&path).unwrap(), files);
    assert_eq!(BundleFiles::read(&path).unwrap().to_archive().unwrap(), bytes);
}

#[test]
fn name_too_long_for_the_format_is_refused() {
    let write = |characters: usize| {
        let name = format!("tests/{}.json", "a".repeat(characters));
        let files = BundleFiles::new([(name, b"{}".to_vec())]).unwrap();
        files.to_archive().map(|bytes| {
            let (_folder, path) = written(&bytes);
            assert_eq!(BundleFiles::read(&path).unwrap(), files);
        })
    };
    assert!(write(95).is_ok());
    assert!(matches!(write(96), Err(BundleError::ArchiveName(_))));
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    for name in
        ["../manifest.json", "/manifest.json", "./manifest.json", "tests/../../x.json", "tests/a/b.json", "x"]
    {
        let refused = check(&[(name, EntryType::Regular, b"{}")]).unwrap_err();
        assert!(matches!(&refused, BundleError::FileName(it) if it == name), "{name}: {refused}");
    }
}

#[test]
fn duplicate_name_is_refused() {
    let twice =
        [("manifest.json", EntryType::Regular, &b"{}"[..]), ("manifest.json", EntryType::Regular, b"[]")];
    assert!(matches!(check(&twice), Err(BundleError::FileName(_))));
}

#[test]
fn archive_entry_other_than_a_regular_file_is_refused() {
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Directory,
        EntryType::Fifo,
        EntryType::Char,
        EntryType::Block,
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::GNUSparse,
        EntryType::XHeader,
        EntryType::XGlobalHeader,
        EntryType::Continuous,
    ] {
        let refused = check(&[("tests/a.json", kind, b"")]).unwrap_err();
        assert!(
            matches!(&refused, BundleError::NotAFile(entry) if entry == "tests/a.json"),
            "{kind:?}: {refused}"
        );
    }
}

#[test]
fn truncated_archive_is_refused() {
    let bytes = committed().to_archive().unwrap();
    let (_folder, path) = written(&bytes[..bytes.len() / 2]);
    assert!(matches!(BundleFiles::read(&path), Err(BundleError::Archive { .. })));
}
