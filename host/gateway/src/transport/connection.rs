//! One connection, from its first byte to its last.

use super::deadline::{DeadlineStream, Turn};
use super::tls::Tls;
use super::{Limits, cut, stopped};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use gateway_auth::Peer;
use gateway_domain::ids::Hex32;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;

/// hyper reads no less at once.
const BUFFER_BYTES_MIN: usize = 64 * 1024;

/// What all connections of a listener have in common.
pub(super) struct Shared {
    pub(super) router: Router,
    pub(super) limits: Limits,
    pub(super) tls: Option<Arc<Tls>>,
}

impl Shared {
    /// Answers requests until either side ends the connection, or the server stops.
    pub(super) async fn connection(
        &self,
        stream: TcpStream,
        address: IpAddr,
        mut stopping: watch::Receiver<bool>,
    ) {
        let peer = Peer { address: address.to_canonical(), certificate_sha256: None };
        let Some(tls) = &self.tls else { return self.requests(stream, peer, stopping).await };
        let handshake = TlsAcceptor::from(tls.config()).accept(stream);
        let shaken = tokio::select! {
            shaken = timeout(self.limits.handshake_within, handshake) => shaken,
            () = stopped(&mut stopping) => return,
        };
        match shaken {
            Ok(Ok(stream)) => {
                let peer = Peer { certificate_sha256: certificate_sha256(&stream), ..peer };
                self.requests(stream, peer, stopping).await;
            }
            Ok(Err(error)) => {
                cut("handshake");
                tracing::debug!(%error, peer = %peer.address, "no TLS connection came about");
            }
            Err(_) => cut("handshake"),
        }
    }

    async fn requests<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        peer: Peer,
        mut stopping: watch::Receiver<bool>,
    ) {
        let turn = Turn::new();
        let stream = DeadlineStream::new(stream, turn.clone(), &self.limits);
        let service = service_fn(|request| self.answer(request, peer, turn.clone()));
        let connection = http1::Builder::new()
            // The stream has deadlines of its own, also for a client that sends nothing.
            .header_read_timeout(None)
            .max_headers(self.limits.headers_max)
            .max_header_size(self.limits.header_bytes_max)
            .max_buf_size(self.limits.header_bytes_max.max(BUFFER_BYTES_MIN))
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped(&mut stopping) => {
                // What is in flight is answered, and nothing after it.
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, peer = %peer.address, "a connection ended");
        }
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
        peer: Peer,
        turn: Turn,
    ) -> Result<axum::response::Response, std::convert::Infallible> {
        turn.answering();
        request.extensions_mut().insert(peer);
        let answer = self.router.clone().oneshot(request.map(Body::new)).await;
        turn.answered();
        answer
    }
}

/// The client's own certificate, verified by then.
fn certificate_sha256(stream: &TlsStream<TcpStream>) -> Option<Hex32> {
    let (_, connection) = stream.get_ref();
    let own = connection.peer_certificates()?.first()?;
    Some(Hex32::new(Sha256::digest(own).into()))
}
