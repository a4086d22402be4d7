//! The open database: a pool to read with and a queue to write with.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::connect::{Link, check_durable};
use crate::connection::Connection;
use crate::counters::{Counters, Tally};
use crate::error::{OpenError, WriteError};
use crate::files;
use crate::job::{Job, State};
use crate::limits::JOBS_QUEUED_MAX;
use crate::migrate::{Identity, identify, migrate, write_application_id};
use crate::options::Options;
use crate::queue::{Message, Order, ticket};
use crate::readers::Readers;
use crate::session::Session;
use crate::writer::serve;

/// An open database, of which this process is the only writer. Its writer is a thread.
/// Dropping it lets the queued jobs finish; [`close`](Self::close) waits for them.
pub struct Database<S: State> {
    readers: Readers,
    queue: mpsc::Sender<Message<S>>,
    tally: Arc<Tally>,
    link: Link,
}

impl<S: State> Database<S> {
    /// Opens the database, brings its schema up to date and loads the state.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; the file is then unchanged, except for migrations that were committed before a later one failed.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let path = files::prepare(&options.path, options.create)?;
        let lock = files::lock(&path)?;
        files::check_header(&path)?;
        files::check_private(&path)?;
        files::remove_second_name(&path)?;
        files::check_only_name(&path)?;
        let link = Link::new(path, &options);
        let tally = Arc::new(Tally::default());
        let conn = prepare(&link, &options).await?;
        let (queue, receiver) = mpsc::channel(JOBS_QUEUED_MAX);
        let (caller, started) = oneshot::channel();
        let (served, counted) = (link.clone(), Arc::clone(&tally));
        let writer = std::thread::Builder::new().name("sqlite-writer".to_owned()).spawn(move || {
            let _lost = match Session::start(served, conn, counted) {
                Ok(session) => {
                    // If the caller is gone, the queue is closed.
                    let _gone = caller.send(Ok(()));
                    serve(session, receiver, lock);
                    return;
                }
                Err(error) => caller.send(Err(error)),
            };
        });
        let failed = |error| link.failed(error);
        writer.map_err(|error| failed(error.into()))?;
        started.await.unwrap_or(Err(sqlx::Error::WorkerCrashed)).map_err(failed)?;
        let readers = Readers::open(link.clone(), options.readers).await.map_err(failed)?;
        Ok(Self { readers, queue, tally, link })
    }

    /// The read-only connections. A read that starts after a write was acknowledged sees that write.
    pub fn readers(&self) -> &Readers {
        &self.readers
    }

    /// Runs `job` and returns its output once its COMMIT is durable. A caller that awaits each job gets them applied in
    /// order; there is no order between callers. Once the job is queued (at the first poll, unless
    /// [`JOBS_QUEUED_MAX`] jobs wait), dropping the future does not stop it.
    ///
    /// # Errors
    ///
    /// [`WriteError`]; [`WriteError::wrote_nothing`] says whether a retry is safe.
    pub async fn write<J: Job<State = S>>(&self, job: J) -> Result<J::Output, WriteError> {
        let (caller, answer) = oneshot::channel();
        let message = Message::Job(ticket(job, caller));
        self.queue.send(message).await.map_err(|_| WriteError::Closed)?;
        answer.await.unwrap_or(Err(WriteError::Lost))
    }

    /// Commits the queued jobs, moves the log into the database file and truncates it, so that rows deleted under
    /// [`Options::secure_delete`] are in neither file. Does not overwrite the blocks that the log returns to the file
    /// system. Returns false if a running read still needs part of the log.
    ///
    /// # Errors
    ///
    /// [`WriteError::Unavailable`] if SQLite fails, [`WriteError::Closed`] after [`close`](Self::close).
    pub async fn checkpoint(&self) -> Result<bool, WriteError> {
        let (caller, answer) = oneshot::channel();
        self.queue.send(Message::Order(Order::Checkpoint(caller))).await.map_err(|_| WriteError::Closed)?;
        answer.await.unwrap_or(Err(WriteError::Lost))
    }

    /// The path of the database if the last write failed because its disk is full. `None` again once a write succeeds.
    pub fn full_disk(&self) -> Option<&Path> {
        self.tally.disk_is_full().then_some(self.link.path.as_path())
    }

    /// Commits a change without effect, to find out whether the database can be written.
    pub async fn probe(&self) -> Result<(), WriteError> {
        self.write(Probe(PhantomData)).await
    }

    /// A new read-only connection with an empty page cache: it reads what is in the files now, where one of
    /// the [`readers`](Self::readers) may answer from memory. The caller closes it.
    pub async fn fresh_reader(&self) -> Result<Connection, sqlx::Error> {
        self.link.fresh_reader().await
    }

    /// Totals of the writer since the database was opened.
    pub fn counters(&self) -> Counters {
        self.tally.read()
    }

    /// Refuses new reads and writes, finishes queued jobs and running reads, empties the log, and releases the database to
    /// other processes. A second call returns immediately.
    pub async fn close(&self) {
        self.readers.close().await;
        let (caller, closed) = oneshot::channel();
        if self.queue.send(Message::Order(Order::Close(caller))).await.is_ok() {
            let _ = closed.await;
        }
    }
}

impl<S: State> fmt::Debug for Database<S> {
    /// Leaves out the state, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// Writes the first page. `user_version` is not used and stays 0.
struct Probe<S>(PhantomData<fn() -> S>);

impl<S: State> Job for Probe<S> {
    type State = S;
    type Output = ();

    async fn apply(&self, conn: &mut Connection, _state: &mut S) -> Result<(), sqlx::Error> {
        conn.run("PRAGMA user_version = 0", &[]).await
    }
}

/// Opens the writer's connection: identity, settings, migrations.
async fn prepare(link: &Link, options: &Options) -> Result<Connection, OpenError> {
    let identity = identify(link, options.application_id).await?;
    let mut conn = link.writer().map_err(|error| link.failed(error))?;
    check_durable(link, &mut conn).await?;
    if identity == Identity::Fresh {
        write_application_id(&mut conn, options.application_id).await.map_err(|error| link.failed(error))?;
    }
    migrate(link, options.migrations).await?;
    Ok(conn)
}
