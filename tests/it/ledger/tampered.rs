//! Alters the database one row at a time (a changed value, a deleted row, a copied row) and expects `fsck` to name the row.
//! Tables and columns come from the schema, so new ones are included; [`NOT_CHECKED`] lists the exceptions.

use super::checked;
use super::history::{History, open};
use crate::harness::secrets::write_private;
use gateway_domain::policy::spending::{KEPT_MS, MINUTE_MS};
use gateway_store::Finding;
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Columns that `fsck` deliberately does not check.
const NOT_CHECKED: [(&str, &str); 9] = [
    ("write_probe", "id"),
    ("write_probe", "at_ms"),
    // When the reconciler tries again.
    ("operations", "due_ms"),
    ("operations", "waited_ms"),
    // The rate limiter's state: no history, and it expires.
    ("admission_budgets", "tenant"),
    ("admission_budgets", "client_id"),
    ("admission_budgets", "full_at_us"),
    // The migrator's notes: when a migration ran, and how long it took.
    ("_sqlx_migrations", "installed_on"),
    ("_sqlx_migrations", "execution_time"),
];
const N_WORKERS: usize = 4;

/// A table, as declared in the schema.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// The columns that identify a row.
    pub(crate) key: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    nullable: bool,
}

/// One alteration of one row, and how a finding must name it.
#[derive(Debug, Clone)]
struct Alteration {
    table: Arc<Table>,
    /// The SQL statement.
    sql: String,
    description: String,
    /// Texts of which `Finding::row` or `Finding::what` must contain one.
    names: Vec<String>,
}

async fn texts(conn: &mut SqliteConnection, sql: &str) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(conn).await.unwrap()
}

pub(crate) async fn tables(conn: &mut SqliteConnection) -> Vec<Arc<Table>> {
    // The places of webhooks are not records: they say when events are sent, and not what happened.
    let names =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'webhook%' ORDER BY name";
    let names = texts(conn, names).await;
    let mut tables = Vec::new();
    for name in names {
        let sql = format!("SELECT name, type, \"notnull\", pk FROM pragma_table_info('{name}') ORDER BY cid");
        let rows: Vec<(String, String, bool, i64)> =
            sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut *conn).await.unwrap();
        let mut key: Vec<_> =
            rows.iter().filter(|(.., place)| *place > 0).map(|(name, ..)| name.clone()).collect();
        if key.is_empty() {
            key.push("rowid".to_owned());
        }
        let column = |(name, kind, notnull, place): (String, String, bool, i64)| Column {
            name,
            kind,
            nullable: !notnull && place == 0,
        };
        let columns = rows.into_iter().map(column).collect();
        tables.push(Arc::new(Table { name, columns, key }));
    }
    tables
}

/// A row: its columns as SQL literals, and the condition that selects it.
pub(crate) struct Literals {
    pub(crate) columns: BTreeMap<String, String>,
    pub(crate) condition: String,
}

pub(crate) async fn rows(conn: &mut SqliteConnection, table: &Table) -> Vec<Literals> {
    let names: Vec<_> =
        table.columns.iter().map(|column| column.name.clone()).chain(table.key.clone()).collect();
    let quoted: Vec<_> = names.iter().map(|name| format!("quote({name})")).collect();
    let sql = format!("SELECT {} FROM {} ORDER BY {}", quoted.join(", "), table.name, table.key.join(", "));
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(conn).await.unwrap();
    let literals = |row: sqlx::sqlite::SqliteRow| {
        let columns: BTreeMap<_, _> = names
            .iter()
            .enumerate()
            .map(|(index, name)| (name.clone(), row.get::<String, _>(index)))
            .collect();
        let condition: Vec<_> = table.key.iter().map(|name| format!("{name} = {}", columns[name])).collect();
        Literals { condition: condition.join(" AND "), columns }
    };
    rows.into_iter().map(literals).collect()
}

