//! A stream that ends with an error when its client misses a deadline.
//!
//! Deadlines are for whole things: the headers, an answer. One that began anew with every byte would let a client hold its
//! connection with one byte at a time.

use super::activity::{Activity, Phase};
use super::{Limits, cut};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// What a client must do in time while the gateway reads from it.
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
            Phase::Idle | Phase::NodesStatus | Phase::Unread => Self::Request,
            Phase::Handling | Phase::Body | Phase::Evicted => Self::Nothing,
        }
    }
}

/// A stream that ends with an error when its client takes too long.
pub(super) struct DeadlineStream<S> {
    stream: S,
    activity: Arc<Activity>,
    /// What `reading` is the deadline of.
    timed: Due,
    reading: Pin<Box<Sleep>>,
    /// When the client must have taken an answer that it has stopped taking.
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
            timed: Due::Header,
            reading: Box::pin(sleep(limits.header_within)),
            writing: None,
            header_within: limits.header_within,
            idle_within: limits.idle_within,
            write_within: limits.write_within,
        }
    }

    /// Begins the deadline of what is due now, unless it has begun.
    fn enter(&mut self, due: Due) {
        if self.timed == due {
            return;
        }
        self.timed = due;
        match due {
            Due::Request => self.reading.as_mut().reset(Instant::now() + self.idle_within),
            Due::Header => self.reading.as_mut().reset(Instant::now() + self.header_within),
            Due::Nothing => {}
        }
    }

    fn nothing_came(&mut self, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.enter(Due::of(self.activity.phase()));
        let reason = match self.timed {
            Due::Nothing => return Poll::Pending,
            Due::Request => "idle",
            Due::Header => "header",
        };
        self.reading.as_mut().poll(ctx).map(|()| Err(too_slow(reason)))
    }

    /// The first byte of a request begins the deadline of its headers, except on a new connection, where it began with the
    /// connection.
    fn came(&mut self) {
        let is_first = self.activity.phase() == Phase::Idle;
        self.activity.received();
        if is_first {
            // Also when no read found nothing since the answer.
            self.timed = Due::Request;
            self.enter(Due::Header);
        }
    }

    /// Some of an answer was sent: idleness begins anew with its end.
    fn sent(&mut self) {
        self.activity.sent();
        if self.timed == Due::Request {
            self.timed = Due::Nothing;
        }
    }

    /// All of it was sent, and the client is idle from now on. hyper knows already that nothing came meanwhile and does not
    /// read again before something does, so that no read would begin the deadline.
    fn sent_all(&mut self, ctx: &mut Context<'_>) {
        self.writing = None;
        self.activity.sent_all();
        if self.activity.phase() == Phase::Idle {
            self.enter(Due::Request);
            if self.reading.as_mut().poll(ctx).is_ready() {
                ctx.waker().wake_by_ref();
            }
        }
    }

    fn nothing_sent<T>(&mut self, ctx: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.activity.unread();
        let within = self.write_within;
        let deadline = self.writing.get_or_insert_with(|| Box::pin(sleep(within)));
        deadline.as_mut().poll(ctx).map(|()| Err(too_slow("write")))
    }
}

fn too_slow(reason: &'static str) -> io::Error {
    cut(reason);
    io::Error::new(io::ErrorKind::TimedOut, reason)
}

impl<S: AsyncRead + Unpin> AsyncRead for DeadlineStream<S> {
    fn poll_read(self: Pin<&mut Self>, ctx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let n_before = buf.filled().len();
        match Pin::new(&mut this.stream).poll_read(ctx, buf) {
            Poll::Pending => this.nothing_came(ctx),
            Poll::Ready(read) => {
                if buf.filled().len() > n_before {
                    this.came();
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
            Poll::Pending => this.nothing_sent(ctx),
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
            Poll::Pending => this.nothing_sent(ctx),
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
            Poll::Pending => this.nothing_sent(ctx),
            flushed @ Poll::Ready(_) => {
                this.sent_all(ctx);
                flushed
            }
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_shutdown(ctx) {
            Poll::Pending => this.nothing_sent(ctx),
            shut @ Poll::Ready(_) => shut,
        }
    }
}

#[cfg(test)]
mod tests;
