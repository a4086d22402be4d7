//! Opening an envelope: verifies its signatures and decrypts a private body.

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

/// Why an envelope is rejected. `from` is the sender in the header; [`OpenError::culprit`] returns it only if it is proven to be
/// at fault.
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
    /// The set of nodes has no node with this index.
    #[error("node {from} is not a known node")]
    UnknownSender {
        /// The sender in the header.
        from: u16,
    },
    /// The message belongs to another ceremony or attempt.
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
    /// The message is this node's own.
    #[error("the message is from this node, node {from}, itself")]
    Reflected {
        /// The sender in the header.
        from: u16,
    },
    /// The body is larger than any valid one. Its signature was not verified.
    #[error("the message from node {from} is too large, with {bytes} bytes")]
    Oversize {
        /// The sender in the header.
        from: u16,
        /// Bytes of the body as sent.
        bytes: usize,
    },
    /// The signature does not verify under the sender's key. Sender and relay can both cause this, so neither is named.
    #[error("the message is not signed by node {from}")]
    Forged {
        /// The sender in the header.
        from: u16,
    },
    /// The sender signed the envelope, but the body does not decrypt, or the inner signature is invalid. A relay cannot cause
    /// this.
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

/// Verifies and opens an envelope. A repeated envelope opens again: the session must detect it.
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
    /// A complaint with the body of a private message, to prove that the sender signed a wrong one. `None` for a broadcast,
    /// whose envelope is proof enough.
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
