//! Ceremonies in progress: in memory only, one attempt for each operation, limited in number and age.

use crate::error::NodeError;
use crate::limits::{CEREMONIES_MAX, CEREMONY_TTL_MS};
use gateway_domain::ids::OperationId;
use gateway_domain::time::EpochMs;
use gateway_seal::relay::{Complaint, Header, Opened};
use gateway_threshold::{Message, Protocol, Session, ThresholdError};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One attempt at a ceremony. The session is taken out while it computes.
pub(crate) struct Ceremony {
    pub(crate) attempt: u32,
    /// The ceremony id in every message.
    pub(crate) id: [u8; 32],
    pub(crate) opened_at: EpochMs,
    pub(crate) session: tokio::sync::Mutex<Option<(Box<Session>, Received)>>,
}

/// The ceremonies of a node, by operation.
#[derive(Default)]
pub(crate) struct Ceremonies(Mutex<BTreeMap<OperationId, Arc<Ceremony>>>);

impl Ceremonies {
    /// Drops ceremonies that timed out, and checks the limit. Called before the attempt is recorded, so that a busy node uses
    /// up no attempts.
    pub(crate) fn check_limit(&self, id: OperationId, now: EpochMs) -> Result<(), NodeError> {
        let mut open = self.0.lock();
        open.retain(|_, other| now.0.saturating_sub(other.opened_at.0) <= CEREMONY_TTL_MS);
        if open.len() >= CEREMONIES_MAX && !open.contains_key(&id) {
            return Err(NodeError::unavailable("the node has too many ceremonies in progress"));
        }
        Ok(())
    }

    pub(crate) fn open(&self, id: OperationId, ceremony: Ceremony) {
        self.0.lock().insert(id, Arc::new(ceremony));
    }

    pub(crate) fn find(&self, id: OperationId, attempt: u32) -> Option<Arc<Ceremony>> {
        self.0.lock().get(&id).filter(|ceremony| ceremony.attempt == attempt).cloned()
    }

    pub(crate) fn close(&self, id: OperationId) {
        self.0.lock().remove(&id);
    }

    pub(crate) fn close_attempt(&self, id: OperationId, attempt: u32) {
        self.0.lock().retain(|open, ceremony| *open != id || ceremony.attempt != attempt);
    }

    pub(crate) fn close_all(&self) {
        self.0.lock().clear();
    }
}

/// What a node has got of a ceremony, to prove who deviated.
pub(crate) struct Received {
    protocol: Protocol,
    /// The bodies of round 1, its own included.
    broadcasts: BTreeMap<u16, Vec<u8>>,
    /// The private messages to it.
    private: Vec<Opened>,
}

impl Received {
    /// What a node has at the start: its own messages.
    pub(crate) fn new(protocol: Protocol, own: &[Message]) -> Self {
        let broadcasts = own.iter().filter(|message| message.to.is_none());
        let broadcasts = broadcasts.map(|message| (message.from, message.body.to_vec())).collect();
        Self { protocol, broadcasts, private: Vec::new() }
    }

    /// Keeps a message, and returns it for the session.
    pub(crate) fn add(&mut self, opened: Opened) -> Message {
        let message = message(&opened);
        if message.to.is_some() {
            self.private.push(opened);
        } else if message.round == 1 {
            self.broadcasts.entry(message.from).or_insert_with(|| message.body.to_vec());
        }
        message
    }

    /// A private message that proves the error of the session. One is revealed only if it does not match its sender's broadcast, and
    /// if the broadcast, which the relay has, is not proof enough.
    pub(crate) fn complaint(&self, error: &ThresholdError) -> Option<Complaint> {
        let culprits = error.culprits();
        let of_culprits = self.private.iter().filter(|opened| culprits.contains(&opened.header.from));
        let mut wrong = of_culprits.filter(|opened| {
            let found = self.protocol.deviation(&message(opened), &self.broadcasts);
            found.is_some_and(|found| found.culprits() == [opened.header.from])
                && !self.is_wrong_broadcast(opened.header.from)
        });
        wrong.next().and_then(Opened::complaint)
    }

    fn is_wrong_broadcast(&self, from: u16) -> bool {
        let Some(body) = self.broadcasts.get(&from) else { return false };
        let broadcast = Message { from, to: None, round: 1, body: body.clone().into() };
        self.protocol.deviation(&broadcast, &self.broadcasts).is_some()
    }
}

fn message(opened: &Opened) -> Message {
    let Header { from, to, round, .. } = opened.header;
    Message { from, to, round, body: opened.body.clone() }
}