/// Another value: an integer plus 1, or a text or blob with one bit flipped (an empty text becomes `x`).
pub(crate) fn changed_value(literal: &str, kind: &str) -> String {
    match kind {
        "INTEGER" | "BIGINT" | "BOOLEAN" => format!("{literal} + 1"),
        "BLOB" => {
            let digits = literal.strip_prefix("X'").unwrap().strip_suffix('\'').unwrap();
            let mut bytes = hex::decode(digits).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            format!("X'{}'", hex::encode(bytes))
        }
        _ if literal.parse::<i64>().is_ok() => format!("{literal} + 1"),
        _ => {
            let text = literal.strip_prefix('\'').unwrap().strip_suffix('\'').unwrap().replace("''", "'");
            let mut bytes = text.into_bytes();
            let middle = bytes.len() / 2;
            match bytes.get_mut(middle) {
                Some(byte) => *byte ^= 1,
                None => bytes.push(b'x'),
            }
            format!("CAST(X'{}' AS TEXT)", hex::encode(bytes))
        }
    }
}

/// The value as findings print it.
pub(crate) fn displayed(literal: &str) -> String {
    match literal.strip_prefix("X'") {
        Some(digits) => digits.trim_end_matches('\'').to_lowercase(),
        None => literal.trim_matches('\'').to_owned(),
    }
}

/// The texts by which a finding may name this row.
fn names(table: &Table, row: &Literals) -> Vec<String> {
    let value = |name: &str| displayed(&row.columns[name]);
    match table.name.as_str() {
        "events" => vec![
            format!("ledger_index {}", value("ledger_index")),
            format!("seq {} of operation {}", value("seq"), value("operation_id")),
        ],
        "ledger_nodes" => vec![format!("level {}, position {}", value("level"), value("position"))],
        "key_operations" => {
            vec![format!("key_id {}, ledger_index {}", value("key_id"), value("ledger_index"))]
        }
        "idempotency_claims" => vec![format!("{:?}", value("idempotency_key")), value("operation_id")],
        "policy_decisions" => vec![format!("decision_index {}", value("decision_index"))],
        "policy_previews" => vec![format!("preview_index {}", value("preview_index"))],
        "policy_activations" => vec![format!("sequence {}", value("sequence"))],
        _ => table.key.iter().map(|name| value(name)).collect(),
    }
}

fn all_alterations(table: &Arc<Table>, rows: &[Literals]) -> Vec<Alteration> {
    if table.columns.iter().all(|column| is_not_checked(table, &column.name)) {
        return Vec::new();
    }
    let mut all = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if is_forgotten(table, rows, row) {
            continue;
        }
        let mut add = |alteration: String, sql: String, names: Vec<String>| {
            let description = format!("{alteration}, {:.80}", row.condition);
            all.push(Alteration { table: Arc::clone(table), sql, description, names });
        };
        for (column, how, value) in changed_values(table, row) {
            let sql = format!("UPDATE {} SET {column} = {value} WHERE {}", table.name, row.condition);
            let names = [names(table, row), vec![new_name(table, row, column, &value)]].concat();
            add(format!("{column} {how}"), sql, names);
        }
        // Each activation contains the hash of the one before: a deleted one is reported at its successor.
        let next = rows.get(index + 1).filter(|_| table.name == "policy_activations");
        let neighbours = next.map(|next| names(table, next)).unwrap_or_default();
        let names = [names(table, row), neighbours].concat();
        add("deleted".to_owned(), format!("DELETE FROM {} WHERE {}", table.name, row.condition), names);
        for (key, value) in unused_keys(table, rows, row) {
            // A minute in which nothing was paid, as one has whose payments failed.
            if (table.name.as_str(), key) == ("spending_sums", "minute") {
                continue;
            }
            let listed: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
            let value_of =
                |name: &&str| if *name == key { value.clone() } else { row.columns[*name].clone() };
            let values: Vec<_> = listed.iter().map(value_of).collect();
            let sql =
                format!("INSERT INTO {} ({}) VALUES ({})", table.name, listed.join(", "), values.join(", "));
            add(format!("copied under another {key}"), sql, vec![new_name(table, row, key, &value)]);
        }
    }
    all
}

