//! Alterations of a node's database are found: each column of each table altered, and rows deleted. Tables are read from the
//! schema, so a new one is included.

use crate::harness::secrets::make_private;
use crate::ledger::history::{History, open};
use crate::ledger::tampered::{Literals, Table, apply, changed_value, displayed, rows, tables};
use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_fleet::open_file;
use gateway_fleet::{Damage, check_file};
use gateway_seal::at_rest::Kek;
use gateway_seal::kek_source::{Creates, KekSource};
use gateway_seal::key_file;
use operation_gateway::compose;
use policy_authority::Authority;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Columns in which sqlx notes when a migration ran, and how long it took.
const NOT_CHECKED: [(&str, &str); 2] =
    [("_sqlx_migrations", "installed_on"), ("_sqlx_migrations", "execution_time")];

/// At most so many rows of a table are altered, spread evenly.
const ROWS_MAX: usize = 40;

/// The node whose database is altered. In [`History`] it signs, and has active, retired and erased shares.
const NODE: u16 = 0;

/// One alteration of one row.
struct Tampering {
    table: String,
    what: String,
    sql: String,
    /// A finding that contains any of these names the row: its key before or after the alteration, or its operation.
    names: Vec<String>,
}

/// Operation ids in the database.
struct Operations {
    /// By the index of the operation's statement.
    stated: BTreeMap<String, String>,
    /// Of discarded operations.
    discarded: BTreeSet<String>,
}

/// The row as findings name it: by the columns of its key, one of which may be changed.
fn row_name(table: &Table, row: &Literals, changed: Option<(&str, &str)>) -> String {
    let value = |column: &String| match changed {
        Some((name, value)) if name == column => displayed(value),
        _ => displayed(&row.columns[column]),
    };
    table.key.iter().map(|column| format!("{column} {}", value(column))).collect::<Vec<_>>().join(", ")
}

/// The id of the operation that the row belongs to, if any.
fn operation_of(row: &Literals, operations: &Operations) -> Option<String> {
    let by_id = row.columns.get("operation_id").map(|id| displayed(id));
    let by_effect =
        row.columns.get("effect_id").map(|id| displayed(id).split('.').next().unwrap().to_owned());
    let by_statement =
        || row.columns.get("statement_index").and_then(|index| operations.stated.get(index)).cloned();
    by_id.or(by_effect).or_else(by_statement)
}

