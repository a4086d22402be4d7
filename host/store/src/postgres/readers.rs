//! Read connections to a server, which may stop answering.

use crate::error::has_code;
use crate::postgres::connect::{
    ANSWER_WITHIN, CONNECT_WITHIN, IDLE_ANSWERS_WITHIN, NO_LIMITS, OpenError, SESSION, Server, begin_session,
    check_alive, set,
};
use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Row};
use crate::sql::statements::Statements;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgConnection, PgPool, Postgres};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// A connection that was idle for less than this is not asked whether it answers before a single statement, which can be sent again on
/// another one: that would double the round trips. If the server is gone since, the statement waits as one that ran then.
const ANSWERED_LATELY: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub(crate) struct PgReaders {
    pub(crate) pool: PgPool,
    server: Arc<Server>,
    /// Time for the answer to one statement, after which the connection is given up.
    answer_within: Duration,
}

/// One of them. Dropped in the middle of a statement or of a transaction, it is closed, since waiting for the server's answer could take
/// as long as the network does; and after a failed statement, since the session may be at fault: a new one has the server's settings of
/// today.
#[derive(Debug)]
pub(crate) struct PgReader {
    conn: PoolConnection<Postgres>,
    answer_within: Duration,
    /// Whether a statement runs, or failed.
    is_unfit: bool,
    in_transaction: bool,
}

impl PgReaders {
    /// The read connections of a replica. A standby could show an older state than was acknowledged.
    pub(super) async fn of_replica(server: &Server, n_max: u32) -> Result<Self, OpenError> {
        let pool = PgPoolOptions::new()
            .max_connections(n_max)
            .after_connect(|conn, _| Box::pin(begin_session(conn)))
            // The pool's own test has no limit but that of the whole wait for a connection.
            .test_before_acquire(false)
            .before_acquire(|conn, since| {
                Box::pin(async move { Ok(since.idle_for < ANSWERED_LATELY || check_alive(conn).await?) })
            });
        Self::open(server, pool, ANSWER_WITHIN).await
    }

    /// The connections of a tool that reads the whole database: one for its long transaction, one beside it.
    pub(super) async fn of_tool(server: &Server) -> Result<Self, OpenError> {
        let pool = PgPoolOptions::new().max_connections(2).after_connect(|conn, _| {
            Box::pin(async {
                set(conn, SESSION).await?;
                set(conn, NO_LIMITS).await
            })
        });
        Self::open(server, pool, Duration::MAX).await
    }

    async fn open(server: &Server, pool: PgPoolOptions, answer_within: Duration) -> Result<Self, OpenError> {
        let pool = pool.acquire_timeout(CONNECT_WITHIN).connect_with(server.options()).await;
        let pool = pool.map_err(|error| server.failed(error))?;
        Ok(Self { pool, server: Arc::new(server.clone()), answer_within })
    }

    /// A connection that answers.
    pub(crate) async fn acquire(&self) -> Result<PgReader, sqlx::Error> {
        let mut n_others = self.n_max();
        loop {
            let mut reader = self.take().await?;
            match check_alive(&mut reader.conn).await {
                Ok(_) => return Ok(reader),
                Err(error) if n_others == 0 => return Err(error),
                Err(_) => reader.is_unfit = true,
            }
            n_others = n_others.saturating_sub(1);
        }
    }

    /// A connection that answered lately, or does now.
    async fn take(&self) -> Result<PgReader, sqlx::Error> {
        let conn = match self.pool.acquire().await {
            Err(error) if has_code(&error, &["28"]) => {
                // The password may be another one by now.
                self.pool.set_connect_options(self.server.options());
                self.pool.acquire().await?
            }
            conn => conn?,
        };
        Ok(PgReader { conn, answer_within: self.answer_within, is_unfit: false, in_transaction: false })
    }

    fn n_max(&self) -> u32 {
        self.pool.options().get_max_connections()
    }

    /// The rows of a statement. If its session is at fault, another one is tried.
    pub(crate) async fn rows(&self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        let mut n_others = self.n_max();
        loop {
            let rows = self.take().await?.rows(sql, bound).await;
            if n_others == 0 || !rows.as_ref().is_err_and(is_of_session) {
                return rows;
            }
            n_others = n_others.saturating_sub(1);
        }
    }

    /// Begins a read transaction: all its statements see one state. Dropping it ends it.
    pub(crate) async fn snapshot(&self) -> Result<PgReader, sqlx::Error> {
        let mut reader = self.acquire().await?;
        reader.in_transaction = true;
        reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
        Ok(reader)
    }
}

/// Whether the server ended the session (57P01 to 57P03), the connection was lost, or the session began while the server took no writes, and
/// therefore never takes any (25006).
fn is_of_session(error: &sqlx::Error) -> bool {
    let is_lost = |error: &io::Error| error.kind() != io::ErrorKind::TimedOut;
    matches!(error, sqlx::Error::Io(error) if is_lost(error)) || has_code(error, &["25006", "57P0"])
}

impl PgReader {
    async fn answer<T>(
        &mut self,
        statement: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        self.is_unfit = true;
        let answer = timeout(self.answer_within, statement(&mut self.conn)).await;
        let late = || {
            let seconds = self.answer_within.as_secs();
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the database server did not answer within {seconds} s"),
            )
        };
        let answer = answer.map_err(|_| sqlx::Error::Io(late()))??;
        self.is_unfit = false;
        Ok(answer)
    }

    /// The connection, whose statements are then not limited in time.
    pub(crate) fn conn(&mut self) -> &mut PgConnection {
        &mut self.conn
    }

    /// Ends the transaction, so that the connection is free at once.
    pub(crate) async fn end(mut self) -> Result<(), sqlx::Error> {
        self.run("COMMIT").await?;
        self.in_transaction = false;
        Ok(())
    }

    async fn run(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        self.answer(async |conn| sqlx::query(sql).execute(conn).await.map(drop)).await
    }
}

impl Connection for PgReader {
    fn statements(&self) -> &'static Statements {
        self.conn.statements()
    }

    async fn rows(&mut self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        self.answer(async |conn| Connection::rows(conn, sql, bound).await).await
    }
}

impl Drop for PgReader {
    fn drop(&mut self) {
        if self.is_unfit || self.in_transaction {
            self.conn.close_on_drop();
        } else {
            // The pool asks it whether it still answers, and would wait without end, with one connection fewer.
            tokio::spawn(timeout(IDLE_ANSWERS_WITHIN, self.conn.return_to_pool()));
        }
    }
}