/// Whether the row is a sum of payments that were dropped, which is only subtracted from later ones.
fn is_forgotten(table: &Table, rows: &[Literals], row: &Literals) -> bool {
    let minute = |row: &Literals| row.columns["minute"].parse::<u64>().unwrap();
    table.name == "spending_sums"
        && rows.iter().map(minute).max().is_some_and(|newest| minute(row) + KEPT_MS / MINUTE_MS < newest)
}

fn is_not_checked(table: &Table, column: &str) -> bool {
    NOT_CHECKED.contains(&(table.name.as_str(), column))
}

/// The column, the kind of alteration, and the altered value.
fn changed_values<'a>(table: &'a Table, row: &Literals) -> Vec<(&'a str, &'static str, String)> {
    let mut all = Vec::new();
    for Column { name, kind, nullable } in &table.columns {
        let literal = &row.columns[name];
        if is_not_checked(table, name) {
            continue;
        }
        if literal == "NULL" {
            all.push((name.as_str(), "set", "zeroblob(32)".to_owned()));
            continue;
        }
        all.push((name, "changed", changed_value(literal, kind)));
        if *nullable {
            all.push((name, "set to NULL", "NULL".to_owned()));
        }
        // The same JSON value in other bytes.
        if literal.starts_with("'{") || literal.starts_with("'[") {
            all.push((name, "indented", format!("' ' || {literal}")));
        }
        if literal.starts_with("'{") && literal.contains("\"a") {
            all.push((name, "escaped", literal.replacen("\"a", "\"\\u0061", 1)));
        }
    }
    all
}

/// For each column of the key, a value that no other row is likely to have.
fn unused_keys<'a>(table: &'a Table, rows: &[Literals], row: &Literals) -> Vec<(&'a str, String)> {
    let free = |key: &'a String| {
        let kind = table.columns.iter().find(|column| column.name == *key).map(|column| column.kind.as_str());
        let numbers = rows.iter().filter_map(|row| row.columns[key].parse::<i64>().ok());
        let value = match numbers.max() {
            Some(last) => format!("{last} + 1"),
            None => changed_value(&row.columns[key], kind.unwrap_or_default()),
        };
        (key.as_str(), value)
    };
    table.key.iter().map(free).collect()
}

/// How a finding names the row after `column` was set to `value`.
fn new_name(table: &Table, row: &Literals, column: &str, value: &str) -> String {
    let number = value.strip_suffix(" + 1").and_then(|number| number.parse::<i64>().ok());
    let literal = number.map_or_else(|| value.to_owned(), |number| (number + 1).to_string());
    let text = literal.strip_prefix("CAST(X'").and_then(|text| text.strip_suffix("' AS TEXT)"));
    let literal = match text {
        Some(digits) => format!("'{}'", String::from_utf8_lossy(&hex::decode(digits).unwrap())),
        None => literal,
    };
    let mut columns = row.columns.clone();
    columns.insert(column.to_owned(), literal);
    let moved = Literals { columns, condition: String::new() };
    names(table, &moved).into_iter().next().unwrap_or_default()
}

/// Whether a text contains a name, not merely as the prefix of a longer one.
fn contains_name(text: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric());
    text.match_indices(name).any(|(at, _)| ends(&text[at + name.len()..]))
}

/// Whether a finding names the table and the row.
fn is_named(alteration: &Alteration, finding: &Finding) -> bool {
    let Alteration { table, names, .. } = alteration;
    let mentions = |name: &String| contains_name(&finding.row, name) || contains_name(&finding.what, name);
    match table.name.as_str() {
        // These only count the rows of other tables, so either table may be reported.
        "sqlite_sequence" => ["sqlite_sequence", "policy_decisions", "policy_previews", "policy_activations"]
            .contains(&finding.table.as_str()),
        "rows_dropped" => ["rows_dropped", "spending", "policy_decisions"].contains(&finding.table.as_str()),
        "policy_previews_dropped" => {
            ["policy_previews", "policy_previews_dropped"].contains(&finding.table.as_str())
        }
        name => finding.table == name && names.iter().any(mentions),
    }
}

