//! Ceremony messages for the relay: signed by their sender, and private ones sealed to their recipient.
//!
//! A relay that reads all messages learns no share. A message that the relay changed is rejected without naming the sender as
//! the culprit; a sender whose signed message does not open is named.

use crate::error::{Code, NodeError, Rejection};
use crate::node::Node;
use gateway_domain::roster::ParticipantIndex;
use gateway_seal::relay::{self, Complaint, Envelope, Header, OpenError, Opened};
use gateway_threshold::{Message, Protocol, ThresholdError};
use std::collections::BTreeMap;

impl Node {
    /// Signs and seals messages of this node.
    pub(crate) fn seal_mail(
        &self,
        ceremony: [u8; 32],
        messages: Vec<Message>,
    ) -> Result<Vec<Envelope>, NodeError> {
        #[cfg(feature = "testing")]
        let messages = self.lies.mail(messages);
        let identities = self.config.peers.identities(self.identity())?;
        let seal = |message: Message| {
            let Message { from, to, round, ref body } = message;
            relay::seal(&self.secret, &identities, Header { ceremony, from, to, round }, body)
        };
        let sealed = messages.into_iter().map(seal).collect::<Result<_, _>>();
        sealed.map_err(|error| NodeError::caused_by("a message could not be sealed to its recipient", error))
    }

    /// Verifies and opens messages to this node.
    pub(crate) fn open_mail(
        &self,
        ceremony: &[u8; 32],
        envelopes: &[Envelope],
    ) -> Result<Vec<Opened>, NodeError> {
        let identities = self.config.peers.identities(self.identity())?;
        let open = |envelope| relay::open(&self.secret, &identities, ceremony, envelope);
        envelopes.iter().map(open).collect::<Result<_, OpenError>>().map_err(|error| rejection(&error).into())
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

fn rejection(error: &OpenError) -> Rejection {
    match error.culprit() {
        Some(culprit) => Rejection {
            code: Code::CeremonyMisbehaviour,
            detail: error.to_string(),
            culprits: vec![ParticipantIndex(culprit)],
            // A third party cannot find out whether the message or its recipient is at fault.
            complaint: None,
        },
        None => Rejection::new(
            Code::RelayMisbehaviour,
            format!("a message was not relayed as it was sent: {error}"),
        ),
    }
}
