//! The task that writes for this replica. It commits all waiting changes together, in a transaction that holds the end of the log.

use crate::change::{CommitWrite, Counters, Write};
use crate::error::has_code;
use crate::postgres::commits;
use crate::postgres::connect::{ANSWER_WITHIN, OpenError, Server};
use crate::postgres::job::{Ticket, Waiting, WriteError, catch_panic};
use crate::postgres::replicas::{MAY_WRITE, MayWrite};
use crate::record::frontier::{self, LogFrontier};
use crate::sql::connection::Connection as _;
use crate::sql::row::{Hashes, Row};
use gateway_domain::ids::Hex32;
use gateway_engine::ports::RateLimited;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};

/// Changes that wait at most; further callers wait to queue theirs.
const JOBS_QUEUED_MAX: usize = 4096;

/// Changes in one transaction. With more, sharing the lock and the sync gains little.
const JOBS_PER_COMMIT_MAX: usize = 64;

/// Runs of a transaction that ended without writing, because its connection was lost or the server chose another transaction.
const RUNS_MAX: usize = 3;

/// Entries that other replicas appended, up to which this one catches up by reading them. Beyond, it reads the tree.
const CATCH_UP_MAX: u64 = 1024;

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;";
const LOCK: &str = "EXECUTE lock_log";

/// The statements that are sent together with BEGIN and COMMIT, planned once for each session.
const PREPARE: &str = "PREPARE lock_log AS SELECT n_leaves, root FROM ledger_head WHERE id = 1 FOR UPDATE;
    PREPARE end_log (bigint, bytea) AS UPDATE ledger_head SET n_leaves = $1, root = $2 WHERE id = 1;";
const APPENDED: &str =
    "SELECT ledger_index, hash FROM ledger_leaves WHERE ledger_index >= $1 ORDER BY ledger_index";

type Batch = Vec<Waiting>;

enum Message {
    Job(Waiting),
    /// Finish the queued jobs, close the connection, then answer.
    Close(oneshot::Sender<()>),
}

/// The queue to the task.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Message>,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    jobs: AtomicU64,
    transactions: AtomicU64,
    rollbacks: AtomicU64,
}

impl Writer {
    /// Reads the log, and starts the task.
    pub(super) async fn start(
        server: Server,
        mut conn: PgConnection,
        may_write: Arc<MayWrite>,
    ) -> Result<Self, OpenError> {
        let name = server.name();
        prepare(&mut conn).await.map_err(|error| server.failed(error))?;
        let tally = Arc::new(Tally::default());
        let mut session =
            Session { server, conn: Some(conn), log: None, may_write, tally: Arc::clone(&tally) };
        session.load().await.map_err(|error| match error {
            sqlx::Error::Decode(reason) => OpenError::Damaged { server: name, reason: reason.to_string() },
            error => session.server.failed(error),
        })?;
        let (queue, receiver) = mpsc::channel(JOBS_QUEUED_MAX);
        tokio::spawn(serve(session, receiver));
        Ok(Self { queue, tally })
    }

    /// Runs the write and returns its output once it is durable. Once it is queued, dropping the future does not stop it.
    pub(super) async fn write<W: Write>(&self, write: W) -> Result<W::Output, WriteError> {
        self.queued(write, |ticket| Waiting::Other(Box::new(ticket))).await
    }

    /// As [`Self::write`], together with other commits.
    pub(super) async fn commit(&self, commit: CommitWrite) -> Result<RateLimited<Hex32>, WriteError> {
        self.queued(commit, |ticket| Waiting::Commit(Box::new(ticket))).await
    }

    async fn queued<W: Write>(
        &self,
        write: W,
        waiting: impl FnOnce(Ticket<W>) -> Waiting,
    ) -> Result<W::Output, WriteError> {
        let (caller, answer) = oneshot::channel();
        let message = Message::Job(waiting(Ticket::new(write, caller)));
        self.queue.send(message).await.map_err(|_| WriteError::Closed)?;
        answer.await.unwrap_or(Err(WriteError::Closed))
    }

    pub(super) fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Tally { jobs, transactions, rollbacks } = &*self.tally;
        // One statement a job, but for activations.
        let jobs = read(jobs);
        Counters { jobs, transactions: read(transactions), rollbacks: read(rollbacks), statements: jobs }
    }

    pub(super) async fn close(&self) {
        let (caller, closed) = oneshot::channel();
        if self.queue.send(Message::Close(caller)).await.is_ok() {
            let _ = closed.await;
        }
    }
}

/// Runs until the queue is closed and empty.
async fn serve(mut session: Session, mut queue: mpsc::Receiver<Message>) {
    let mut closers = Vec::new();
    let mut batch = Vec::with_capacity(JOBS_PER_COMMIT_MAX);
    while queue.recv_many(&mut batch, JOBS_PER_COMMIT_MAX).await > 0 {
        let mut jobs = Vec::with_capacity(batch.len());
        for message in batch.drain(..) {
            match message {
                Message::Job(job) => jobs.push(job),
                Message::Close(caller) => {
                    queue.close();
                    closers.push(caller);
                }
            }
        }
        if !jobs.is_empty() {
            commit(&mut session, jobs).await;
        }
    }
    if let Some(conn) = session.conn.take() {
        let _ = conn.close().await;
    }
    for caller in closers {
        let _ = caller.send(());
    }
}

