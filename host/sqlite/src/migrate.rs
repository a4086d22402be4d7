//! Brings the schema up to the caller's list, or refuses.

use std::borrow::Cow;

use sqlx::migrate::{MigrateError, MigrationType, Migrator};
use sqlx::{SqlSafeStr, SqliteConnection};

use crate::connect::Link;
use crate::error::OpenError;
use crate::options::Migration;

/// Applies what is missing, each migration in its own transaction together with the row that records it.
pub(crate) async fn migrate(
    link: &Link,
    conn: &mut SqliteConnection,
    migrations: &[Migration],
) -> Result<(), OpenError> {
    check_numbers(migrations)?;
    let steps = migrations.iter().map(step).collect();
    Migrator::with_migrations(steps).run(conn).await.map_err(|error| refusal(link, known(migrations), error))
}

/// Refuses a schema that is not exactly the caller's list, changing nothing.
pub(crate) async fn check_current(
    link: &Link,
    conn: &mut SqliteConnection,
    migrations: &[Migration],
) -> Result<(), OpenError> {
    check_numbers(migrations)?;
    let sql = "SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY version";
    let applied: Vec<(i64, Vec<u8>)> =
        sqlx::query_as(sql).fetch_all(conn).await.map_err(|error| link.failed(error))?;
    for (version, checksum) in &applied {
        let Some(known) = migrations.iter().find(|known| i64::from(known.version) == *version) else {
            return Err(refusal(link, known(migrations), MigrateError::VersionMissing(*version)));
        };
        if step(known).checksum.as_ref() != checksum.as_slice() {
            return Err(refusal(link, known.version, MigrateError::VersionMismatch(*version)));
        }
    }
    let found = u32::try_from(applied.len()).unwrap_or(u32::MAX);
    if applied.len() == migrations.len() {
        return Ok(());
    }
    Err(OpenError::OldSchema { path: link.path.clone(), found, known: known(migrations) })
}

fn step(step: &Migration) -> sqlx::migrate::Migration {
    sqlx::migrate::Migration::new(
        i64::from(step.version),
        Cow::Borrowed(step.name),
        MigrationType::Simple,
        step.sql.into_sql_str(),
        false,
    )
}

fn known(migrations: &[Migration]) -> u32 {
    u32::try_from(migrations.len()).unwrap_or(u32::MAX)
}

/// Without gaps and in order, so that a new migration can only come after every applied one.
fn check_numbers(migrations: &[Migration]) -> Result<(), OpenError> {
    for (expected, step) in (1..).zip(migrations) {
        if step.version != expected {
            return Err(OpenError::MisnumberedMigration { found: step.version, expected });
        }
    }
    Ok(())
}

fn refusal(link: &Link, known: u32, error: MigrateError) -> OpenError {
    let path = link.path.clone();
    // Versions beyond u32 can only be in a table that we did not write.
    let number = |version: i64| u32::try_from(version).unwrap_or(u32::MAX);
    match error {
        MigrateError::VersionMissing(version) => {
            OpenError::ForeignSchema { path, found: number(version), known }
        }
        MigrateError::VersionMismatch(version) => {
            OpenError::EditedMigration { path, version: number(version) }
        }
        MigrateError::ExecuteMigration(source, version) => {
            OpenError::FailedMigration { path, version: number(version), source }
        }
        MigrateError::Execute(source) => link.failed(source),
        other => link.failed(sqlx::Error::Migrate(Box::new(other))),
    }
}
