//! What a database is made of, to be compared with what its migrations make.

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use crate::options::Migration;

const SCHEMA: &str = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name";

/// A table, an index or a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// `table`, `index`, `trigger` or `view`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whose it is; a table's own name.
    pub table: String,
    /// The statement that made it; none for an index that a constraint made.
    pub sql: Option<String>,
}

/// Everything in the schema by name, but for what SQLite and the migrator have of their own.
///
/// # Errors
///
/// [`sqlx::Error`] when the schema can not be read.
pub async fn objects(conn: &mut SqliteConnection) -> Result<Vec<Object>, sqlx::Error> {
    let rows: Vec<(String, String, String, Option<String>)> = sqlx::query_as(SCHEMA).fetch_all(conn).await?;
    let is_ours = |name: &str| !name.starts_with("sqlite_") && name != "_sqlx_migrations";
    let ours = rows.into_iter().filter(|(_, name, table, _)| is_ours(name) && is_ours(table));
    Ok(ours.map(|(kind, name, table, sql)| Object { kind, name, table, sql }).collect())
}

/// As [`objects`], of a database that nobody touched.
///
/// # Errors
///
/// [`sqlx::Error`] when a migration fails.
pub async fn expected(migrations: &[Migration]) -> Result<Vec<Object>, sqlx::Error> {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await?;
    for migration in migrations {
        sqlx::raw_sql(AssertSqlSafe(migration.sql)).execute(&mut conn).await?;
    }
    let made = objects(&mut conn).await;
    conn.close().await?;
    made
}

/// Compares the two: what differs, by kind and name, and how.
pub fn differences(stored: Vec<Object>, expected: Vec<Object>) -> Vec<(String, &'static str)> {
    let named = |object: &Object| format!("{} {}", object.kind, object.name);
    let mut differing = Vec::new();
    for object in &expected {
        match stored.iter().find(|found| found.name == object.name) {
            None => differing.push((named(object), "missing")),
            Some(found) if found != object => {
                differing.push((named(object), "not as the migrations make it"));
            }
            Some(_) => {}
        }
    }
    let strays = stored.iter().filter(|found| expected.iter().all(|object| object.name != found.name));
    differing.extend(strays.map(|stray| (named(stray), "no migration makes it")));
    differing
}
