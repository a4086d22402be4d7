//! Messages between the gateway's replicas and the other parts: each is handled when the schedule delivers it, in one go.
//!
//! A replica that calls a node, the store or the authority puts a request here and waits. The schedule ([`crate::world`]) chooses the
//! next message, so the order of all calls follows from the seed alone, although the databases use threads.

use crate::parts::AuthorityProcess;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_engine::ports::Commit;
use gateway_node::Node;
use gateway_store::Store;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

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

/// Gives a caller its answer.
pub(crate) struct Slot<T>(Mutex<Option<oneshot::Sender<T>>>);

impl<T> Slot<T> {
    /// A slot, and where its caller waits.
    pub(crate) fn new() -> (Arc<Self>, impl Future<Output = T>) {
        let (sender, receiver) = oneshot::channel();
        let answer = async {
            match receiver.await {
                Ok(answer) => answer,
                // The caller's process crashed, or its message is lost without an error.
                Err(_) => std::future::pending().await,
            }
        };
        (Arc::new(Self(Mutex::new(Some(sender)))), answer)
    }

    /// Gives the caller its answer, if it has none yet.
    pub(crate) fn put(&self, answer: T) {
        if let Some(sender) = self.0.lock().unwrap().take() {
            let _caller_is_gone = sender.send(answer);
        }
    }
}
