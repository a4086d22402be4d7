//! Checks that a database is ours, and brings its schema up to date.
//!
//! sqlx's [`Migrator`] applies the migrations, one replica at a time (it holds an advisory lock).

use crate::postgres::connect::{LIMITS, OpenError, Server};
use sqlx::migrate::{Migrate as _, MigrateError, MigrationType, Migrator};
use sqlx::{Executor as _, PgConnection, SqlSafeStr as _};
use std::borrow::Cow;

const MIGRATIONS: &[(i64, &str, &str)] =
    &[(1, "store", include_str!("../../migrations/postgres/0001_store.sql"))];

/// The name of any table of another program. The migrator of another program uses the same table, which is then the only one that this
/// names, as it is when our first start was ended early.
const FOREIGN: &str = "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()
    AND (to_regclass('_sqlx_migrations') IS NULL OR to_regclass('ledger_head') IS NULL)
    ORDER BY tablename = '_sqlx_migrations' LIMIT 1";
const HAS_MIGRATIONS: &str = "SELECT EXISTS (SELECT 1 FROM _sqlx_migrations)";

/// Migrations, and waiting for those of another replica, may take longer than a request.
const WAITING: &str = "SET statement_timeout = 0; SET lock_timeout = 0";
/// Waiting for a table may not, as [`LIMITS`] say: the writes of running replicas wait behind it.
const NO_STATEMENT_LIMIT: &str = "SET statement_timeout = 0";

pub(super) async fn run(server: &Server, conn: &mut PgConnection) -> Result<(), OpenError> {
    conn.execute(WAITING).await.map_err(|error| server.failed(error))?;
    conn.lock().await.map_err(|error| open_error(server, error))?;
    conn.execute(LIMITS).await.map_err(|error| server.failed(error))?;
    conn.execute(NO_STATEMENT_LIMIT).await.map_err(|error| server.failed(error))?;
    let migrated = check_ours(server, conn).await;
    let migrated = match migrated {
        Ok(()) => migrate(conn).await.map_err(|error| open_error(server, error)),
        Err(error) => Err(error),
    };
    let unlocked = conn.unlock().await.map_err(|error| open_error(server, error));
    migrated.and(unlocked)?;
    conn.execute(LIMITS).await.map(drop).map_err(|error| server.failed(error))
}

async fn migrate(conn: &mut PgConnection) -> Result<(), MigrateError> {
    let mut migrator = migrator();
    let has_limit = sqlx::query_scalar("SELECT to_regclass('schema_usable_from') IS NOT NULL");
    if has_limit.fetch_one(&mut *conn).await? {
        let usable_from: Option<i64> =
            sqlx::query_scalar("SELECT version FROM schema_usable_from WHERE id = 1")
                .fetch_optional(&mut *conn)
                .await?;
        // Migrations of the next release, which this one does not know, only added.
        migrator.set_ignore_missing(usable_from.is_some_and(|usable_from| usable_from <= known()));
        let applied: Option<i64> =
            sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations").fetch_one(&mut *conn).await?;
        if let Some(from) = applied.filter(|applied| *applied < known()) {
            tracing::info!(from, to = known(), "updating the schema of the database, which may take minutes");
        }
    }
    migrator.run_direct(None, conn, false).await
}

/// Refuses a schema that differs from the migrations. Changes nothing.
pub(super) async fn check_current(server: &Server, conn: &mut PgConnection) -> Result<(), OpenError> {
    check_ours(server, conn).await?;
    let sql = "SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY version";
    let fresh = "SELECT to_regclass('_sqlx_migrations') IS NULL";
    let is_fresh: bool =
        sqlx::query_scalar(fresh).fetch_one(&mut *conn).await.map_err(|error| server.failed(error))?;
    let applied: Vec<(i64, Vec<u8>)> = match is_fresh {
        true => Vec::new(),
        false => sqlx::query_as(sql).fetch_all(conn).await.map_err(|error| server.failed(error))?,
    };
    let migrator = migrator();
    for (version, checksum) in &applied {
        let Some(known) = migrator.iter().find(|known| known.version == *version) else {
            return Err(open_error(server, MigrateError::VersionMissing(*version)));
        };
        if known.checksum.as_ref() != checksum.as_slice() {
            return Err(open_error(server, MigrateError::VersionMismatch(*version)));
        }
    }
    let found = applied.last().map_or(0, |(version, _)| *version);
    if found == known() {
        Ok(())
    } else {
        Err(OpenError::OldSchema { server: server.name(), found, known: known() })
    }
}

async fn check_ours(server: &Server, conn: &mut PgConnection) -> Result<(), OpenError> {
    match foreign(conn).await.map_err(|error| server.failed(error))? {
        None => Ok(()),
        Some(table) => Err(OpenError::Foreign { server: server.name(), table }),
    }
}

async fn foreign(conn: &mut PgConnection) -> Result<Option<String>, sqlx::Error> {
    let table: Option<String> = sqlx::query_scalar(FOREIGN).fetch_optional(&mut *conn).await?;
    let is_begun = table.as_deref() == Some("_sqlx_migrations")
        && !sqlx::query_scalar::<_, bool>(HAS_MIGRATIONS).fetch_one(conn).await?;
    Ok(table.filter(|_| !is_begun))
}

fn migrator() -> Migrator {
    let step = |(version, name, sql): &(i64, &'static str, &'static str)| {
        let (name, sql) = (Cow::Borrowed(*name), sql.into_sql_str());
        sqlx::migrate::Migration::new(*version, name, MigrationType::Simple, sql, false)
    };
    let mut migrator = Migrator::with_migrations(MIGRATIONS.iter().map(step).collect());
    // `run` holds the lock already.
    migrator.set_locking(false);
    migrator
}

/// The newest version.
fn known() -> i64 {
    MIGRATIONS.last().map_or(0, |(version, ..)| *version)
}

/// Names and texts of the migrations, in order.
pub(super) fn migrations() -> impl Iterator<Item = (&'static str, &'static str)> {
    MIGRATIONS.iter().map(|(_, name, sql)| (*name, *sql))
}

fn open_error(server: &Server, error: MigrateError) -> OpenError {
    let name = server.name();
    match error {
        MigrateError::VersionMissing(found) => OpenError::NewerSchema { server: name, found, known: known() },
        MigrateError::VersionMismatch(version) => OpenError::EditedMigration { server: name, version },
        MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) => server.failed(source),
        other => server.failed(sqlx::Error::Migrate(Box::new(other))),
    }
}
