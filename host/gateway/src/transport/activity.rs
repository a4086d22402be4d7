//! What a connection is doing: known to its stream, to the service above it, and to the connection limit, which closes
//! connections on which the gateway waits for the client when room is short.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use tokio::sync::Notify;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It was accepted, and TLS agreed upon where there is TLS; no byte of a request came yet.
    New,
    /// The TLS handshake is under way.
    Handshake,
    /// Every request was answered, and no byte of the next one came yet.
    Idle,
    /// Some of a request's headers came.
    Header,
    /// A request is being handled.
    Handling,
    /// A request is being handled, and the handler waits for more of its body.
    Body,
    /// The answer is being sent.
    NodesStatus,
    /// The answer is being sent, and the client takes no more of it.
    Unread,
    /// The connection is to be closed, to make room for another.
    Evicted,
}

/// On what of a client the gateway waits. Within an address, connections are evicted in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waiting {
    /// A request.
    Idle,
    /// The rest of a request's headers, or of a TLS handshake.
    Header,
    /// The rest of a request's body.
    Body,
    /// Space for the rest of an answer.
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
        Self::NodesStatus,
        Self::Unread,
        Self::Evicted,
    ];

    /// None while the client waits for the gateway.
    const fn waiting(self) -> Option<Waiting> {
        match self {
            Self::New | Self::Idle => Some(Waiting::Idle),
            Self::Handshake | Self::Header => Some(Waiting::Header),
            Self::Body => Some(Waiting::Body),
            Self::Unread => Some(Waiting::Unread),
            Self::Handling | Self::NodesStatus | Self::Evicted => None,
        }
    }
}

/// A connection's phase. Whoever moves it compares it first: a request that is taken up in the same moment is never evicted, and
/// an evicted connection takes up no request.
#[derive(Debug)]
pub(super) struct Activity {
    phase: AtomicU8,
    /// A number that is higher the later the connection was accepted or had its last answer.
    used: AtomicU64,
    clock: Arc<AtomicU64>,
    evicted: Notify,
}

impl Activity {
    /// A connection that was accepted just now. Connections that are compared share the `clock`.
    pub(super) fn new(clock: Arc<AtomicU64>) -> Arc<Self> {
        let used = AtomicU64::new(clock.fetch_add(1, Ordering::Relaxed));
        Arc::new(Self { phase: AtomicU8::new(Phase::New as u8), used, clock, evicted: Notify::new() })
    }

    pub(super) fn phase(&self) -> Phase {
        let phase = self.phase.load(Ordering::Acquire);
        Phase::ALL.into_iter().find(|one| *one as u8 == phase).unwrap_or(Phase::Evicted)
    }

    /// On what the gateway waits, and since which use of the connection; none while the client waits for the gateway.
    pub(super) fn waiting(&self) -> Option<(Waiting, u64)> {
        Some((self.phase().waiting()?, self.used.load(Ordering::Relaxed)))
    }

    /// Closes the connection if the gateway still waits for this.
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

    pub(super) fn shaking_hands(&self) {
        self.step(|phase| (phase == Phase::New).then_some(Phase::Handshake));
    }

    pub(super) fn shaken(&self) {
        self.step(|phase| (phase == Phase::Handshake).then_some(Phase::New));
    }

    /// Bytes came: the beginning of a request, where one is due.
    pub(super) fn received(&self) {
        self.step(|phase| matches!(phase, Phase::New | Phase::Idle).then_some(Phase::Header));
    }

    /// A request is complete as far as its headers. False: the connection was evicted, and the request must not be handled.
    pub(super) fn handling(&self) -> bool {
        self.step(|phase| (phase != Phase::Evicted).then_some(Phase::Handling))
    }

    /// The handler waits for more of the body.
    pub(super) fn awaits_body(&self) {
        self.step(|phase| (phase == Phase::Handling).then_some(Phase::Body));
    }

    /// More of the body came, or its end. False: the connection was evicted, and the handler must go no further.
    pub(super) fn received_body(&self) -> bool {
        self.step(|phase| matches!(phase, Phase::Handling | Phase::Body).then_some(Phase::Handling))
    }

    /// The handler has an answer.
    pub(super) fn nodes_status(&self) {
        self.step(|phase| (phase != Phase::Evicted).then_some(Phase::NodesStatus));
    }

    /// The client takes no more of the answer.
    pub(super) fn unread(&self) {
        self.step(|phase| (phase == Phase::NodesStatus).then_some(Phase::Unread));
    }

    /// Some more of the answer was taken.
    pub(super) fn sent(&self) {
        self.step(|phase| matches!(phase, Phase::Unread | Phase::Idle).then_some(Phase::NodesStatus));
    }

    /// All of the answer was taken.
    pub(super) fn sent_all(&self) {
        // First, so that whoever sees an idle connection sees since when.
        if matches!(self.phase(), Phase::NodesStatus | Phase::Unread) {
            self.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Release);
        }
        self.step(|phase| matches!(phase, Phase::NodesStatus | Phase::Unread).then_some(Phase::Idle));
    }

    /// Moves to another phase, if there is one from here; whether it did.
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
