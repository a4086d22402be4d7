//! `ledger fsck` on a file that it cannot open: one line and exit code 2. On a damaged file that it can open: findings.

use super::checked;
use super::history::History;
use crate::harness::process::{error_line, run};
use crate::harness::secrets::make_private;
use sqlx::{Connection, SqliteConnection};
use std::fs;
use std::path::Path;

/// The error line of `ledger fsck`, which must exit with 2 and print nothing else.
fn fsck_error(folder: &Path) -> String {
    error_line(run(folder, &[], &["ledger", "fsck"]), 2)
}

#[tokio::test(flavor = "multi_thread")]
async fn file_that_is_no_store_is_a_one_line_error() {
    let history = History::written().await;
    let (folder, database) = (history.world.folder(), history.database());
    let undamaged = fs::read(&database).unwrap();
    for kept in [undamaged.len() / 2, 4096, 100] {
        fs::write(&database, &undamaged[..kept]).unwrap();
        fsck_error(folder);
    }
    fs::write(&database, vec![7; 8192]).unwrap();
    assert!(fsck_error(folder).contains("not a SQLite database"));
    fs::remove_file(&database).unwrap();
    assert!(fsck_error(folder).contains("does not exist"));
    let url = format!("sqlite://{}?mode=rwc", database.display());
    let mut conn = SqliteConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("CREATE TABLE other (id INTEGER); PRAGMA application_id = 7")
        .execute(&mut conn)
        .await
        .unwrap();
    conn.close().await.unwrap();
    make_private(&database);
    assert!(fsck_error(folder).contains("belongs to another program"));
}

/// A check that reads a damaged page ends; the others go on.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_pages_are_findings() {
    let history = History::written().await;
    let undamaged = fs::read(history.database()).unwrap();
    let n_pages = undamaged.len() / 4096;
    let mut n_found = 0;
    for page in (1..n_pages).step_by(3) {
        let mut damaged = undamaged.clone();
        damaged[page * 4096..page * 4096 + 512].fill(0xa5);
        fs::write(history.database(), damaged).unwrap();
        match checked(&history.database()).await {
            Ok((findings, _)) => {
                assert_ne!(findings, [], "page {page}");
                n_found += 1;
            }
            // A page that is read when the database is opened.
            Err(error) => assert!(error.to_string().contains("cannot be opened"), "{error}"),
        }
    }
    assert!(n_found > n_pages / 4, "{n_found} of {n_pages}");
}
