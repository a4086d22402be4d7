//! Ceremony messages for the relay: signed by their sender, and private ones sealed to their recipient.
//!
//! A relay that reads all messages learns no share. A message that the relay changed is rejected without naming the sender as
//! the culprit; a sender whose signed message does not open is named.

use crate::error::{Code, NodeError, NodeRejection};
use crate::node::Node;
use gateway_domain::roster::ParticipantIndex;
use gateway_seal::relay::{self, Envelope, Header, OpenError, Opened};
use gateway_threshold::Message;

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

fn rejection(error: &OpenError) -> NodeRejection {
    match error.culprit() {
        Some(culprit) => NodeRejection {
            code: Code::CeremonyMisbehaviour,
            detail: error.to_string(),
            culprits: vec![ParticipantIndex(culprit)],
            // A third party cannot find out whether the message or its recipient is at fault.
            complaint: None,
        },
        None => NodeRejection::new(
            Code::RelayMisbehaviour,
            format!("a message was not relayed as it was sent: {error}"),
        ),
    }
}
