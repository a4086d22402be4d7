//! The traits that callers implement: a write, and the state in memory that belongs to the database.

use crate::connection::Connection;

/// State in memory that always matches the database, such as the peaks of a Merkle tree. It is cloned before each
/// transaction and restored on rollback, so a clone must be cheap and share nothing mutable.
pub trait State: Clone + Send + 'static {
    /// Reads the state from the database: at open, and after the writer had to reconnect.
    fn load(conn: &mut Connection) -> impl Future<Output = Result<Self, sqlx::Error>> + Send;
}

impl State for () {
    async fn load(_conn: &mut Connection) -> Result<Self, sqlx::Error> {
        Ok(())
    }
}

/// One write. Several jobs share a transaction, and each may run more than once before it is answered.
///
/// The rules for a job:
///
/// - Check first, then write. A job that refuses says so in its output, and changes neither rows nor state. So a refusal needs no
///   rollback.
/// - Return every [`sqlx::Error`], except a constraint violation that is the answer: after a full disk or an I/O
///   error SQLite has already ended the transaction.
/// - Await nothing but `conn`: all other writes wait for this one. A job that awaits something else fails.
/// - Leave BEGIN, COMMIT, ROLLBACK and SAVEPOINT to the writer.
/// - Return results only in the output: a second run starts from the rows and the state before the first.
pub trait Job: Send + Sync + 'static {
    /// The state of the database that the job is for.
    type State: State;
    /// The value that the caller gets once the job is durable.
    type Output: Send + 'static;

    /// Writes on `conn`, inside a transaction, and updates `state` accordingly.
    ///
    /// # Errors
    ///
    /// An error rolls the transaction back. The job then runs once more, alone, and the caller gets the error of that run.
    fn apply(
        &self,
        conn: &mut Connection,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<Self::Output, sqlx::Error>> + Send;
}
