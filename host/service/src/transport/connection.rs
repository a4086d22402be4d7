//! Serves one connection: TLS handshake, then requests.

use super::activity::Activity;
use super::deadline::DeadlineStream;
use super::tls::Tls;
use super::{Caller, Limits, Peer, count_cut};
use crate::rounds::until_stopped;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::response::Response;
use gateway_domain::ids::Hex32;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;

/// Least size of hyper's read buffer, bytes.
const BUFFER_BYTES_MIN: usize = 64 * 1024;

/// The state that all connections of a listener share.
pub(super) struct Shared {
    pub(super) router: Router,
    pub(super) limits: Limits,
    pub(super) tls: Option<Arc<Tls>>,
}

impl Shared {
    /// Handles requests until either side closes the connection, it is evicted, or the server stops.
    pub(super) async fn serve_connection(
        &self,
        stream: TcpStream,
        address: IpAddr,
        activity: &Arc<Activity>,
        mut stopping: watch::Receiver<bool>,
    ) {
        let peer = Peer { address: address.to_canonical(), certificate_sha256: None };
        let Some(tls) = &self.tls else {
            return self.serve_requests(stream, (peer, None), activity, stopping).await;
        };
        activity.handshake_started();
        let handshake = TlsAcceptor::from(tls.config()).accept(stream);
        let outcome = tokio::select! {
            outcome = timeout(self.limits.handshake_within, handshake) => outcome,
            () = activity.evicted() => return,
            () = until_stopped(&mut stopping) => return,
        };
        match outcome {
            Ok(Ok(stream)) => {
                activity.handshake_done();
                let own = client_certificate(&stream);
                let certificate_sha256 = own.map(|own| Hex32::new(Sha256::digest(own).into()));
                let caller = own.and_then(|own| tls.caller(own));
                let peer = Peer { certificate_sha256, ..peer };
                self.serve_requests(stream, (peer, caller), activity, stopping).await;
            }
            Ok(Err(error)) => {
                count_cut("handshake");
                tracing::debug!(%error, peer = %peer.address, "TLS handshake failed");
            }
            Err(_) => count_cut("handshake"),
        }
    }

    async fn serve_requests<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        (peer, caller): (Peer, Option<Caller>),
        activity: &Arc<Activity>,
        mut stopping: watch::Receiver<bool>,
    ) {
        let stream = DeadlineStream::new(stream, Arc::clone(activity), &self.limits);
        let service = service_fn(|request| self.handle(request, (peer, caller.clone()), activity));
        let connection = http1::Builder::new()
            // The stream has its own deadlines, also for a client that sends nothing.
            .header_read_timeout(None)
            .max_headers(self.limits.headers_max)
            .max_header_size(self.limits.header_bytes_max)
            .max_buf_size(self.limits.header_bytes_max.max(BUFFER_BYTES_MIN))
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = activity.evicted() => return,
            () = until_stopped(&mut stopping) => {
                // A request in progress is still answered; no further one is read.
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, peer = %peer.address, "a connection ended");
        }
    }

    async fn handle(
        &self,
        mut request: Request<Incoming>,
        (peer, caller): (Peer, Option<Caller>),
        activity: &Arc<Activity>,
    ) -> Result<Response, Evicted> {
        if !activity.begin_handling() {
            return Err(Evicted);
        }
        request.extensions_mut().insert(peer);
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        let request = request.map(|body| Body::new(TrackedBody { body, activity: Arc::clone(activity) }));
        let Ok(answer) = self.router.clone().oneshot(request).await;
        activity.responding();
        Ok(answer)
    }
}

/// The connection was closed to make room before its request was handled.
#[derive(Debug, thiserror::Error)]
#[error("the connection was evicted")]
struct Evicted;

/// A request's body, which reports when the handler waits for more of it.
struct TrackedBody {
    body: Incoming,
    activity: Arc<Activity>,
}

impl hyper::body::Body for TrackedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(ctx);
        if polled.is_pending() {
            this.activity.awaits_body();
        } else if !this.activity.received_body() {
            // The connection is being closed: the handler must not continue.
            return Poll::Pending;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The client's own certificate, which the handshake has verified.
fn client_certificate(stream: &TlsStream<TcpStream>) -> Option<&CertificateDer<'static>> {
    let (_, connection) = stream.get_ref();
    connection.peer_certificates()?.first()
}
