//! The schema of a SQLite file, and how a stored one differs from it.

use gateway_sqlite::Migration;
use gateway_sqlite::schema::{self, differences};
use sqlx::SqliteConnection;

pub(crate) const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "store", sql: include_str!("../../migrations/sqlite/0001_store.sql") }];

/// The objects that differ from those that the migrations create, and how.
pub(crate) async fn faults(conn: &mut SqliteConnection) -> Result<Vec<(String, &'static str)>, sqlx::Error> {
    let stored = schema::objects(conn).await?;
    Ok(differences(stored, schema::expected(MIGRATIONS).await?))
}

pub(crate) fn migrations() -> Vec<&'static str> {
    MIGRATIONS.iter().map(|migration| migration.name).collect()
}
