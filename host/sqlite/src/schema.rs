//! Compares the schema of a database with the one that its migrations create.
//!
//! A security check: in a database without a constraint or trigger, another program could write rows that ours never
//! would. The migrator compares only the text of the migrations, not the schema of the database.

use crate::connection::Connection;
use crate::options::Migration;

const SCHEMA: &str = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name";

/// A table, an index, a trigger or a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// `table`, `index`, `trigger` or `view`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The table it belongs to; a table's own name.
    pub table: String,
    /// The statement that created it; `None` for an index that a constraint created.
    pub sql: Option<String>,
}

/// All objects of the schema by name, except those of SQLite and the migrator.
pub async fn objects(conn: &mut Connection) -> Result<Vec<Object>, sqlx::Error> {
    let is_ours = |name: &str| !name.starts_with("sqlite_") && name != "_sqlx_migrations";
    let mut ours = Vec::new();
    for row in conn.rows(SCHEMA, &[]).await? {
        let object = Object { kind: row.at(0)?, name: row.at(1)?, table: row.at(2)?, sql: row.at(3)? };
        if is_ours(&object.name) && is_ours(&object.table) {
            ours.push(object);
        }
    }
    Ok(ours)
}

/// The objects that the migrations create in a new database.
pub async fn expected(migrations: &[Migration]) -> Result<Vec<Object>, sqlx::Error> {
    let mut conn = Connection::in_memory(migrations)?;
    let made = objects(&mut conn).await;
    conn.end().await?;
    made
}

/// The objects that differ, by kind and name, and how they differ.
pub fn differences(stored: Vec<Object>, expected: Vec<Object>) -> Vec<(String, &'static str)> {
    let named = |object: &Object| format!("{} {}", object.kind, object.name);
    let mut differing = Vec::new();
    for object in &expected {
        match stored.iter().find(|found| found.name == object.name) {
            None => differing.push((named(object), "missing")),
            Some(found) if found != object => {
                differing.push((named(object), "differs from what the migrations create"));
            }
            Some(_) => {}
        }
    }
    let strays = stored.iter().filter(|found| expected.iter().all(|object| object.name != found.name));
    differing.extend(strays.map(|stray| (named(stray), "no migration creates it")));
    differing
}
