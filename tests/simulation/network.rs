//! Messages between the gateway's replicas and the other parts: each is handled when the schedule delivers it, in one go.
//!
//! A replica that calls a node, the store or the authority puts a request here and waits. The schedule ([`crate::world`]) chooses the
//! next message, so the order of all calls follows from the seed alone, although the databases use threads.

use gateway_domain::ids::{Hex32, OperationId};
use gateway_engine::ports::Commit;
use gateway_node::Node;
use gateway_store::Store;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::parts::AuthorityProcess;

/// The part that a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    Store,
    Authority,
    Node(u16),
}

/// The replica that a message is from or for, and how often it had been started before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) replica: usize,
    pub(crate) incarnation: u32,
}

/// What the judge must know of a request, if it succeeds.
#[derive(Clone, Debug, Default)]
pub(crate) enum Claim {
    #[default]
    Nothing,
    /// The store writes this.
    Commit(Box<Commit>),
    /// A node signs a package of this hash with the nonces of these commitments.
    Share { commitments: Vec<u8>, package_hash: Hex32 },
}

/// The result of a request: one word for the trace, and the answer, which is not handed over yet.
pub(crate) struct Handled {
    pub(crate) outcome: String,
    pub(crate) hand_over: HandOver,
}

pub(crate) type HandOver = Box<dyn FnOnce() + Send>;
pub(crate) type Handling = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// A request that can be handled more than once.
pub(crate) type NodeWork = Arc<dyn Fn(Arc<Node>) -> Handling + Send + Sync>;

pub(crate) enum Body {
    Node(NodeWork),
    Store(Box<dyn FnOnce(Arc<Store>) -> Handling + Send>),
    Authority(Box<dyn FnOnce(Arc<AuthorityProcess>) -> Handling + Send>),
    /// An answer on its way to its replica.
    Answer(HandOver),
}

/// A message in flight.
pub(crate) struct Message {
    /// The turn from which it can be delivered.
    pub(crate) due: u64,
    pub(crate) origin: Origin,
    pub(crate) peer: Peer,
    /// The step of the protocol.
    pub(crate) point: &'static str,
    pub(crate) operation: Option<OperationId>,
    pub(crate) claim: Claim,
    /// The size that the node's log has at least, by the receipt that the request shows; 0 if it shows none.
    pub(crate) size_shown: u64,
    pub(crate) body: Body,
    /// Gives the caller the error that it gets without an answer.
    pub(crate) fail: Arc<dyn Fn() + Send + Sync>,
    /// A second delivery, or one after the caller was given the error: it meets no further faults.
    pub(crate) is_late: bool,
}

/// The messages in flight, in the order in which they were sent.
#[derive(Clone, Default)]
pub(crate) struct Network(Arc<Mutex<Vec<Message>>>);

impl Network {
    pub(crate) fn send(&self, message: Message) {
        self.0.lock().unwrap().push(message);
    }

    /// Takes the message that `choose` picks among those that can be delivered at this turn.
    pub(crate) fn take(&self, turn: u64, choose: impl FnOnce(usize) -> usize) -> Option<Message> {
        let mut messages = self.0.lock().unwrap();
        let due: Vec<usize> = (0..messages.len()).filter(|index| messages[*index].due <= turn).collect();
        if due.is_empty() {
            return None;
        }
        let chosen = due[choose(due.len())];
        Some(messages.remove(chosen))
    }

    /// The turn at which the next message can be delivered.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.0.lock().unwrap().iter().map(|message| message.due).min()
    }

    /// Removes the messages for which this is true.
    pub(crate) fn drop_if(&self, is_dropped: impl FnMut(&mut Message) -> bool) {
        let mut is_dropped = is_dropped;
        let dropped: Vec<Message> = {
            let mut messages = self.0.lock().unwrap();
            messages.extract_if(.., |message| is_dropped(message)).collect()
        };
        drop(dropped);
    }
}

/// Where a caller waits for its answer.
pub(crate) struct Slot<T>(Arc<Mutex<Waiting<T>>>);

struct Waiting<T> {
    answer: Option<T>,
    is_answered: bool,
    waker: Option<Waker>,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Waiting { answer: None, is_answered: false, waker: None })))
    }
}

impl<T> Slot<T> {
    /// Gives the caller its answer, if it has none yet.
    pub(crate) fn put(&self, answer: T) {
        let waker = {
            let mut waiting = self.0.lock().unwrap();
            if waiting.is_answered {
                return;
            }
            waiting.is_answered = true;
            waiting.answer = Some(answer);
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Slot<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut waiting = self.0.lock().unwrap();
        match waiting.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
