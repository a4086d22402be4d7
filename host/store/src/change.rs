//! Changes whose statements both databases understand.

use crate::database::{Database, read_only};
use crate::error::failed;
use crate::postgres;
use crate::record::frontier::LogFrontier;
use crate::sql::rows::ReadRows;
use gateway_engine::Unavailable;
use sqlx::{PgConnection, SqliteConnection};
use std::fmt::Display;

/// A change that is written in a transaction of either database.
pub(crate) trait Change: Send + Sync + 'static {
    /// What the caller gets once the change is durable.
    type Output: Send + 'static;

    /// Runs the statements. It may run more than once before the change is durable.
    fn run<C: ReadRows>(
        &self,
        conn: &mut C,
    ) -> impl Future<Output = Result<Self::Output, sqlx::Error>> + Send;
}

/// The job of a change.
pub(crate) struct ChangeJob<T>(T);

impl<T: Change> gateway_sqlite::Job for ChangeJob<T> {
    type State = LogFrontier;
    type Output = T::Output;

    async fn apply(
        &self,
        conn: &mut SqliteConnection,
        _log: &mut LogFrontier,
    ) -> Result<T::Output, sqlx::Error> {
        self.0.run(conn).await
    }
}

impl<T: Change> postgres::Job for ChangeJob<T> {
    type Output = T::Output;

    async fn apply(&self, conn: &mut PgConnection, _log: &mut LogFrontier) -> Result<T::Output, sqlx::Error> {
        self.0.run(conn).await
    }
}

impl Database {
    /// Writes a change of which each statement stands by itself, beside the commits of operations if the database can do that.
    pub(crate) async fn change_apart<T: Change>(
        &self,
        change: T,
        what: impl Display + Send,
    ) -> Result<T::Output, Unavailable> {
        let Self::Postgres(database) = self else { return self.change(change, what).await };
        let written = async { change.run(&mut database.pool().acquire().await?).await };
        written.await.map_err(|error: sqlx::Error| failed(what, &error))
    }

    /// Writes a change. `what` is the text of the error if it fails.
    pub(crate) async fn change<T: Change>(
        &self,
        change: T,
        what: impl Display + Send,
    ) -> Result<T::Output, Unavailable> {
        match self {
            Self::Sqlite(database) => database.write(ChangeJob(change), what).await,
            Self::Postgres(database) => database.write(ChangeJob(change), what).await,
            Self::ReadOnly(_) => Err(read_only()),
        }
    }
}
