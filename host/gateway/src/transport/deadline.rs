//! A stream whose other end is waited for, but not for ever.
//!
//! Deadlines are for whole things: the headers, an answer. One that began anew with every byte would let a client hold its
//! connection with one byte at a time.

use super::{Limits, cut};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// What the client of a connection is expected to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// To begin a request, if it likes.
    Idle,
    /// To end its headers.
    Header,
    /// Nothing: its request is being answered, and the router minds its body.
    Answering,
}

/// A connection's phase, known to the stream and to the service above it.
#[derive(Clone, Debug)]
pub(super) struct Turn(Arc<AtomicU8>);

impl Turn {
    /// A client that has just connected is to send its first request.
    pub(super) fn new() -> Self {
        let turn = Self(Arc::default());
        turn.set(Phase::Header);
        turn
    }

    /// A request is complete as far as its headers.
    pub(super) fn answering(&self) {
        self.set(Phase::Answering);
    }

    /// It is answered.
    pub(super) fn answered(&self) {
        self.set(Phase::Idle);
    }

    fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        match self.0.load(Ordering::Relaxed) {
            0 => Phase::Idle,
            1 => Phase::Header,
            _ => Phase::Answering,
        }
    }
}

/// A stream that ends with an error when its client takes too long.
pub(super) struct DeadlineStream<S> {
    stream: S,
    turn: Turn,
    /// The phase that `reading` is the deadline of.
    timed: Phase,
    reading: Pin<Box<Sleep>>,
    /// When the client must have taken an answer that it has stopped taking.
    writing: Option<Pin<Box<Sleep>>>,
    header_within: Duration,
    idle_within: Duration,
    write_within: Duration,
}

impl<S> DeadlineStream<S> {
    pub(super) fn new(stream: S, turn: Turn, limits: &Limits) -> Self {
        Self {
            stream,
            turn,
            timed: Phase::Header,
            reading: Box::pin(sleep(limits.header_within)),
            writing: None,
            header_within: limits.header_within,
            idle_within: limits.idle_within,
            write_within: limits.write_within,
        }
    }

    /// The deadline of the phase that the connection has come to.
    fn enter(&mut self, phase: Phase) {
        if self.timed == phase {
            return;
        }
        self.timed = phase;
        match phase {
            Phase::Idle => self.reading.as_mut().reset(Instant::now() + self.idle_within),
            Phase::Header => self.reading.as_mut().reset(Instant::now() + self.header_within),
            Phase::Answering => {}
        }
    }

    fn nothing_came(&mut self, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.enter(self.turn.phase());
        let reason = match self.timed {
            Phase::Answering => return Poll::Pending,
            Phase::Idle => "idle",
            Phase::Header => "header",
        };
        self.reading.as_mut().poll(ctx).map(|()| Err(too_slow(reason)))
    }

    /// Something of an answer has gone: idleness begins anew with its end.
    fn went(&mut self) {
        if self.timed == Phase::Idle {
            self.timed = Phase::Answering;
        }
    }

    /// All of it has gone, and the client is idle from now on. hyper knows already that nothing came meanwhile and does not
    /// read again before something does, so that no read would begin the deadline.
    fn all_went(&mut self, ctx: &mut Context<'_>) {
        self.writing = None;
        if self.turn.phase() == Phase::Idle {
            self.enter(Phase::Idle);
            if self.reading.as_mut().poll(ctx).is_ready() {
                ctx.waker().wake_by_ref();
            }
        }
    }

    fn nothing_went<T>(&mut self, ctx: &mut Context<'_>) -> Poll<io::Result<T>> {
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
                if buf.filled().len() > n_before && this.turn.phase() == Phase::Idle {
                    this.turn.set(Phase::Header);
                    // Also when no read found nothing since the answer.
                    this.timed = Phase::Idle;
                    this.enter(Phase::Header);
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
            Poll::Pending => this.nothing_went(ctx),
            written @ Poll::Ready(_) => {
                this.went();
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
            Poll::Pending => this.nothing_went(ctx),
            written @ Poll::Ready(_) => {
                this.went();
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
            Poll::Pending => this.nothing_went(ctx),
            flushed @ Poll::Ready(_) => {
                this.all_went(ctx);
                flushed
            }
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_shutdown(ctx) {
            Poll::Pending => this.nothing_went(ctx),
            shut @ Poll::Ready(_) => shut,
        }
    }
}

#[cfg(test)]
mod tests;
