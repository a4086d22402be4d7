//! A pool of connections that read.

use std::fmt;
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::connect::{Link, log_unclosed};
use crate::connection::Connection;
use crate::lease::{Idle, Lease};
use crate::limits::READER_WAIT_MAX;

/// A pool of read-only connections. Each is opened when it is first needed.
#[derive(Clone)]
pub struct Readers {
    link: Link,
    n_readers: u32,
    /// A permit for each connection that may be in use.
    room: Arc<Semaphore>,
    on_threads: Idle,
    at_hand: Idle,
}

impl Readers {
    /// A pool of so many connections, of which one is open.
    pub(crate) async fn open(link: Link, n_readers: u32) -> Result<Self, sqlx::Error> {
        let on_threads = Arc::new(Mutex::new(vec![link.reader_on_thread().await?]));
        let room = Arc::new(Semaphore::new(usize::try_from(n_readers).unwrap_or(usize::MAX)));
        Ok(Self { link, n_readers, room, on_threads, at_hand: Idle::default() })
    }

    /// A connection, once one is free. Each statement sees the last commit before it began.
    pub async fn acquire(&self) -> Result<Connection, sqlx::Error> {
        self.lease().await.map(Connection::lent)
    }

    /// As [`Self::acquire`], but its statements run on the calling thread: for a few rows by their keys, which are read sooner than
    /// another thread is woken. A slow disk holds that thread up.
    pub async fn at_hand(&self) -> Result<Connection, sqlx::Error> {
        let permit = self.permit().await?;
        let idle = self.at_hand.lock().pop();
        let seat = idle.map_or_else(|| self.link.reader_at_hand(), Ok)?;
        Ok(Connection::lent(Lease::of_pool(seat, Arc::clone(&self.at_hand), permit)))
    }

    /// A connection in a read transaction: all its statements see one state. Dropping it ends the transaction.
    pub async fn snapshot(&self) -> Result<Connection, sqlx::Error> {
        let mut lease = self.lease().await?;
        lease.begin().await?;
        Ok(Connection::lent(lease))
    }

    /// Waits for the running reads, then closes all connections.
    pub async fn close(&self) {
        let all = self.room.acquire_many(self.n_readers).await;
        self.room.close();
        drop(all);
        for idle in [&self.on_threads, &self.at_hand] {
            let seats = mem::take(&mut *idle.lock());
            for seat in seats {
                log_unclosed(seat.close().await);
            }
        }
    }

    async fn lease(&self) -> Result<Lease, sqlx::Error> {
        let permit = self.permit().await?;
        let idle = self.on_threads.lock().pop();
        let seat = match idle {
            Some(seat) => seat,
            None => self.link.reader_on_thread().await?,
        };
        Ok(Lease::of_pool(seat, Arc::clone(&self.on_threads), permit))
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, sqlx::Error> {
        let permit = timeout(READER_WAIT_MAX, Arc::clone(&self.room).acquire_owned()).await;
        permit.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").field("n_readers", &self.n_readers).finish_non_exhaustive()
    }
}
