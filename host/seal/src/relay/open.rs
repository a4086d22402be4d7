//! Opening: from an envelope to a message that its sender verifiably sent.

use super::complaint::{Complaint, inner_digest};
use super::hybrid::{Binding, decrypt};
use super::{Envelope, Header};
use crate::node_key::{Identities, NodeSecret};
use std::fmt;
use zeroize::Zeroizing;

/// An authenticated message.
pub struct Opened {
    /// Sender, recipient, ceremony and round.
    pub header: Header,
    /// The message body; wiped when dropped.
    pub body: Zeroizing<Vec<u8>>,
    /// The inner signature of a private message.
    inner: Option<[u8; 64]>,
}

/// Why an envelope is rejected. Each error contains the sender that the header names; [`OpenError::culprit`] returns it
/// only if it is proven to be at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The envelope has another version.
    #[error("the envelope from node {from} has version {version}")]
    Version {
        /// The sender in the header.
        from: u16,
        /// The version.
        version: u8,
    },
    /// No node of this index is known.
    #[error("node {from} is not a known node")]
    UnknownSender {
        /// The sender in the header.
        from: u16,
    },
    /// The message belongs to another ceremony or attempt, because the relay repeated or delayed it.
    #[error("the message from node {from} belongs to another ceremony")]
    OtherCeremony {
        /// The sender in the header.
        from: u16,
    },
    /// The message is for another node.
    #[error("the message from node {from} is for node {to}")]
    NotForUs {
        /// The sender in the header.
        from: u16,
        /// The recipient in the header.
        to: u16,
    },
    /// The relay returned our own message.
    #[error("the message is from this node, node {from}, itself")]
    Reflected {
        /// The sender in the header.
        from: u16,
    },
    /// The body is larger than any message; it was not read.
    #[error("the message from node {from} is too large, with {bytes} bytes")]
    Oversize {
        /// The sender in the header.
        from: u16,
        /// Bytes of the body as sent.
        bytes: usize,
    },
    /// The signature is not the sender's. Sender and relay can both cause this, so it proves no culprit.
    #[error("the message is not signed by node {from}")]
    Forged {
        /// The sender in the header.
        from: u16,
    },
    /// The sender signed the envelope, but it does not open, or the inner signature is wrong. A relay cannot cause this.
    #[error("node {from} sent a message that does not open")]
    Unopenable {
        /// The sender.
        from: u16,
    },
}

impl OpenError {
    /// The node that is proven to be at fault, if any.
    #[must_use]
    pub fn culprit(&self) -> Option<u16> {
        match *self {
            Self::Unopenable { from } => Some(from),
            Self::Version { .. }
            | Self::UnknownSender { .. }
            | Self::OtherCeremony { .. }
            | Self::NotForUs { .. }
            | Self::Reflected { .. }
            | Self::Oversize { .. }
            | Self::Forged { .. } => None,
        }
    }
}

/// Verifies and opens an envelope. A repeat opens again; the session must detect it.
///
/// # Errors
/// [`OpenError`].
pub fn open(
    secret: &NodeSecret,
    nodes: &Identities,
    ceremony: &[u8; 32],
    envelope: &Envelope,
) -> Result<Opened, OpenError> {
    let header = *envelope.header();
    let (from, us) = (header.from, secret.identity().index());
    envelope.verify(nodes)?;
    if header.ceremony != *ceremony {
        return Err(OpenError::OtherCeremony { from });
    }
    if from == us {
        return Err(OpenError::Reflected { from });
    }
    let sender = nodes.get(from).ok_or(OpenError::UnknownSender { from })?;
    match header.to {
        None => Ok(Opened { header, body: Zeroizing::new(envelope.body().to_vec()), inner: None }),
        Some(to) if to != us => Err(OpenError::NotForUs { from, to }),
        Some(_) => {
            let opened = decrypt(secret.sealing(), &Binding::of(&header), envelope.body());
            let plaintext = opened.ok_or(OpenError::Unopenable { from })?;
            let (inner, body) = plaintext.split_first_chunk::<64>().ok_or(OpenError::Unopenable { from })?;
            if !sender.has_signed(&inner_digest(&header, body), inner) {
                return Err(OpenError::Unopenable { from });
            }
            Ok(Opened { header, body: Zeroizing::new(body.to_vec()), inner: Some(*inner) })
        }
    }
}

impl Opened {
    /// Publishes the body of a private message as proof of what the sender sent, to be used when it is wrong. `None` for
    /// a broadcast, whose envelope is the proof.
    #[must_use]
    pub fn complaint(&self) -> Option<Complaint> {
        self.inner.map(|signature| Complaint::new(self.header, self.body.to_vec(), signature))
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("header", &self.header)
            .field("body", &format_args!("<{} bytes>", self.body.len()))
            .finish_non_exhaustive()
    }
}
