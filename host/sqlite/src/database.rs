//! The open database: a pool to read with and a queue to write with.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use sqlx::{SqliteConnection, SqlitePool};
use tokio::sync::{mpsc, oneshot};

use crate::connect::{Link, check_durable};
use crate::counters::{Counters, Tally};
use crate::error::{OpenError, WriteError};
use crate::files;
use crate::identity::{Identity, claim, identify};
use crate::job::{Job, State};
use crate::limits::JOBS_QUEUED_MAX;
use crate::migrate::migrate;
use crate::options::Options;
use crate::queue::{Message, ticket};
use crate::session::Session;
use crate::writer::serve;

/// An open database, this process its only writer. It lives on the runtime that opened it. Dropping it lets the
/// queued jobs finish there; [`close`](Self::close) waits for them.
pub struct Database<S: State> {
    readers: SqlitePool,
    queue: mpsc::Sender<Message<S>>,
    tally: Arc<Tally>,
    link: Link,
}

impl<S: State> Database<S> {
    /// Opens the database, brings its schema up to date and loads the state.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; the file is then as it was, but for migrations that had been committed before a later one
    /// failed.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let path = files::prepare(&options.path, options.create)?;
        let lock = files::lock(&path)?;
        files::check_header(&path)?;
        files::check_private(&path)?;
        let link = Link::new(path, &options);
        let tally = Arc::new(Tally::default());
        let session = start(&link, &options, Arc::clone(&tally)).await?;
        let readers = link.readers(options.readers).await.map_err(|error| link.failed(error))?;
        let (queue, taken) = mpsc::channel(JOBS_QUEUED_MAX);
        // A task of the caller's runtime and not a thread of its own: measured at 32 clients, a worker that looks
        // for more work before it sleeps gets SQLite's answers sooner than a thread that parks at once.
        tokio::spawn(serve(session, taken, lock));
        Ok(Self { readers, queue, tally, link })
    }

    /// The read-only connections. A read that starts after a write was answered sees that write.
    pub fn reader(&self) -> &SqlitePool {
        &self.readers
    }

    /// Runs `job` and returns its output once the COMMIT that holds it is durable. Jobs of one caller that
    /// awaits each are applied in order; no order is promised among callers. Once the job is queued, which is
    /// at the first poll unless [`JOBS_QUEUED_MAX`] jobs wait, dropping the future does not stop it.
    ///
    /// # Errors
    ///
    /// [`WriteError`]; [`WriteError::wrote_nothing`] tells whether it is safe to simply try again.
    pub async fn write<J: Job<State = S>>(&self, job: J) -> Result<J::Output, WriteError> {
        let (caller, answer) = oneshot::channel();
        let message = Message::Job(ticket(job, caller));
        self.queue.send(message).await.map_err(|_| WriteError::Closed)?;
        answer.await.unwrap_or(Err(WriteError::Lost))
    }

    /// Commits what is queued, moves the log into the database file and cuts it to nothing, so that rows
    /// deleted under [`Options::secure_delete`] are in neither file. The blocks the log gave back to the file
    /// system are not overwritten. Returns false if a reader at work kept a part of the log in use.
    ///
    /// # Errors
    ///
    /// [`WriteError::Unavailable`] when SQLite fails, [`WriteError::Closed`] after [`close`](Self::close).
    pub async fn checkpoint(&self) -> Result<bool, WriteError> {
        let (caller, answer) = oneshot::channel();
        self.queue.send(Message::Checkpoint(caller)).await.map_err(|_| WriteError::Closed)?;
        answer.await.unwrap_or(Err(WriteError::Lost))
    }

    /// The database's file, when the last write failed because its disk is full: until a write succeeds.
    pub fn full_disk(&self) -> Option<&Path> {
        self.tally.disk_is_full().then_some(self.link.path.as_path())
    }

    /// Commits a change of no meaning, to see whether the database can be written.
    ///
    /// # Errors
    ///
    /// [`WriteError`].
    pub async fn probe(&self) -> Result<(), WriteError> {
        self.write(Probe(PhantomData)).await
    }

    /// A connection of its own that can only read. It has nothing in memory: what it reads is what the files have now,
    /// where [`reader`](Self::reader) may remember what was right. It is the caller's to close.
    ///
    /// # Errors
    ///
    /// [`sqlx::Error`] when SQLite can not open the file.
    pub async fn fresh_reader(&self) -> Result<SqliteConnection, sqlx::Error> {
        self.link.fresh_reader().await
    }

    /// What the writer has done since the database was opened.
    pub fn counters(&self) -> Counters {
        self.tally.read()
    }

    /// Takes no more reads and writes, finishes what is queued, empties the log, closes, and lets another
    /// process have the database. Waits for reads at work; a second call returns at once.
    pub async fn close(&self) {
        self.readers.close().await;
        let (caller, closed) = oneshot::channel();
        if self.queue.send(Message::Close(caller)).await.is_ok() {
            let _ = closed.await;
        }
    }
}

impl<S: State> fmt::Debug for Database<S> {
    /// Leaves the state out: it may be what nobody should read in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// Writes the first page as it is: `user_version` is nobody's, and stays 0.
struct Probe<S>(PhantomData<fn() -> S>);

impl<S: State> Job for Probe<S> {
    type State = S;
    type Output = ();

    async fn apply(&self, conn: &mut SqliteConnection, _state: &mut S) -> Result<(), sqlx::Error> {
        sqlx::query("PRAGMA user_version = 0").execute(conn).await.map(|_| ())
    }
}

/// Everything that happens on the writer's connection before the first job.
async fn start<S: State>(link: &Link, options: &Options, tally: Arc<Tally>) -> Result<Session<S>, OpenError> {
    let identity = identify(link, options.application_id).await?;
    let mut conn = link.writer().await.map_err(|error| link.failed(error))?;
    check_durable(link, &mut conn).await?;
    if identity == Identity::Fresh {
        claim(&mut conn, options.application_id).await.map_err(|error| link.failed(error))?;
    }
    migrate(link, &mut conn, options.migrations).await?;
    Session::start(link.clone(), conn, tally).await.map_err(|error| link.failed(error))
}