/// Commits the jobs in one transaction; if one of them fails, each in its own.
async fn commit(session: &mut Session, mut batch: Batch) {
    let outcome = session.transaction_with_retries(&mut batch).await;
    let is_job_s_fault = matches!(&outcome, Err(Failure::Job(_)));
    if batch.len() == 1 || !is_job_s_fault {
        return answer(batch, outcome);
    }
    let mut rest = batch.into_iter();
    while let Some(job) = rest.next() {
        let mut alone = vec![job];
        let outcome = session.transaction_with_retries(&mut alone).await;
        // Without the server, the others would wait for nothing.
        let ended = match &outcome {
            Err(Failure::Session(error) | Failure::InDoubt(error)) => Some(error.to_string()),
            Err(Failure::Job(_)) | Ok(()) => None,
        };
        answer(alone, outcome);
        if let Some(why) = ended {
            let error = sqlx::Error::Protocol(format!("the change before it failed: {why}"));
            return answer(rest.collect(), Err(Failure::Session(error)));
        }
    }
}

/// Answers the callers of a transaction's jobs.
fn answer(batch: Batch, outcome: Result<(), Failure>) {
    let error = match outcome {
        Ok(()) => return batch.into_iter().for_each(Waiting::answer),
        Err(Failure::Session(error) | Failure::Job(error)) => WriteError::Unwritten(Arc::new(error)),
        Err(Failure::InDoubt(error)) => WriteError::InDoubt(Arc::new(error)),
    };
    for job in batch {
        job.fail(error.clone());
    }
}

/// Why a transaction was not committed.
enum Failure {
    /// One of the jobs is at fault; nothing was written.
    Job(sqlx::Error),
    /// The connection, the lock or the server failed before the COMMIT; nothing was written.
    Session(sqlx::Error),
    /// The COMMIT was not acknowledged.
    InDoubt(sqlx::Error),
}

impl Failure {
    /// Whether the same transaction may succeed at once: the connection was lost before the COMMIT, or the server chose another
    /// transaction (class 40 of PostgreSQL, appendix A).
    fn may_pass(&self) -> bool {
        match self {
            Self::InDoubt(_) | Self::Job(_) => false,
            // 57P01 to 57P03: the server stops, or starts.
            Self::Session(error) => is_lost(error) || has_code(error, &["40", "57P0"]),
        }
    }

    /// The failure of a statement of a job.
    fn of_job(error: sqlx::Error) -> Self {
        let is_job_s_fault = match &error {
            // Invalid data, a violated constraint, too large a value.
            sqlx::Error::Database(_) => has_code(&error, &["21", "22", "23", "54"]),
            error => !is_lost(error) && !matches!(error, sqlx::Error::PoolTimedOut),
        };
        if is_job_s_fault { Self::Job(error) } else { Self::Session(error) }
    }

    /// The failure of a COMMIT. Only a violated constraint, or a conflict with another transaction, says that nothing was written.
    /// After others it may be durable: a server that stops while it waits for its standby has already committed.
    fn of_commit(error: sqlx::Error) -> Self {
        if has_code(&error, &["23"]) {
            Self::Job(error)
        } else if has_code(&error, &["40001", "40002", "40P01"]) {
            Self::Session(error)
        } else {
            Self::InDoubt(error)
        }
    }
}

const fn is_lost(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_))
}

