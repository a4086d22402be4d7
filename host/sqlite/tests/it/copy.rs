//! Copies of a database, and a database that a copy replaces.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gateway_sqlite::{Database, Reader, restore};

use crate::support::{self, Add, Total, fresh, open, options};

async fn n_entries(path: &Path) -> i64 {
    let reader = Reader::open(options(path)).await.unwrap();
    let n_entries = support::n_entries(reader.readers()).await;
    reader.close().await;
    n_entries
}

async fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let reader = Reader::open(options(from)).await.unwrap();
    let copied = reader.copy_to(to, |_, _| {}).await.map_err(|error| error.to_string());
    reader.close().await;
    copied
}

async fn replace(path: &Path, by: &Path) -> Result<Option<std::path::PathBuf>, String> {
    restore(options(path), by).await.map_err(|error| error.to_string())
}

async fn with_entries(path: &Path, ids: std::ops::RangeInclusive<i64>) -> Database<Total> {
    let database = open(path).await;
    for id in ids {
        database.write(Add(id)).await.unwrap();
    }
    database
}

#[tokio::test]
async fn copy_has_the_commits_before_it_and_disturbs_no_writer() {
    let (folder, path) = fresh();
    let to = folder.path().join("copy.db");
    let database = with_entries(&path, 1..=3).await;
    assert!(fs::metadata(path.with_extension("db-wal")).unwrap().len() > 0, "the commits are in the log");
    copy(&path, &to).await.unwrap();
    database.write(Add(4)).await.unwrap();
    assert_eq!((n_entries(&to).await, n_entries(&path).await), (3, 4));
    assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
    let again = copy(&path, &to).await.unwrap_err();
    assert_eq!(again, format!("`{}` exists already", to.display()));
    let stale = folder.path().join("other.db-wal");
    fs::write(&stale, "commits").unwrap();
    let beside = copy(&path, &folder.path().join("other.db")).await.unwrap_err();
    assert_eq!(beside, format!("`{}` exists already", stale.display()));
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("partial")), "{names:?}");
    database.close().await;
}

#[tokio::test]
async fn copy_replaces_a_database_which_is_kept_with_all_its_commits() {
    let (folder, path) = fresh();
    let backup = folder.path().join("copy.db");
    let database = with_entries(&path, 1..=3).await;
    copy(&path, &backup).await.unwrap();
    database.write(Add(4)).await.unwrap();
    let in_use = replace(&path, &backup).await.unwrap_err();
    assert_eq!(in_use, format!("the database `{}` is already open in another process", path.display()));
    assert_eq!(n_entries(&path).await, 4);
    // A process that was killed leaves its last commits in the log.
    std::mem::forget(database);
    let killed = folder.path().join("killed");
    fs::create_dir(&killed).unwrap();
    for suffix in ["", "-wal"] {
        fs::copy(format!("{}{suffix}", path.display()), killed.join(format!("test.db{suffix}"))).unwrap();
    }
    let path = killed.join("test.db");
    let kept = replace(&path, &backup).await.unwrap().unwrap();
    assert_eq!((n_entries(&path).await, n_entries(&kept).await), (3, 4));
    let database = with_entries(&path, 5..=5).await;
    database.close().await;
    let kept_second = replace(&path, &backup).await.unwrap().unwrap();
    assert_eq!((n_entries(&kept).await, n_entries(&kept_second).await), (4, 4), "{kept_second:?}");
    assert_ne!(kept, kept_second);
}

#[tokio::test]
async fn copy_is_put_where_no_database_is() {
    let (folder, path) = fresh();
    let backup = folder.path().join("copy.db");
    with_entries(&path, 1..=3).await.close().await;
    copy(&path, &backup).await.unwrap();
    let elsewhere = folder.path().join("new folder/other.db");
    assert_eq!(replace(&elsewhere, &backup).await, Ok(None));
    assert_eq!(n_entries(&elsewhere).await, 3);
    assert_eq!(fs::metadata(&elsewhere).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(n_entries(&backup).await, 3);
}

/// SQLite would write the commits of the log into the copy.
#[tokio::test]
async fn log_of_a_database_that_was_lost_is_not_left_beside_the_copy() {
    let (folder, path) = fresh();
    let backup = folder.path().join("copy.db");
    let database = with_entries(&path, 1..=1).await;
    copy(&path, &backup).await.unwrap();
    for id in 2..=50 {
        database.write(Add(id)).await.unwrap();
    }
    std::mem::forget(database);
    let lost = folder.path().join("lost.db");
    fs::copy(path.with_extension("db-wal"), lost.with_extension("db-wal")).unwrap();
    assert_eq!(replace(&lost, &backup).await, Ok(None));
    assert_eq!(n_entries(&lost).await, 1);
    assert!(
        fs::metadata(lost.with_extension("db.before-restore-1-wal")).unwrap().len() > 0,
        "the log is kept"
    );
}

#[tokio::test]
async fn damaged_database_is_replaced_and_kept() {
    let (folder, path) = fresh();
    let backup = folder.path().join("copy.db");
    with_entries(&path, 1..=3).await.close().await;
    copy(&path, &backup).await.unwrap();
    fs::write(&path, "no database").unwrap();
    let kept = replace(&path, &backup).await.unwrap().unwrap();
    assert_eq!(n_entries(&path).await, 3);
    assert_eq!(fs::read(kept).unwrap(), b"no database");
}

#[tokio::test]
async fn files_that_are_no_copy_are_refused_and_nothing_is_changed() {
    let (folder, path) = fresh();
    with_entries(&path, 1..=3).await.close().await;
    let copy = folder.path().join("copy.db");
    let missing = replace(&path, &copy).await.unwrap_err();
    assert_eq!(missing, format!("the database `{}` does not exist", copy.display()));
    fs::write(&copy, "no database").unwrap();
    let foreign = replace(&path, &copy).await.unwrap_err();
    assert_eq!(foreign, format!("`{}` is not a SQLite database", copy.display()));
    fs::copy(&path, &copy).unwrap();
    fs::write(folder.path().join("copy.db-wal"), "commits").unwrap();
    let in_pieces = replace(&path, &copy).await.unwrap_err();
    assert!(in_pieces.contains("has a log beside it"), "{in_pieces}");
    assert_eq!(n_entries(&path).await, 3);
}
