//! Reading with a `Reader`, with and without a running writer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gateway_sqlite::{ApplicationId, Migration, OpenError, Options, Reader};

use crate::support::{Add, MIGRATIONS, OURS, SCHEMA, fresh, n_entries, open, options};

const MORE: Migration = Migration { version: 2, name: "more", sql: "CREATE TABLE more (id INTEGER) STRICT;" };
const OTHER: Migration = Migration { sql: "CREATE TABLE other (id INTEGER) STRICT;", ..SCHEMA };

async fn open_error(path: &Path, id: ApplicationId, migrations: &'static [Migration]) -> String {
    let error = Reader::open(Options::at_path(path, id, migrations)).await.unwrap_err();
    error.to_string().replace(&path.display().to_string(), "DB")
}

#[tokio::test]
async fn reader_sees_commits_and_does_not_block_the_writer() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    let reader = Reader::open(options(&path)).await.unwrap();
    for id in 1..=3 {
        database.write(Add(id)).await.unwrap();
        assert_eq!(n_entries(reader.readers()).await, id);
    }
    let mut conn = reader.readers().acquire().await.unwrap();
    let refused = conn.run("INSERT INTO entry (id) VALUES (9)", &[]).await.unwrap_err();
    assert!(refused.to_string().contains("readonly"), "{refused}");
    drop(conn);
    assert!(
        database.checkpoint().await.unwrap(),
        "between two statements the reader uses no part of the log"
    );
    database.close().await;
    assert_eq!(n_entries(reader.readers()).await, 3);
}

/// The caller of a snapshot may go away at any time, for example with its client.
#[tokio::test]
async fn snapshot_that_is_given_up_while_it_begins_leaves_no_transaction() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    let reader = Reader::open(options(&path)).await.unwrap();
    for id in 1..=3 {
        tokio::select! {
            biased;
            begun = reader.readers().snapshot() => drop(begun.unwrap()),
            () = std::future::ready(()) => {}
        }
        assert_eq!(n_entries(reader.readers()).await, id - 1);
        database.write(Add(id)).await.unwrap();
        assert_eq!(n_entries(reader.readers()).await, id, "a read sees the last commit");
    }
}

#[tokio::test]
async fn reading_does_not_change_a_closed_database() {
    let (_folder, path) = fresh();
    let database = open(&path).await;
    database.write(Add(1)).await.unwrap();
    database.close().await;
    let before = fs::read(&path).unwrap();
    let reader = Reader::open(options(&path)).await.unwrap();
    assert_eq!(n_entries(reader.readers()).await, 1);
    reader.close().await;
    assert_eq!(fs::read(&path).unwrap(), before);
    let database = open(&path).await;
    assert_eq!(database.write(Add(2)).await.unwrap(), 2);
}

#[tokio::test]
async fn reader_refuses_any_other_database_or_schema() {
    let (_folder, path) = fresh();
    assert_eq!(open_error(&path, OURS, MIGRATIONS).await, "the database `DB` does not exist");
    assert!(!path.exists());
    fs::write(&path, b"").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let empty =
        "the database `DB` has schema version 0 of 1: start the gateway once, which brings it up to date";
    assert_eq!(open_error(&path, OURS, MIGRATIONS).await, empty);
    fs::write(&path, b"Not a database.").unwrap();
    assert_eq!(open_error(&path, OURS, MIGRATIONS).await, "`DB` is not a SQLite database");
    fs::remove_file(&path).unwrap();
    open(&path).await.close().await;
    let foreign = open_error(&path, ApplicationId::new(*b"ELSE"), MIGRATIONS).await;
    assert!(foreign.starts_with("the database `DB` belongs to another program"), "{foreign}");
    let old =
        "the database `DB` has schema version 1 of 2: start the gateway once, which brings it up to date";
    assert_eq!(open_error(&path, OURS, &[SCHEMA, MORE]).await, old);
    let edited = "migration 1 of the database `DB` was edited after it was applied";
    assert_eq!(open_error(&path, OURS, &[OTHER]).await, edited);
    let newer = Reader::open(Options::at_path(&path, OURS, &[])).await;
    assert!(matches!(newer, Err(OpenError::ForeignSchema { found: 1, known: 0, .. })), "{newer:?}");
}
