//! The phase of a connection, shared by its stream, its service, and the connection limit, which evicts connections that wait
//! for their client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use tokio::sync::Notify;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Accepted, with the TLS handshake complete if there is TLS; no byte of a request was received.
    New,
    /// The TLS handshake is in progress.
    Handshake,
    /// The last request was answered, and no byte of the next one was received.
    Idle,
    /// Part of a request's headers was received.
    Header,
    /// A request is being handled.
    Handling,
    /// A request is being handled, and the handler waits for more of its body.
    Body,
    /// The response is being sent.
    Responding,
    /// The response is being sent, and the connection takes no more bytes because the client does not read.
    Unread,
    /// The connection is closed to make room for another.
    Evicted,
}

/// What the gateway waits for from the client. Connections of one address are evicted in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waiting {
    /// A request.
    Idle,
    /// The rest of a request's headers, or of a TLS handshake.
    Header,
    /// The rest of a request's body.
    Body,
    /// The client to read the rest of a response.
    Unread,
}

impl Waiting {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "request",
            Self::Header => "header",
            Self::Body => "body",
            Self::Unread => "answer_read",
        }
    }
}

impl Phase {
    const ALL: [Self; 9] = [
        Self::New,
        Self::Handshake,
        Self::Idle,
        Self::Header,
        Self::Handling,
        Self::Body,
        Self::Responding,
        Self::Unread,
        Self::Evicted,
    ];

    /// What the gateway waits for in this phase; `None` while the client waits for the gateway.
    const fn waiting(self) -> Option<Waiting> {
        match self {
            Self::New | Self::Idle => Some(Waiting::Idle),
            Self::Handshake | Self::Header => Some(Waiting::Header),
            Self::Body => Some(Waiting::Body),
            Self::Unread => Some(Waiting::Unread),
            Self::Handling | Self::Responding | Self::Evicted => None,
        }
    }
}

/// A connection's phase. It moves by compare-and-exchange: when an eviction and a request begin at the same moment, the
/// connection is either evicted or handles the request.
#[derive(Debug)]
pub(super) struct Activity {
    phase: AtomicU8,
    /// The logical time at which the connection was accepted or had its last response.
    used: AtomicU64,
    clock: Arc<AtomicU64>,
    evicted: Notify,
}

impl Activity {
    /// A connection that was just accepted. All connections of a listener share the `clock`.
    pub(super) fn new(clock: Arc<AtomicU64>) -> Arc<Self> {
        let used = AtomicU64::new(clock.fetch_add(1, Ordering::Relaxed));
        Arc::new(Self { phase: AtomicU8::new(Phase::New as u8), used, clock, evicted: Notify::new() })
    }

    pub(super) fn phase(&self) -> Phase {
        let phase = self.phase.load(Ordering::Acquire);
        Phase::ALL.into_iter().find(|one| *one as u8 == phase).unwrap_or(Phase::Evicted)
    }

    /// What the gateway waits for, and when the connection was last used; `None` while the client waits for the gateway.
    pub(super) fn waiting(&self) -> Option<(Waiting, u64)> {
        Some((self.phase().waiting()?, self.used.load(Ordering::Relaxed)))
    }

    /// Evicts the connection if the gateway still waits for `waiting`; returns whether it did.
    pub(super) fn evict(&self, waiting: Waiting) -> bool {
        let is_evicted = self.step(|phase| (phase.waiting() == Some(waiting)).then_some(Phase::Evicted));
        if is_evicted {
            self.evicted.notify_one();
        }
        is_evicted
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    pub(super) fn handshake_started(&self) {
        self.step(|phase| (phase == Phase::New).then_some(Phase::Handshake));
    }

    pub(super) fn handshake_done(&self) {
        self.step(|phase| (phase == Phase::Handshake).then_some(Phase::New));
    }

    /// Bytes were received, which begin a request if none is in progress.
    pub(super) fn received(&self) {
        self.step(|phase| matches!(phase, Phase::New | Phase::Idle).then_some(Phase::Header));
    }

    /// Called when a request's headers are complete. False if the connection was evicted: the request must not be handled.
    pub(super) fn begin_handling(&self) -> bool {
        self.step(|phase| (phase != Phase::Evicted).then_some(Phase::Handling))
    }

    /// The handler waits for more of the body.
    pub(super) fn awaits_body(&self) {
        self.step(|phase| (phase == Phase::Handling).then_some(Phase::Body));
    }

    /// More of the body was received, or its end. False if the connection was evicted: the handler must stop.
    pub(super) fn received_body(&self) -> bool {
        self.step(|phase| matches!(phase, Phase::Handling | Phase::Body).then_some(Phase::Handling))
    }

    /// The handler has returned a response.
    pub(super) fn responding(&self) {
        self.step(|phase| (phase != Phase::Evicted).then_some(Phase::Responding));
    }

    /// The connection takes no more bytes of the response, because the client does not read.
    pub(super) fn unread(&self) {
        self.step(|phase| (phase == Phase::Responding).then_some(Phase::Unread));
    }

    /// Part of a response was written to the connection.
    pub(super) fn sent(&self) {
        self.step(|phase| matches!(phase, Phase::Unread | Phase::Idle).then_some(Phase::Responding));
    }

    /// The whole response was written to the connection.
    pub(super) fn sent_all(&self) {
        // Set before the phase, so that an idle connection has the time of its last use.
        if matches!(self.phase(), Phase::Responding | Phase::Unread) {
            self.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Release);
        }
        self.step(|phase| matches!(phase, Phase::Responding | Phase::Unread).then_some(Phase::Idle));
    }

    /// Moves to the phase that `to` returns for the current one, if any; returns whether it moved.
    fn step(&self, to: impl Fn(Phase) -> Option<Phase>) -> bool {
        loop {
            let from = self.phase();
            let Some(to) = to(from) else { return false };
            let moved =
                self.phase.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire);
            if moved.is_ok() {
                return true;
            }
        }
    }
}
