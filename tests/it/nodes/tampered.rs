//! Every table of a node's database: one byte of each column altered, and rows deleted. Tables come from the schema, so a
//! new one is included.

use crate::ledger::history::{History, open};
use crate::ledger::tampered::{Literals, Table, changed_value, displayed, rows, tables, texts};
use gateway_domain::roster::ParticipantIndex;
use gateway_runtime::{Damage, check_file};
use gateway_seal::at_rest::Kek;
use operation_gateway::settings::NodeKey;
use sqlx::{AssertSqlSafe, Connection};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The migrator's notes: when a migration ran, and how long it took.
const NOT_CHECKED: [(&str, &str); 2] =
    [("_sqlx_migrations", "installed_on"), ("_sqlx_migrations", "execution_time")];

/// Number of altered rows of a table, by its length.
const ROWS_MAX: usize = 40;

/// A node that signs in the history, and has active, retired and erased shares.
const NODE: u16 = 0;

struct Tampering {
    table: String,
    what: String,
    sql: String,
    /// A finding names the row by any of these: its key before and after, or its operation.
    names: Vec<String>,
}

/// Columns with operation ids.
struct Operations {
    /// Operation ids of statements, which have no other name.
    stated: BTreeMap<String, String>,
    /// Statements of abandoned operations.
    discarded: BTreeSet<String>,
}

/// The row as findings name it, with one column changed.
fn row_name(table: &Table, row: &Literals, changed: Option<(&str, &str)>) -> String {
    let value = |column: &String| match changed {
        Some((name, value)) if name == column => displayed(value),
        _ => displayed(&row.columns[column]),
    };
    table.key.iter().map(|column| format!("{column} {}", value(column))).collect::<Vec<_>>().join(", ")
}

/// The operation that the row belongs to.
fn operation(row: &Literals, operations: &Operations) -> Option<String> {
    let named = row.columns.get("operation_id").map(|id| displayed(id));
    let stepped = row.columns.get("effect_id").map(|id| displayed(id).split('.').next().unwrap().to_owned());
    let stated =
        || row.columns.get("statement_index").and_then(|index| operations.stated.get(index)).cloned();
    named.or(stepped).or_else(stated)
}

/// The altered value as a literal.
fn literal(value: &str) -> String {
    if let Some(number) = value.strip_suffix(" + 1") {
        return (number.parse::<i64>().unwrap() + 1).to_string();
    }
    match value.strip_prefix("CAST(X'").and_then(|value| value.strip_suffix("' AS TEXT)")) {
        Some(digits) => String::from_utf8_lossy(&hex::decode(digits).unwrap()).into_owned(),
        None => value.to_owned(),
    }
}

fn tamperings(table: &Table, rows: &[Literals], operations: &Operations) -> Vec<Tampering> {
    let mut all = Vec::new();
    for row in rows.iter().step_by(rows.len().div_ceil(ROWS_MAX).max(1)) {
        let mut named = vec![row_name(table, row, None)];
        let operation = operation(row, operations);
        named.extend(operation.clone());
        for column in &table.columns {
            let literal = &row.columns[&column.name];
            if literal == "NULL" || NOT_CHECKED.contains(&(&table.name, &column.name)) {
                continue;
            }
            let value = changed_value(literal, &column.kind);
            let sql = format!("UPDATE {} SET {} = {value} WHERE {}", table.name, column.name, row.condition);
            let mut names = named.clone();
            names.push(row_name(table, row, Some((&column.name, &self::literal(&value)))));
            let what = format!("{} flipped, {:.90}", column.name, row.condition);
            all.push(Tampering { table: table.name.clone(), what, sql, names });
        }
        // Nonces are kept in memory only, so after publication this mark has no meaning. No other row records how far an
        // abandoned operation had come.
        let is_over = operation.is_some_and(|id| operations.discarded.contains(&id));
        let is_unchecked = match table.name.as_str() {
            "consumed" => true,
            "effect" => is_over && row.columns["effect_id"].contains(".policy-receipt."),
            _ => false,
        };
        if !is_unchecked {
            let sql = format!("DELETE FROM {} WHERE {}", table.name, row.condition);
            let what = format!("deleted, {:.90}", row.condition);
            all.push(Tampering { table: table.name.clone(), what, sql, names: named });
        }
    }
    all
}

async fn found(folder: &Path, kek: &Arc<Kek>) -> Vec<Damage> {
    check_file(folder, ParticipantIndex(NODE), kek).await
}

