//! A stream that ends with an error when its client misses a deadline.
//!
//! A deadline covers all headers, or a whole response. One that restarted with every byte would let a client hold its connection
//! by sending single bytes.

use super::activity::{Activity, Phase};
use super::{Limits, count_cut};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// What the client must do before the deadline, while the gateway reads from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// Begin a request.
    Request,
    /// End its headers.
    Header,
    /// Nothing: its request is being handled, and the router has a deadline for its body.
    Nothing,
}

impl Due {
    const fn of(phase: Phase) -> Self {
        match phase {
            Phase::New | Phase::Handshake | Phase::Header => Self::Header,
            Phase::Idle | Phase::Responding | Phase::Unread => Self::Request,
            Phase::Handling | Phase::Body | Phase::Evicted => Self::Nothing,
        }
    }
}

/// A stream with deadlines for its client.
pub(super) struct DeadlineStream<S> {
    stream: S,
    activity: Arc<Activity>,
    /// What the client must do before the deadline `reading`.
    due: Due,
    reading: Pin<Box<Sleep>>,
    /// The deadline for reading the rest of a response, once the client has stopped.
    writing: Option<Pin<Box<Sleep>>>,
    header_within: Duration,
    idle_within: Duration,
    write_within: Duration,
}

impl<S> DeadlineStream<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>, limits: &Limits) -> Self {
        Self {
            stream,
            activity,
            due: Due::Header,
            reading: Box::pin(sleep(limits.header_within)),
            writing: None,
            header_within: limits.header_within,
            idle_within: limits.idle_within,
            write_within: limits.write_within,
        }
    }

    /// Starts the deadline for `due`, unless it has started.
    fn start_deadline(&mut self, due: Due) {
        if self.due == due {
            return;
        }
        self.due = due;
        match due {
            Due::Request => self.reading.as_mut().reset(Instant::now() + self.idle_within),
            Due::Header => self.reading.as_mut().reset(Instant::now() + self.header_within),
            Due::Nothing => {}
        }
    }

    fn read_pending(&mut self, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.start_deadline(Due::of(self.activity.phase()));
        let reason = match self.due {
            Due::Nothing => return Poll::Pending,
            Due::Request => "idle",
            Due::Header => "header",
        };
        self.reading.as_mut().poll(ctx).map(|()| Err(too_slow(reason)))
    }

    /// Bytes were received. The first ones of a request start the deadline of its headers, except on a new connection, where it
    /// started with the connection.
    fn received(&mut self) {
        let is_first = self.activity.phase() == Phase::Idle;
        self.activity.received();
        if is_first {
            // Needed when no read returned `Pending` since the response.
            self.due = Due::Request;
            self.start_deadline(Due::Header);
        }
    }

    /// Part of a response was sent: the idle deadline starts again at its end.
    fn sent(&mut self) {
        self.activity.sent();
        if self.due == Due::Request {
            self.due = Due::Nothing;
        }
    }

    /// The whole response was sent, and the client is idle from now on. hyper does not read again until bytes arrive, so the
    /// deadline starts here and not in a read.
    fn sent_all(&mut self, ctx: &mut Context<'_>) {
        self.writing = None;
        self.activity.sent_all();
        if self.activity.phase() == Phase::Idle {
            self.start_deadline(Due::Request);
            if self.reading.as_mut().poll(ctx).is_ready() {
                ctx.waker().wake_by_ref();
            }
        }
    }

    fn write_pending<T>(&mut self, ctx: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.activity.unread();
        let within = self.write_within;
        let deadline = self.writing.get_or_insert_with(|| Box::pin(sleep(within)));
        deadline.as_mut().poll(ctx).map(|()| Err(too_slow("write")))
    }
}

fn too_slow(reason: &'static str) -> io::Error {
    count_cut(reason);
    io::Error::new(io::ErrorKind::TimedOut, reason)
}

impl<S: AsyncRead + Unpin> AsyncRead for DeadlineStream<S> {
    fn poll_read(self: Pin<&mut Self>, ctx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let n_before = buf.filled().len();
        match Pin::new(&mut this.stream).poll_read(ctx, buf) {
            Poll::Pending => this.read_pending(ctx),
            Poll::Ready(read) => {
                if buf.filled().len() > n_before {
                    this.received();
                }
                Poll::Ready(read)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for DeadlineStream<S> {
    fn poll_write(self: Pin<&mut Self>, ctx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_write(ctx, buf) {
            Poll::Pending => this.write_pending(ctx),
            written @ Poll::Ready(_) => {
                this.sent();
                written
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_write_vectored(ctx, bufs) {
            Poll::Pending => this.write_pending(ctx),
            written @ Poll::Ready(_) => {
                this.sent();
                written
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_flush(ctx) {
            Poll::Pending => this.write_pending(ctx),
            flushed @ Poll::Ready(_) => {
                this.sent_all(ctx);
                flushed
            }
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_shutdown(ctx) {
            Poll::Pending => this.write_pending(ctx),
            shut @ Poll::Ready(_) => shut,
        }
    }
}

#[cfg(test)]
mod tests;
