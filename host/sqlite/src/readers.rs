//! Connections that read, each on a thread of its own. A call costs one crossing to that thread and back, however many rows it returns.

use std::fmt;
use std::mem;
use std::sync::{Arc, mpsc};
use std::thread;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use crate::connect::{Link, log_unclosed};
use crate::connection::{Connection, fault, rows_of};
use crate::limits::READER_WAIT_MAX;
use crate::row::{Cell, Row};

/// A pool of read-only connections. Each is opened when it is first needed.
#[derive(Clone)]
pub struct Readers(Arc<Pool>);

struct Pool {
    link: Link,
    n_readers: u32,
    /// A permit for each connection that may be in use.
    room: Arc<Semaphore>,
    idle: Mutex<Vec<ReaderThread>>,
}

impl Readers {
    /// A pool of so many connections, of which one is open.
    pub(crate) async fn open(link: Link, n_readers: u32) -> Result<Self, sqlx::Error> {
        let first = ReaderThread::start(&link).await?;
        let room = Arc::new(Semaphore::new(usize::try_from(n_readers).unwrap_or(usize::MAX)));
        Ok(Self(Arc::new(Pool { link, n_readers, room, idle: Mutex::new(vec![first]) })))
    }

    /// A connection, once one is free. Each statement sees the last commit before it began.
    pub async fn acquire(&self) -> Result<Connection, sqlx::Error> {
        self.lease().await.map(Connection::lent)
    }

    /// A connection in a read transaction: all its statements see one state. Dropping it ends the transaction.
    pub async fn snapshot(&self) -> Result<Connection, sqlx::Error> {
        let mut lease = self.lease().await?;
        lease.thread()?.rows("BEGIN", &[]).await?;
        lease.is_in_transaction = true;
        Ok(Connection::lent(lease))
    }

    /// Waits for the running reads, then closes all connections.
    pub async fn close(&self) {
        let Pool { room, idle, n_readers, .. } = &*self.0;
        let all = room.acquire_many(*n_readers).await;
        room.close();
        drop(all);
        let idle = mem::take(&mut *idle.lock());
        for thread in idle {
            log_unclosed(thread.close().await);
        }
    }

    async fn lease(&self) -> Result<Lease, sqlx::Error> {
        let permit = timeout(READER_WAIT_MAX, Arc::clone(&self.0.room).acquire_owned()).await;
        let permit = permit.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)?;
        let idle = self.0.idle.lock().pop();
        let thread = match idle {
            Some(thread) => thread,
            None => ReaderThread::start(&self.0.link).await?,
        };
        let pool = Some((Arc::clone(&self.0), permit));
        Ok(Lease { thread: Some(thread), pool, is_in_transaction: false })
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").field("n_readers", &self.0.n_readers).finish_non_exhaustive()
    }
}

/// A connection that one caller has. Dropping it ends its transaction, and gives it back to its pool.
pub(crate) struct Lease {
    /// Always there until it is dropped.
    thread: Option<ReaderThread>,
    pool: Option<(Arc<Pool>, OwnedSemaphorePermit)>,
    is_in_transaction: bool,
}

impl Lease {
    /// A connection of no pool.
    pub(crate) async fn fresh(link: &Link) -> Result<Self, sqlx::Error> {
        let thread = Some(ReaderThread::start(link).await?);
        Ok(Self { thread, pool: None, is_in_transaction: false })
    }

    pub(crate) async fn rows(&self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        self.thread()?.rows(sql, bound).await
    }

    /// Ends the transaction, and closes a connection of no pool.
    pub(crate) async fn end(mut self) -> Result<(), sqlx::Error> {
        if mem::take(&mut self.is_in_transaction) {
            self.thread()?.rows("COMMIT", &[]).await?;
        }
        match self.thread.take_if(|_| self.pool.is_none()) {
            Some(thread) => thread.close().await,
            None => Ok(()),
        }
    }

    fn thread(&self) -> Result<&ReaderThread, sqlx::Error> {
        self.thread.as_ref().ok_or(sqlx::Error::WorkerCrashed)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            if self.is_in_transaction {
                let (caller, _) = oneshot::channel();
                thread.send(Request::Rows("ROLLBACK".to_owned(), Vec::new(), caller));
            }
            if let Some((pool, _)) = &self.pool {
                pool.idle.lock().push(thread);
            }
        }
    }
}

/// The thread of a connection. It ends when this is dropped.
struct ReaderThread(mpsc::Sender<Request>);

enum Request {
    /// Statements with their values.
    Rows(String, Vec<Cell>, oneshot::Sender<Result<Vec<Row>, sqlx::Error>>),
    Close(oneshot::Sender<Result<(), sqlx::Error>>),
}

impl ReaderThread {
    async fn start(link: &Link) -> Result<Self, sqlx::Error> {
        let (requests, received) = mpsc::channel();
        let (caller, started) = oneshot::channel();
        let link = link.clone();
        let thread = thread::Builder::new().name("sqlite-reader".to_owned());
        let run = move || match link.reader() {
            Ok(conn) => {
                let _gone = caller.send(Ok(()));
                serve(conn, &received);
            }
            Err(error) => {
                let _gone = caller.send(Err(error));
            }
        };
        thread.spawn(run).map_err(sqlx::Error::Io)?;
        started.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))?;
        Ok(Self(requests))
    }

    /// A request to a thread that has ended has no answer.
    fn send(&self, request: Request) {
        let _ended = self.0.send(request);
    }

    async fn rows(&self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        let (caller, answer) = oneshot::channel();
        self.send(Request::Rows(sql.to_owned(), bound.to_vec(), caller));
        answer.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
    }

    async fn close(self) -> Result<(), sqlx::Error> {
        let (caller, answer) = oneshot::channel();
        self.send(Request::Close(caller));
        answer.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
    }
}

/// Answers requests until there can be no more.
fn serve(conn: rusqlite::Connection, requests: &mpsc::Receiver<Request>) {
    while let Ok(request) = requests.recv() {
        match request {
            Request::Rows(sql, bound, caller) => {
                let _gone = caller.send(rows_of(&conn, &sql, &bound).map_err(fault));
            }
            Request::Close(caller) => {
                let _gone = caller.send(conn.close().map_err(|(_, error)| fault(error)));
                return;
            }
        }
    }
}
