//! A read-only connection as its caller has it: on a thread of its own, where a call costs one crossing to it and back, however many
//! rows it returns; or on the caller's thread.

use std::sync::{Arc, mpsc};
use std::thread;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::calls::{fault, rows_of};
use crate::row::{Cell, Row};

/// The open connections of a pool that no caller has.
pub(crate) type Idle = Arc<Mutex<Vec<Seat>>>;

/// Where a connection's calls run.
#[derive(Clone)]
pub(crate) enum Seat {
    /// On its own thread.
    OnThread(ReaderThread),
    /// On the caller's. One lease at a time has it, so its lock is always free.
    AtHand(Arc<Mutex<rusqlite::Connection>>),
}

impl Seat {
    pub(crate) fn at_hand(conn: rusqlite::Connection) -> Self {
        Self::AtHand(Arc::new(Mutex::new(conn)))
    }

    async fn rows(&self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Self::OnThread(thread) => thread.rows(sql, bound).await,
            Self::AtHand(conn) => rows_of(&conn.lock(), sql, bound).map_err(fault),
        }
    }

    /// Ends the transaction, if there is one.
    fn roll_back(&self) {
        // Fails if no transaction is open: then there is nothing to end.
        match self {
            Self::OnThread(thread) => {
                let (caller, _) = oneshot::channel();
                thread.send(Request::Rows("ROLLBACK".to_owned(), Vec::new(), caller));
            }
            Self::AtHand(conn) => {
                let _none = rows_of(&conn.lock(), "ROLLBACK", &[]);
            }
        }
    }

    /// Closes the connection; one at hand is closed when the last has dropped it.
    pub(crate) async fn close(self) -> Result<(), sqlx::Error> {
        match self {
            Self::OnThread(thread) => thread.close().await,
            Self::AtHand(conn) => Arc::into_inner(conn)
                .map_or(Ok(()), |conn| conn.into_inner().close().map_err(|(_, error)| fault(error))),
        }
    }
}

/// A connection that one caller has. Dropping it ends its transaction, and gives it back to its pool.
pub(crate) struct Lease {
    seat: Seat,
    /// `None` for a connection of no pool, which closes when it is dropped.
    pool: Option<(Idle, OwnedSemaphorePermit)>,
    is_in_transaction: bool,
}

impl Lease {
    /// A connection of no pool.
    pub(crate) const fn unshared(seat: Seat) -> Self {
        Self { seat, pool: None, is_in_transaction: false }
    }

    /// A connection of this pool, while the permit lasts.
    pub(crate) const fn of_pool(seat: Seat, idle: Idle, permit: OwnedSemaphorePermit) -> Self {
        Self { seat, pool: Some((idle, permit)), is_in_transaction: false }
    }

    /// Begins a transaction, which sees one state.
    pub(crate) async fn begin(&mut self) -> Result<(), sqlx::Error> {
        // From now on, since the thread may have begun it when the caller gives up.
        self.is_in_transaction = true;
        self.rows("BEGIN", &[]).await.map(drop)
    }

    pub(crate) async fn rows(&self, sql: &str, bound: &[Cell]) -> Result<Vec<Row>, sqlx::Error> {
        self.seat.rows(sql, bound).await
    }

    /// Ends the transaction, and closes a connection of no pool.
    pub(crate) async fn end(mut self) -> Result<(), sqlx::Error> {
        if self.is_in_transaction {
            self.rows("COMMIT", &[]).await?;
            self.is_in_transaction = false;
        }
        if self.pool.is_none() { self.seat.clone().close().await } else { Ok(()) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_in_transaction {
            self.seat.roll_back();
        }
        if let Some((idle, _)) = &self.pool {
            idle.lock().push(self.seat.clone());
        }
    }
}

/// The thread of a connection. It ends when nothing can send it requests any more.
#[derive(Clone)]
pub(crate) struct ReaderThread(mpsc::Sender<Request>);

enum Request {
    /// Statements with their values.
    Rows(String, Vec<Cell>, oneshot::Sender<Result<Vec<Row>, sqlx::Error>>),
    Close(oneshot::Sender<Result<(), sqlx::Error>>),
}

impl ReaderThread {
    /// A thread with the connection that `connect` opens on it.
    pub(crate) async fn start(
        connect: impl FnOnce() -> Result<rusqlite::Connection, sqlx::Error> + Send + 'static,
    ) -> Result<Self, sqlx::Error> {
        let (requests, received) = mpsc::channel();
        let (caller, started) = oneshot::channel();
        let run = move || match connect() {
            Ok(conn) => {
                if caller.send(Ok(())).is_ok() {
                    serve(conn, &received);
                }
            }
            Err(error) => {
                let _gone = caller.send(Err(error));
            }
        };
        thread::Builder::new().name("sqlite-reader".to_owned()).spawn(run).map_err(sqlx::Error::Io)?;
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

    pub(crate) async fn close(&self) -> Result<(), sqlx::Error> {
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
