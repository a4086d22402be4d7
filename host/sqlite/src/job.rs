//! What callers implement: the write itself and the memory that goes with it.

use sqlx::SqliteConnection;

/// Memory that must stay in step with the database, such as the peaks of a Merkle tree or the next number of a
/// sequence. It is cloned before each transaction and put back when that rolls back, so a clone must be cheap
/// and share nothing that changes.
pub trait State: Clone + Send + 'static {
    /// Reads the memory from the database: at open, and whenever the writer had to connect anew.
    fn load(conn: &mut SqliteConnection) -> impl Future<Output = Result<Self, sqlx::Error>> + Send;
}

impl State for () {
    async fn load(_conn: &mut SqliteConnection) -> Result<Self, sqlx::Error> {
        Ok(())
    }
}

/// One write. Many share a transaction, and each may be run more than once before it is answered.
///
/// The contract, which keeps a refusal free of any rollback:
///
/// - Check first, then write. A job that refuses says so in its output, having written nothing and left the
///   state alone.
/// - Return every [`sqlx::Error`] but a constraint violation that is itself the answer: after a full disk or an
///   I/O error SQLite has ended the transaction already.
/// - Wait for nothing but `conn`: all other writes wait for this one.
/// - Leave BEGIN, COMMIT, ROLLBACK and SAVEPOINT to the writer.
/// - Keep what it computes in its output: a second run starts from the state and rows that the first one saw
///   rolled back.
pub trait Job: Send + Sync + 'static {
    /// The memory of the database it is meant for.
    type State: State;
    /// What the caller gets once it is durable.
    type Output: Send + 'static;

    /// Does the write on `conn`, inside a transaction, and keeps `state` in step.
    ///
    /// # Errors
    ///
    /// An error rolls the transaction back; the job is then run once more, alone, and an error there is the
    /// caller's.
    fn apply(
        &self,
        conn: &mut SqliteConnection,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<Self::Output, sqlx::Error>> + Send;
}