async fn within<T>(answer: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    tokio::time::timeout(ANSWER_WITHIN, answer).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

/// The writing connection, and the end of the log as this replica knows it.
struct Session {
    server: Server,
    // INVARIANT: `Some` means open and outside of any transaction. `transaction` takes it out, and puts it back only if that is true.
    conn: Option<PgConnection>,
    /// A state of the log that was committed. Others may have appended to it since.
    log: Option<LogFrontier>,
    may_write: Arc<MayWrite>,
    tally: Arc<Tally>,
}

impl Session {
    async fn transaction_with_retries(&mut self, jobs: &mut Batch) -> Result<(), Failure> {
        for _ in 1..RUNS_MAX {
            match self.transaction(jobs).await {
                Err(failure) if failure.may_pass() => {}
                outcome => return outcome,
            }
        }
        self.transaction(jobs).await
    }

    async fn transaction(&mut self, jobs: &mut Batch) -> Result<(), Failure> {
        let mut conn = self.take_connection().await.map_err(Failure::Session)?;
        let outcome = self.run(&mut conn, jobs).await;
        match &outcome {
            Ok(()) => {
                self.tally.jobs.fetch_add(jobs.len() as u64, Ordering::Relaxed);
                self.tally.transactions.fetch_add(1, Ordering::Relaxed);
                self.conn = Some(conn);
            }
            Err(Failure::Job(error)) if error.as_database_error().is_some() => {
                self.tally.rollbacks.fetch_add(1, Ordering::Relaxed);
                if within(sqlx::query("ROLLBACK").execute(&mut conn)).await.is_ok() {
                    self.conn = Some(conn);
                }
            }
            // The server ends the transaction of a connection that is closed. A new one has the server's settings of today: a session that
            // began while the server took no writes never takes any.
            Err(Failure::Job(_) | Failure::Session(_) | Failure::InDoubt(_)) => {
                self.tally.rollbacks.fetch_add(1, Ordering::Relaxed);
            }
        }
        outcome
    }

    async fn run(&mut self, conn: &mut PgConnection, jobs: &mut Batch) -> Result<(), Failure> {
        let mut log = within(self.begin(conn)).await.map_err(Failure::Session)?;
        let before = log.next_index();
        let mut commits = Vec::with_capacity(jobs.len());
        for job in jobs.iter_mut() {
            match job {
                Waiting::Commit(ticket) => commits.push(ticket),
                Waiting::Other(job) => {
                    within(catch_panic(job.apply(conn, &mut log))).await.map_err(Failure::of_job)?;
                }
            }
        }
        let writes: Vec<_> = commits.iter().map(|ticket| &ticket.write).collect();
        let written = within(catch_panic(commits::write(conn, &mut log, &writes))).await;
        let outcomes = written.map_err(Failure::of_job)?;
        for (ticket, outcome) in commits.into_iter().zip(outcomes) {
            ticket.output = Some(outcome);
        }
        let end = if log.next_index() == before {
            "COMMIT".to_owned()
        } else {
            let (n_leaves, root) = (log.next_index(), log.root());
            format!("EXECUTE end_log ({n_leaves}, '\\x{root}'); COMMIT")
        };
        within(sqlx::raw_sql(AssertSqlSafe(end)).execute(conn)).await.map_err(Failure::of_commit)?;
        self.log = Some(log);
        Ok(())
    }

    /// Begins a transaction, locks the end of the log and returns it.
    async fn begin(&mut self, conn: &mut PgConnection) -> Result<LogFrontier, sqlx::Error> {
        let may_write = self.may_write.statement();
        let begin = format!("{BEGIN}{}{LOCK}", may_write.as_deref().unwrap_or_default());
        let rows = sqlx::raw_sql(AssertSqlSafe(begin)).fetch_all(&mut *conn).await?;
        let head = match (rows.as_slice(), may_write) {
            ([head], None) | ([_, head], Some(_)) => head,
            ([_], Some(_)) => {
                let reason = "this replica was not heard of for a while, or differs from one that was here first: it writes nothing before it has met the others";
                return Err(sqlx::Error::Configuration(reason.into()));
            }
            _ => return Err(frontier::damaged("its end is not stored")),
        };
        let (n_leaves, root): (i64, Vec<u8>) = (head.try_get("n_leaves")?, head.try_get("root")?);
        let is_end = |log: &LogFrontier| log.next_index() == n_leaves && log.root().as_bytes()[..] == root;
        if let Some(known) =
            self.log.as_ref().filter(|log| log.is_behind(n_leaves.unsigned_abs(), CATCH_UP_MAX))
        {
            let log = if is_end(known) { known.clone() } else { catch_up(conn, known).await? };
            if is_end(&log) {
                return Ok(log);
            }
        }
        // Too far behind, or the log is not the one that this replica knew: for example, a backup was restored.
        let log = frontier::load(conn).await?;
        if is_end(&log) { Ok(log) } else { Err(frontier::damaged("its end is not the stored one")) }
    }

    async fn load(&mut self) -> Result<(), sqlx::Error> {
        let mut conn = self.take_connection().await?;
        // Counting all entries takes long in a large log, so it is done without the lock, in one state of the database.
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0";
        sqlx::raw_sql(begin).execute(&mut conn).await?;
        self.log = Some(frontier::load_and_check(&mut conn).await?);
        sqlx::query("ROLLBACK").execute(&mut conn).await?;
        self.begin(&mut conn).await?;
        sqlx::query("ROLLBACK").execute(&mut conn).await?;
        self.conn = Some(conn);
        Ok(())
    }

    /// Takes the connection out; reconnects if the last one was dropped.
    async fn take_connection(&mut self) -> Result<PgConnection, sqlx::Error> {
        if let Some(conn) = self.conn.take() {
            return Ok(conn);
        }
        let mut conn = self.server.connect_to_write().await?;
        prepare(&mut conn).await?;
        Ok(conn)
    }
}

async fn prepare(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    within(sqlx::raw_sql(AssertSqlSafe(format!("{PREPARE} {MAY_WRITE}"))).execute(conn)).await.map(drop)
}

/// The log with the entries that other replicas appended.
async fn catch_up(conn: &mut PgConnection, log: &LogFrontier) -> Result<LogFrontier, sqlx::Error> {
    let rows = conn.rows(APPENDED, &[log.next_index().into()]).await?;
    let hashes: Option<Vec<Hex32>> = rows.iter().map(|row: &Row| row.hash("hash")).collect();
    let hashes = hashes.ok_or_else(|| frontier::damaged("a hash is not 32 bytes"))?;
    Ok(log.append(hashes.into_iter()).frontier)
}