/// Applies the statement to a fresh copy of a database. Returns false if a UNIQUE constraint rejects it. `without_triggers`: drops
/// the triggers that would forbid it, and creates them again.
pub(crate) async fn apply(pristine: &[u8], path: &Path, sql: &str, without_triggers: bool) -> bool {
    write_private(path, pristine);
    let mut conn = open(path).await;
    let mut script = format!("{sql};");
    if without_triggers {
        let names = texts(&mut conn, "SELECT name FROM sqlite_schema WHERE type = 'trigger'").await;
        let triggers = texts(&mut conn, "SELECT sql FROM sqlite_schema WHERE type = 'trigger'").await;
        let drops: String = names.iter().map(|name| format!("DROP TRIGGER {name};")).collect();
        script = format!("{drops}{script}{};", triggers.join(";"));
    }
    let done = sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut conn).await;
    conn.close().await.unwrap();
    match done {
        Err(error) if error.to_string().contains("UNIQUE constraint failed") => false,
        Err(error) => panic!("{sql}: {error}"),
        Ok(_) => true,
    }
}

/// Applies the alteration to a fresh copy, and runs `fsck` on it. `None` if a UNIQUE constraint rejects the alteration.
async fn findings(
    pristine: &[u8],
    path: &Path,
    alteration: &Alteration,
) -> Option<Result<Vec<Finding>, String>> {
    // The triggers of this table forbid any change.
    let has_triggers = alteration.table.name == "policy_activations";
    if !apply(pristine, path, &alteration.sql, has_triggers).await {
        return None;
    }
    Some(checked(path).await.map(|(findings, _)| findings).map_err(|error| error.to_string()))
}

/// A description of the alteration, if `fsck` did not report it.
async fn missing_finding(pristine: &[u8], path: &Path, alteration: &Alteration) -> Option<String> {
    match findings(pristine, path, alteration).await? {
        // Opening the database reads the list of migrations first, and may fail on it.
        Err(_) if alteration.table.name == "_sqlx_migrations" => None,
        Err(error) => {
            Some(format!("{}: {}: not opened: {error}", alteration.table.name, alteration.description))
        }
        Ok(found) if found.iter().any(|finding| is_named(alteration, finding)) => None,
        Ok(found) => {
            let found: Vec<_> = found.iter().take(6).map(ToString::to_string).collect();
            Some(format!("{}: {}: {found:#?}", alteration.table.name, alteration.description))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fsck_names_every_altered_row() {
    let history = History::written().await;
    let database = history.database();
    let mut conn = open(&database).await;
    let mut all = Vec::new();
    for table in tables(&mut conn).await {
        let rows = rows(&mut conn, &table).await;
        assert!(!rows.is_empty(), "`{}` has no rows to alter: the history must fill it", table.name);
        all.extend(all_alterations(&table, &rows));
    }
    conn.close().await.unwrap();
    let pristine: Arc<[u8]> = fs::read(&database).unwrap().into();
    let (all, next) = (Arc::new(all), Arc::new(AtomicUsize::new(0)));
    let folder = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..N_WORKERS {
        let (all, next, pristine) = (Arc::clone(&all), Arc::clone(&next), Arc::clone(&pristine));
        let path = folder.path().join(format!("{worker}.db"));
        workers.spawn(async move {
            let mut missed = Vec::new();
            while let Some(alteration) = all.get(next.fetch_add(1, Ordering::SeqCst)) {
                missed.extend(missing_finding(&pristine, &path, alteration).await);
            }
            missed
        });
    }
    let missed = workers.join_all().await.concat();
    assert!(
        missed.is_empty(),
        "{} of {} alterations were not reported:\n{}",
        missed.len(),
        all.len(),
        missed[..missed.len().min(12)].join("\n")
    );
    assert!(all.len() > 1000, "{}", all.len());
}