/// The error of the check for this alteration, if any.
async fn check_error(
    pristine: &[u8],
    folder: &Path,
    kek: &Arc<Kek>,
    tampering: &Tampering,
) -> Option<String> {
    let path = folder.join(format!("node-{NODE}.db"));
    fs::write(&path, pristine).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut conn = open(&path).await;
    // A program that tampers can drop triggers.
    let names = texts(&mut conn, "SELECT name FROM sqlite_schema WHERE type = 'trigger'").await;
    let triggers = texts(&mut conn, "SELECT sql FROM sqlite_schema WHERE type = 'trigger'").await;
    let drops = names.iter().map(|name| format!("DROP TRIGGER {name};"));
    let script: String = drops
        .chain([format!("{};", tampering.sql)])
        .chain(triggers.iter().map(|sql| format!("{sql};")))
        .collect();
    let done = sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut conn).await;
    conn.close().await.unwrap();
    match done {
        Err(error) if error.to_string().contains("UNIQUE constraint failed") => return None,
        done => drop(done.unwrap_or_else(|error| panic!("{}: {error}", tampering.sql))),
    }
    let found = found(folder, kek).await;
    let text = |damage: &Damage| damage.to_string();
    let says = |damage: &Damage| tampering.names.iter().any(|name| text(damage).contains(name.as_str()));
    // A database that is not opened has no rows to name.
    let is_whole = |damage: &Damage| {
        damage.table == "database" && ["_sqlx_migrations", "node"].contains(&tampering.table.as_str())
            || damage.table == "node"
    };
    if found.iter().any(|damage| is_whole(damage) || says(damage)) {
        return None;
    }
    let found: Vec<_> = found.iter().map(text).take(4).collect();
    Some(format!("{}: {}: {found:#?}", tampering.table, tampering.what))
}

/// A copy of the node's database without other files, and the key that seals its secrets.
async fn copied(history: &History, folder: &Path) -> (PathBuf, Arc<Kek>) {
    let NodeKey::File(key) = &history.world.settings.nodes.key else { panic!("a key in a file") };
    let kek = Arc::new(Kek::from_file(key).unwrap());
    let path = folder.join(format!("node-{NODE}.db"));
    let original = history.world.settings.nodes.directory.join(format!("node-{NODE}.db"));
    let mut conn = open(&original).await;
    let copy = format!("VACUUM INTO '{}'", path.display());
    sqlx::raw_sql(AssertSqlSafe(copy)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(found(folder, &kek).await, [], "nothing is wrong yet");
    (path, kek)
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_pages_of_a_node_database_are_findings() {
    let history = History::written().await;
    let folder = tempfile::tempdir().unwrap();
    let (path, kek) = copied(&history, folder.path()).await;
    let whole = fs::read(&path).unwrap();
    let n_pages = whole.len() / 4096;
    let mut n_read = 0;
    for page in 0..n_pages {
        let mut damaged = whole.clone();
        damaged[page * 4096..page * 4096 + 512].fill(0xa5);
        fs::write(&path, damaged).unwrap();
        let found = found(folder.path(), &kek).await;
        assert_ne!(found, [], "page {page}");
        n_read += usize::from(found.iter().any(|damage| damage.table != "database"));
    }
    assert!(n_read > 4, "{n_read} of {n_pages} were read, and the others found when it was opened");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_alteration_of_a_node_database_is_found_and_named() {
    let history = History::written().await;
    let folder = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
    let (path, kek) = copied(&history, folder.path()).await;
    let mut conn = open(&path).await;
    let sql =
        "SELECT CAST(statement_index AS TEXT), operation_id FROM operation WHERE statement_index IS NOT NULL";
    let stated: Vec<(String, String)> = sqlx::query_as(sql).fetch_all(&mut conn).await.unwrap();
    let sql = "SELECT operation_id FROM operation WHERE stage = 'discarded'";
    let discarded: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut conn).await.unwrap();
    let operations =
        Operations { stated: stated.into_iter().collect(), discarded: discarded.into_iter().collect() };
    let mut all = Vec::new();
    for table in tables(&mut conn).await {
        let rows = rows(&mut conn, &table).await;
        assert!(!rows.is_empty(), "`{}` has no rows to alter: the history must fill it", table.name);
        all.extend(tamperings(&table, &rows, &operations));
    }
    conn.close().await.unwrap();
    let pristine = fs::read(&path).unwrap();
    let mut missed = Vec::new();
    for tampering in &all {
        missed.extend(check_error(&pristine, folder.path(), &kek, tampering).await);
    }
    assert!(missed.is_empty(), "{} of {}:\n{}", missed.len(), all.len(), missed.join("\n"));
    assert!(all.len() > 200, "{}", all.len());
}
