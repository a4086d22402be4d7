//! Checks which program a database belongs to, and brings its schema up to date.
//!
//! sqlx's [`Migrator`] applies the migrations. It has no read-only check, so [`check_current`] compares its table.

use std::borrow::Cow;

use sqlx::migrate::{MigrateError, MigrationType, Migrator};
use sqlx::{Connection as _, SqlSafeStr};

use crate::connect::{Link, log_unclosed};
use crate::connection::Connection;
use crate::error::OpenError;
use crate::options::{ApplicationId, Migration};

/// Which program a database belongs to. One of another program is an error instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// It has neither tables nor an application id yet.
    Fresh,
    /// It has our application id.
    Ours,
}

/// Reads the application id on a connection of its own. Changes nothing in the file.
pub(crate) async fn identify(link: &Link, ours: ApplicationId) -> Result<Identity, OpenError> {
    let mut conn = link.probe().map_err(|error| link.failed(error))?;
    let identity = identity(link, &mut conn, ours).await;
    log_unclosed(conn.end().await);
    identity
}

/// Like [`identify`], on an open connection.
pub(crate) async fn identity(
    link: &Link,
    conn: &mut Connection,
    ours: ApplicationId,
) -> Result<Identity, OpenError> {
    let failed = |error| link.failed(error);
    // A signed number of 32 bits.
    let found: i64 = conn.value("PRAGMA application_id", &[]).await.map_err(failed)?;
    let found = i32::try_from(found).unwrap_or_default();
    let n_tables: i64 = conn.value("SELECT count(*) FROM sqlite_schema", &[]).await.map_err(failed)?;
    if found == 0 && n_tables == 0 {
        return Ok(Identity::Fresh);
    }
    if found != 0 && found == ours.get() {
        return Ok(Identity::Ours);
    }
    Err(OpenError::ForeignApplication { path: link.path.clone(), found })
}

/// Writes our application id into a fresh database.
pub(crate) async fn write_application_id(
    conn: &mut Connection,
    ours: ApplicationId,
) -> Result<(), sqlx::Error> {
    // A pragma takes no bound values; the value is a number.
    conn.run(&format!("PRAGMA application_id = {}", ours.get()), &[]).await
}

/// Applies the missing migrations on a connection of its own, each in a transaction with the row that records it.
pub(crate) async fn migrate(link: &Link, migrations: &[Migration]) -> Result<(), OpenError> {
    check_numbers(migrations)?;
    let mut conn = link.migrator().await.map_err(|error| link.failed(error))?;
    let newest = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations").fetch_one(&mut conn);
    // A fresh database has no such table.
    let from: Option<i64> = newest.await.unwrap_or_default();
    let to = known(migrations);
    if from.is_some_and(|from| from < i64::from(to)) {
        let path = link.path.display();
        tracing::info!(%path, from, to, "updating the schema of the database, which may take minutes");
    }
    let steps = migrations.iter().map(to_sqlx).collect();
    let migrated = Migrator::with_migrations(steps).run(&mut conn).await;
    log_unclosed(conn.close().await);
    migrated.map_err(|error| open_error(link, known(migrations), error))
}

/// Refuses a schema that differs from `migrations`. Changes nothing.
pub(crate) async fn check_current(
    link: &Link,
    conn: &mut Connection,
    migrations: &[Migration],
) -> Result<(), OpenError> {
    check_numbers(migrations)?;
    let sql = "SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY version";
    let rows = conn.rows(sql, &[]).await.map_err(|error| link.failed(error))?;
    let applied = rows.iter().map(|row| Ok((row.at::<i64>(0)?, row.at::<Vec<u8>>(1)?)));
    let applied: Vec<_> = applied.collect::<Result<_, _>>().map_err(|error| link.failed(error))?;
    for (version, checksum) in &applied {
        let Some(known) = migrations.iter().find(|known| i64::from(known.version) == *version) else {
            return Err(open_error(link, known(migrations), MigrateError::VersionMissing(*version)));
        };
        if to_sqlx(known).checksum.as_ref() != checksum.as_slice() {
            return Err(open_error(link, known.version, MigrateError::VersionMismatch(*version)));
        }
    }
    let found = u32::try_from(applied.len()).unwrap_or(u32::MAX);
    if applied.len() == migrations.len() {
        return Ok(());
    }
    Err(OpenError::OldSchema { path: link.path.clone(), found, known: known(migrations) })
}

fn to_sqlx(migration: &Migration) -> sqlx::migrate::Migration {
    sqlx::migrate::Migration::new(
        i64::from(migration.version),
        Cow::Borrowed(migration.name),
        MigrationType::Simple,
        migration.sql.into_sql_str(),
        false,
    )
}

/// The newest version.
fn known(migrations: &[Migration]) -> u32 {
    u32::try_from(migrations.len()).unwrap_or(u32::MAX)
}

/// Checks that versions are in order and without gaps, so that a new migration comes after every applied one.
fn check_numbers(migrations: &[Migration]) -> Result<(), OpenError> {
    for (expected, step) in (1..).zip(migrations) {
        if step.version != expected {
            return Err(OpenError::MisnumberedMigration { found: step.version, expected });
        }
    }
    Ok(())
}

fn open_error(link: &Link, known: u32, error: MigrateError) -> OpenError {
    let path = link.path.clone();
    // A version beyond u32 was written by another program.
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
