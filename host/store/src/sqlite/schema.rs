//! What `fsck` checks of a SQLite file beside its rows: the schema, with the one that the migrations create.

use super::MIGRATIONS;
use gateway_sqlite::schema::{self, differences};
use sqlx::SqliteConnection;

/// The objects that differ from those that the migrations create, and how.
pub(crate) async fn faults(conn: &mut SqliteConnection) -> Result<Vec<(String, &'static str)>, sqlx::Error> {
    let stored = schema::objects(conn).await?;
    Ok(differences(stored, schema::expected(MIGRATIONS).await?))
}

/// Names of the migrations, in order.
pub(crate) fn migrations() -> impl Iterator<Item = &'static str> {
    MIGRATIONS.iter().map(|migration| migration.name)
}
