//! When nothing can be checked: one line, exit code 2. When the file is damaged but opens: findings.

use super::history::History;
use crate::harness::process::tool;
use sqlx::{Connection, SqliteConnection};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn unreadable(folder: &Path) -> String {
    let (code, out, err) = tool(folder, &[], &["ledger", "fsck"]);
    assert_eq!((code, out.as_str(), err.lines().count()), (2, "", 1), "{err}");
    err
}

#[tokio::test(flavor = "multi_thread")]
async fn file_that_is_no_store_is_a_one_line_error() {
    let history = History::written().await;
    let (folder, database) = (history.world.folder(), history.database());
    let whole = fs::read(&database).unwrap();
    for kept in [whole.len() / 2, 4096, 100] {
        fs::write(&database, &whole[..kept]).unwrap();
        unreadable(folder);
    }
    fs::write(&database, vec![7; 8192]).unwrap();
    assert!(unreadable(folder).contains("not a SQLite database"));
    fs::remove_file(&database).unwrap();
    assert!(unreadable(folder).contains("does not exist"));
    let url = format!("sqlite://{}?mode=rwc", database.display());
    let mut conn = SqliteConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("CREATE TABLE other (id INTEGER); PRAGMA application_id = 7")
        .execute(&mut conn)
        .await
        .unwrap();
    conn.close().await.unwrap();
    fs::set_permissions(&database, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(unreadable(folder).contains("belongs to another program"));
}

/// An unreadable page ends only the check that reads it.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_pages_are_findings() {
    let history = History::written().await;
    let whole = fs::read(history.database()).unwrap();
    let n_pages = whole.len() / 4096;
    let mut n_found = 0;
    for page in (1..n_pages).step_by(3) {
        let mut damaged = whole.clone();
        damaged[page * 4096..page * 4096 + 512].fill(0xa5);
        fs::write(history.database(), damaged).unwrap();
        match super::checked(&history.database()).await {
            Ok((findings, _)) => {
                assert_ne!(findings, [], "page {page}");
                n_found += 1;
            }
            // A page of the tables that are read on opening.
            Err(error) => assert!(error.to_string().contains("cannot be opened"), "{error}"),
        }
    }
    assert!(n_found > n_pages / 4, "{n_found} of {n_pages}");
}