/// The value that the SQL expression of an alteration gives, as a literal.
fn evaluate(value: &str) -> String {
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
        let operation = operation_of(row, operations);
        named.extend(operation.clone());
        for column in &table.columns {
            let literal = &row.columns[&column.name];
            if literal == "NULL" || NOT_CHECKED.contains(&(&table.name, &column.name)) {
                continue;
            }
            let value = changed_value(literal, &column.kind);
            let sql = format!("UPDATE {} SET {} = {value} WHERE {}", table.name, column.name, row.condition);
            let mut names = named.clone();
            names.push(row_name(table, row, Some((&column.name, &evaluate(&value)))));
            let what = format!("{} flipped, {:.90}", column.name, row.condition);
            all.push(Tampering { table: table.name.clone(), what, sql, names });
        }
        // Only the log records which steps a discarded operation had reached. No other row records when a payment was admitted, or with which
        // documents: it is removed after a while.
        let is_discarded = operation.is_some_and(|id| operations.discarded.contains(&id));
        let is_unchecked = match table.name.as_str() {
            "spending" | "document" => true,
            "effect" => is_discarded && row.columns["effect_id"].contains(".policy-receipt."),
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

async fn findings(folder: &Path, kek: &Arc<Kek>) -> Vec<Damage> {
    check_file(folder, ParticipantIndex(NODE), kek).await
}

/// A message if the check misses this alteration. `None` also if the database rejects it, as a duplicate unique key.
async fn check_error(
    pristine: &[u8],
    folder: &Path,
    kek: &Arc<Kek>,
    tampering: &Tampering,
) -> Option<String> {
    let path = folder.join(format!("node-{NODE}.db"));
    // Triggers would reject some alterations.
    if !apply(pristine, &path, &tampering.sql, true).await {
        return None;
    }
    let found = findings(folder, kek).await;
    let text = |damage: &Damage| damage.to_string();
    let names_row = |damage: &Damage| tampering.names.iter().any(|name| text(damage).contains(name.as_str()));
    // If the check cannot open the database, or the row of the node itself is wrong, it names no other row.
    let is_whole = |damage: &Damage| {
        damage.table == "database" && ["_sqlx_migrations", "node"].contains(&tampering.table.as_str())
            || damage.table == "node"
    };
    if found.iter().any(|damage| is_whole(damage) || names_row(damage)) {
        return None;
    }
    let found: Vec<_> = found.iter().map(text).take(4).collect();
    Some(format!("{}: {}: {found:#?}", tampering.table, tampering.what))
}

/// Copies the node's database into `folder`; returns its path, and the key that seals its secrets.
async fn copy_database(history: &History, folder: &Path) -> (PathBuf, Arc<Kek>) {
    let KekSource::File(key) = &history.world.settings.nodes.key else { panic!("a key in a file") };
    let kek = Arc::new(Kek::from_file(key).unwrap());
    let path = folder.join(format!("node-{NODE}.db"));
    let original = history.world.settings.nodes.directory.join(format!("node-{NODE}.db"));
    let mut conn = open(&original).await;
    let copy = format!("VACUUM INTO '{}'", path.display());
    sqlx::raw_sql(AssertSqlSafe(copy)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    make_private(&path);
    assert_eq!(findings(folder, &kek).await, [], "the copy must be undamaged");
    (path, kek)
}

/// Readmits the node of the copied database, as after a rollback that lost two entries of its log.
async fn readmit(history: &History, folder: &Path) {
    let mut settings = history.world.settings.clone();
    settings.nodes.directory = folder.to_owned();
    let authority = key_file::load(&settings.authority.key).unwrap();
    let public = Authority::new(&authority).public_key();
    let kek = Arc::new(KekSource::load(&settings.nodes.key, folder, Creates::Nothing).unwrap());
    let file = open_file(folder, ParticipantIndex(NODE), &kek).await.unwrap();
    let size = file.log_head(EpochMs(0)).await.unwrap().head.size;
    file.close().await;
    let config = compose::fleet_config(&settings, &[public], kek).unwrap();
    gateway_fleet::readmit(&config, ParticipantIndex(NODE), size + 2).await.unwrap();
}

/// The policy of the history reads no documents.
async fn add_document(conn: &mut SqliteConnection) {
    let (hash, previous) = (Hex32::new([7; 32]), Hex32::ZERO);
    let row_hash = canonical::digest("svc/document-row/v1", &("rates", 5_u64, hash, EpochMs(1), previous));
    let sql = "INSERT INTO document (name, sequence, document_hash, since_ms, previous_hash, row_hash) \
               VALUES ('rates', 5, ?1, 1, ?2, ?3)";
    let inserted = sqlx::query(sql).bind(hash.to_string()).bind(previous.to_string());
    inserted.bind(row_hash.unwrap().to_string()).execute(conn).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_pages_of_a_node_database_are_findings() {
    let history = History::written().await;
    let folder = tempfile::tempdir().unwrap();
    let (path, kek) = copy_database(&history, folder.path()).await;
    let undamaged = fs::read(&path).unwrap();
    let n_pages = undamaged.len() / 4096;
    let mut n_read = 0;
    for page in 0..n_pages {
        let mut damaged = undamaged.clone();
        damaged[page * 4096..page * 4096 + 512].fill(0xa5);
        fs::write(&path, damaged).unwrap();
        let found = findings(folder.path(), &kek).await;
        assert_ne!(found, [], "page {page}");
        n_read += usize::from(found.iter().any(|damage| damage.table != "database"));
    }
    assert!(n_read > 4, "only {n_read} of {n_pages} pages were found by a check after opening");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_alteration_of_a_node_database_is_found_and_named() {
    let history = History::written().await;
    let folder = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
    let (path, kek) = copy_database(&history, folder.path()).await;
    readmit(&history, folder.path()).await;
    let mut conn = open(&path).await;
    add_document(&mut conn).await;
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
        // Nothing here is old enough.
        let may_be_empty = table.name == "rows_dropped";
        assert!(
            may_be_empty || !rows.is_empty(),
            "`{}` has no rows to alter: the history must fill it",
            table.name
        );
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
