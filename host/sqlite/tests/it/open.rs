//! The files that `open` creates, and its errors.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use gateway_sqlite::{ApplicationId, Database, Migration, OpenError, Options, Reader};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::support::{Add, MIGRATIONS, OURS, SCHEMA, Total, fresh, open, options};

async fn open_error(options: Options) -> OpenError {
    Database::<Total>::open(options).await.unwrap_err()
}

/// The message that an operator sees, with the path replaced.
fn line(error: &OpenError, path: &Path) -> String {
    let line = error.to_string().replace(&path.display().to_string(), "DB");
    assert!(!line.contains('\n'));
    line
}

/// Runs SQL on the file as another program would.
async fn run_as_another_program(path: &Path, sql: &str) {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut conn = options.connect().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    chmod(path, 0o600);
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn files_accessible_to_other_users_are_refused_and_named_in_the_error() {
    let (folder, path) = fresh();
    open(&path).await.close().await;
    for suffix in ["", "-wal", "-shm", "-journal", ".lock"] {
        let file = folder.path().join(format!("test.db{suffix}"));
        let exists = file.exists();
        if !exists {
            fs::write(&file, b"").unwrap();
        }
        for mode in [0o644, 0o640, 0o604, 0o660, 0o620, 0o602, 0o700] {
            chmod(&file, mode);
            let expected = format!(
                "the database file `DB` has mode {mode:04o}; it must be 0600 or 0400: run `chmod 600 DB`"
            );
            assert_eq!(line(&open_error(options(&path)).await, &file), expected);
            let read = Reader::open(options(&path)).await.unwrap_err();
            assert_eq!(line(&read, &file), expected, "a reader refuses it too");
        }
        chmod(&file, 0o600);
        if !exists {
            fs::remove_file(&file).unwrap();
        }
    }
    open(&path).await.close().await;
    chmod(&path, 0o400);
    Reader::open(options(&path)).await.unwrap().close().await;
}

#[tokio::test]
async fn world_writable_folder_is_refused_and_stays_empty() {
    let (folder, path) = fresh();
    for mode in [0o777, 0o1777, 0o702] {
        chmod(folder.path(), mode);
        let expected = format!(
            "every user can write the database's folder `DB` (mode {mode:04o}): choose a folder that only its owner and group write, or run `chmod o-w DB`"
        );
        assert_eq!(line(&open_error(options(&path)).await, folder.path()), expected);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    chmod(folder.path(), 0o770);
    open(&path).await.close().await;
    chmod(folder.path(), 0o777);
    for error in [open_error(options(&path)).await, Reader::open(options(&path)).await.unwrap_err()] {
        assert!(matches!(error, OpenError::ExposedFolder { mode: 0o777, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn new_folders_and_files_are_private() {
    let (folder, _) = fresh();
    let path = folder.path().join("a/b/test.db");
    let database = open(&path).await;
    database.write(Add(1)).await.unwrap();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(folder.path().join("a")), mode(folder.path().join("a/b"))), (0o700, 0o700));
    for name in ["test.db", "test.db-wal", "test.db-shm", "test.db.lock"] {
        assert_eq!(mode(folder.path().join("a/b").join(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn database_uses_the_write_ahead_log() {
    let (_folder, path) = fresh();
    let _database = open(&path).await;
    let header = fs::read(&path).unwrap();
    // SQLite file format, section 1.3: write version 2 is WAL.
    assert_eq!(header[18], 2);
}

#[tokio::test]
async fn missing_file_is_not_created_unless_asked() {
    let (_folder, path) = fresh();
    let error = open_error(Options::at_path(&path, OURS, MIGRATIONS)).await;
    assert_eq!(line(&error, &path), "the database `DB` does not exist");
    assert!(!path.exists());
}

#[tokio::test]
async fn file_that_is_not_sqlite_is_refused_and_unchanged() {
    let (_folder, path) = fresh();
    for bytes in [&b"hello"[..], &[0; 4096][..]] {
        fs::write(&path, bytes).unwrap();
        let error = open_error(options(&path)).await;
        assert_eq!(line(&error, &path), "`DB` is not a SQLite database");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    // Only the first bytes are right.
    fs::write(&path, b"SQLite format 3\0 and then something else").unwrap();
    chmod(&path, 0o600);
    assert!(matches!(open_error(options(&path)).await, OpenError::ForeignBytes { .. }));
}

#[tokio::test]
async fn database_of_another_program_is_refused_and_unchanged() {
    for (sql, found) in [
        ("PRAGMA application_id = 7; CREATE TABLE theirs (id INTEGER)", "0x00000007"),
        ("CREATE TABLE theirs (id INTEGER)", "0x00000000"),
        ("PRAGMA application_id = 7", "0x00000007"),
    ] {
        let (_folder, path) = fresh();
        run_as_another_program(&path, sql).await;
        let before = fs::read(&path).unwrap();
        let error = open_error(options(&path)).await;
        let expected = format!("the database `DB` belongs to another program (application id {found})");
        assert_eq!(line(&error, &path), expected);
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[tokio::test]
async fn other_application_id_is_refused() {
    let (_folder, path) = fresh();
    open(&path).await.close().await;
    let error = open_error(Options::at_path(&path, ApplicationId::new(*b"ELSE"), MIGRATIONS)).await;
    assert!(matches!(error, OpenError::ForeignApplication { .. }), "{error:?}");
}

#[tokio::test]
async fn unwritable_path_is_refused() {
    let (folder, path) = fresh();
    fs::write(&path, b"").unwrap();
    for unwritable in
        [path.join("under/a/file.db"), PathBuf::from("/proc/nowhere/test.db"), folder.path().into()]
    {
        let error = open_error(options(&unwritable)).await;
        assert!(matches!(error, OpenError::Unwritable { .. }), "{error:?}");
        assert!(error.to_string().ends_with("cannot be written"), "{error}");
    }
}

#[tokio::test]
async fn second_open_is_refused_until_the_first_closes() {
    let (folder, path) = fresh();
    let first = open(&path).await;
    let other_name = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &other_name).unwrap();
    for name in [&path, &other_name] {
        let error = open_error(options(name)).await;
        assert_eq!(line(&error, &path), "the database `DB` is already open in another process");
    }
    first.close().await;
    open(&path).await;
}

/// Each name has a log of its own, so that what was acknowledged through one is not seen through the other.
#[tokio::test]
async fn file_with_two_names_is_refused_under_both() {
    let (folder, path) = fresh();
    let first = open(&path).await;
    let other_name = folder.path().join("hard-link.db");
    std::fs::hard_link(&path, &other_name).unwrap();
    let error = open_error(options(&other_name)).await;
    assert_eq!(line(&error, &other_name), "the database `DB` is already open in another process");
    first.close().await;
    for name in [&path, &other_name] {
        let error = open_error(options(name)).await;
        assert!(line(&error, name).starts_with("the database `DB` has 2 names (hard links)"), "{error}");
    }
    std::fs::remove_file(&other_name).unwrap();
    open(&path).await;
}

const SECOND: Migration = Migration { version: 2, name: "second", sql: "CREATE TABLE second (id INTEGER)" };
const SCHEMA_AND_SECOND: &[Migration] = &[SCHEMA, SECOND];
const EDITED: &[Migration] = &[Migration { sql: "CREATE TABLE entry (id INTEGER)", ..SCHEMA }, SECOND];
const FAILING: &[Migration] = &[
    SCHEMA,
    Migration { version: 2, name: "bad", sql: "CREATE TABLE second (id INTEGER); SELECT nonsense" },
];
const WITH_GAP: &[Migration] = &[SCHEMA, Migration { version: 3, ..SECOND }];

async fn with(path: &Path, migrations: &'static [Migration]) -> Result<(), OpenError> {
    let database = Database::<Total>::open(Options::at_path(path, OURS, migrations).create()).await?;
    database.close().await;
    Ok(())
}

#[tokio::test]
async fn migrations_are_applied_once_and_never_edited() {
    let (_folder, path) = fresh();
    with(&path, MIGRATIONS).await.unwrap();
    let edited = with(&path, EDITED).await.unwrap_err();
    assert_eq!(line(&edited, &path), "migration 1 of the database `DB` was edited after it was applied");
    let failed = with(&path, FAILING).await.unwrap_err();
    assert_eq!(line(&failed, &path), "migration 2 of the database `DB` failed");
    let gap = with(&path, WITH_GAP).await.unwrap_err();
    assert_eq!(line(&gap, &path), "found migration 3 where 2 was expected");
    // This would fail if the failed migration had left its table behind.
    with(&path, SCHEMA_AND_SECOND).await.unwrap();
    with(&path, SCHEMA_AND_SECOND).await.unwrap();
    let newer = with(&path, MIGRATIONS).await.unwrap_err();
    assert_eq!(
        line(&newer, &path),
        "the database `DB` has schema version 2, newer than the 1 this program knows"
    );
}
