use super::*;
use gateway_policy::BundleError;
use std::path::PathBuf;
use tempfile::TempDir;

fn committed() -> BundleFiles {
    BundleFiles::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles/payment-guard")).unwrap()
}

/// What reading an archive of these entries gives: name, type, content.
fn check(entries: &[(&str, EntryType, &[u8])]) -> Result<BundleFiles, Error> {
    let mut builder = Builder::new(Vec::new());
    for (name, kind, content) in entries {
        let mut header = Header::new_ustar();
        // As it stands: `set_path` would not write what an attacker writes.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_entry_type(*kind);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    let (_folder, path) = written(&builder.into_inner().unwrap());
    read(&path)
}

fn written(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle.tar");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn what_is_written_is_read_and_has_the_same_bytes_every_time() {
    let files = committed();
    let bytes = to_bytes(&files).unwrap();
    let (_folder, path) = written(&bytes);
    assert_eq!(read(&path).unwrap(), files);
    assert_eq!(to_bytes(&read(&path).unwrap()).unwrap(), bytes);
}

#[test]
fn a_name_that_the_format_has_no_room_for_is_not_written() {
    let write = |characters: usize| {
        let name = format!("tests/{}.json", "a".repeat(characters));
        let files = BundleFiles::new([(name, b"{}".to_vec())]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bundle.tar");
        super::write(&files, &path).map(|_| assert_eq!(read(&path).unwrap(), files))
    };
    assert!(write(95).is_ok());
    assert!(matches!(write(96), Err(Error::TarName(_))));
}

#[test]
fn names_that_lead_up_or_out_are_refused() {
    for name in
        ["../manifest.json", "/manifest.json", "./manifest.json", "tests/../../x.json", "tests/a/b.json", "x"]
    {
        let refused = check(&[(name, EntryType::Regular, b"{}")]).unwrap_err();
        assert!(
            matches!(&refused, Error::Bundle(BundleError::FileName(it)) if it == name),
            "{name}: {refused}"
        );
    }
}

#[test]
fn a_name_twice_is_refused() {
    let twice =
        [("manifest.json", EntryType::Regular, &b"{}"[..]), ("manifest.json", EntryType::Regular, b"[]")];
    assert!(matches!(check(&twice), Err(Error::Bundle(BundleError::FileName(_)))));
}

#[test]
fn anything_but_a_regular_file_is_refused() {
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
            matches!(&refused, Error::TarEntry { entry, .. } if entry == "tests/a.json"),
            "{kind:?}: {refused}"
        );
    }
}

#[test]
fn half_an_archive_is_refused() {
    let bytes = to_bytes(&committed()).unwrap();
    let (_folder, path) = written(&bytes[..bytes.len() / 2]);
    assert!(matches!(read(&path), Err(Error::Tar { .. })));
}
