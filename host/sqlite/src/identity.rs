//! Whose database is it?

use sqlx::{AssertSqlSafe, SqliteConnection};

use crate::connect::{Link, disconnect};
use crate::error::OpenError;
use crate::options::ApplicationId;

/// What a file we may open is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// It has no tables and no owner yet.
    Fresh,
    /// It carries our application id.
    Ours,
}

/// Reads whose database it is, changing nothing in it.
pub(crate) async fn identify(link: &Link, ours: ApplicationId) -> Result<Identity, OpenError> {
    let mut conn = link.probe().await.map_err(|error| link.failed(error))?;
    let identity = identity(link, &mut conn, ours).await;
    disconnect(conn).await;
    identity
}

/// As [`identify`], on a connection that is there.
pub(crate) async fn identity(
    link: &Link,
    conn: &mut SqliteConnection,
    ours: ApplicationId,
) -> Result<Identity, OpenError> {
    let (found, n_tables) = read(conn).await.map_err(|error| link.failed(error))?;
    if found == 0 && n_tables == 0 {
        return Ok(Identity::Fresh);
    }
    if found != 0 && found == ours.get() {
        return Ok(Identity::Ours);
    }
    Err(OpenError::ForeignApplication { path: link.path.clone(), found })
}

/// Writes our application id into a fresh database.
pub(crate) async fn claim(conn: &mut SqliteConnection, ours: ApplicationId) -> Result<(), sqlx::Error> {
    // A pragma takes no bound values; the value is a number.
    let sql = format!("PRAGMA application_id = {}", ours.get());
    sqlx::query(AssertSqlSafe(sql)).execute(conn).await?;
    Ok(())
}

async fn read(conn: &mut SqliteConnection) -> Result<(i32, i64), sqlx::Error> {
    let found = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut *conn).await?;
    let n_tables = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(conn).await?;
    Ok((found, n_tables))
}
