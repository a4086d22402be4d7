//! The accept loop of one address.

use super::connection::Shared;
use super::connection_limit::ConnectionLimit;
use super::{Limits, Tls, count_refused};
use crate::rounds::until_stopped;
use axum::Router;
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// Pause after an error of accept when no connection can be evicted.
const PAUSE: Duration = Duration::from_millis(100);

/// A listener with its router and limits.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
    limit: Arc<ConnectionLimit>,
}

impl Server {
    /// A server on a listener; `name` is its name in metrics. Without `tls` it serves plain HTTP.
    #[must_use]
    pub fn new(
        name: &'static str,
        listener: TcpListener,
        router: Router,
        limits: Limits,
        tls: Option<Arc<Tls>>,
    ) -> Self {
        let limit = ConnectionLimit::new(name, &limits);
        Self { listener, shared: Arc::new(Shared { router, limits, tls }), limit }
    }

    /// Serves until `stopping`, and then until every connection has ended.
    pub async fn run(self, mut stopping: watch::Receiver<bool>) {
        let connections = TaskTracker::new();
        let for_connections = stopping.clone();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = until_stopped(&mut stopping) => break,
            };
            match accepted {
                Ok((stream, address)) => self.admit(&connections, stream, address, &for_connections),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) if is_shortage(&error) && self.limit.make_room() => {
                    tracing::debug!(%error, "a connection was closed so that another can be accepted");
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tracing::error!(%error, "no connection can be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        // From now on the operating system refuses new connections.
        drop(self.listener);
        connections.close();
        connections.wait().await;
    }

    fn admit(
        &self,
        connections: &TaskTracker,
        stream: TcpStream,
        address: SocketAddr,
        stopping: &watch::Receiver<bool>,
    ) {
        let permit = match self.limit.acquire(address.ip()) {
            Ok(permit) => permit,
            Err(full) => return count_refused(full.as_str()),
        };
        let _only_slower = stream.set_nodelay(true);
        let (shared, stopping) = (Arc::clone(&self.shared), stopping.clone());
        connections.spawn(async move {
            shared.serve_connection(stream, address.ip(), permit.activity(), stopping).await;
            drop(permit);
        });
    }
}

/// Whether the process or the system is out of files or memory, so that closing a connection helps.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// Whether the error is about one connection only, which its client closed before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}
