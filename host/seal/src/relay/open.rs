//! From an envelope to a message that its sender can be held to.

use super::complaint::{Complaint, dealt};
use super::hybrid::{Binding, decrypt};
use super::{Envelope, Header};
use crate::node_key::{Identities, NodeSecret};
use std::fmt;
use zeroize::Zeroizing;

/// A message, by the sender in its header.
pub struct Opened {
    /// Where it belongs.
    pub header: Header,
    /// What was said; wiped when dropped.
    pub body: Zeroizing<Vec<u8>>,
    /// The inner signature of a private message.
    inner: Option<[u8; 64]>,
}

/// Why an envelope is not a message to us. Each names the sender that the header claims; whether that node is to blame
/// says [`OpenError::culprit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// An envelope of another version.
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
    /// It belongs to another ceremony, or to another attempt: the relay repeats it, or is late.
    #[error("the message from node {from} is of another ceremony")]
    OtherCeremony {
        /// The sender in the header.
        from: u16,
    },
    /// It is for another node.
    #[error("the message from node {from} is for node {to}")]
    NotForUs {
        /// The sender in the header.
        from: u16,
        /// The recipient in the header.
        to: u16,
    },
    /// It is our own.
    #[error("the message is our own, node {from}")]
    Reflected {
        /// The sender in the header.
        from: u16,
    },
    /// Larger than any message: not looked at.
    #[error("the message from node {from} has {bytes} bytes")]
    Oversize {
        /// The sender in the header.
        from: u16,
        /// Bytes of the body as carried.
        bytes: usize,
    },
    /// The signature is not the sender's. Sender and relay can both do that, so nobody is blamed.
    #[error("the message is not signed by node {from}")]
    Forged {
        /// The sender in the header.
        from: u16,
    },
    /// Signed by the sender as it is, and it does not open, or the inner signature is wrong. No relay can do that.
    #[error("node {from} sent what does not open")]
    Unopenable {
        /// The sender.
        from: u16,
    },
}

impl OpenError {
    /// The node that is proven wrong to the recipient, if one is.
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

/// Checks an envelope and opens it. A repeat opens again: that a session has had it is the session's to know.
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
            if !sender.has_signed(&dealt(&header, body), inner) {
                return Err(OpenError::Unopenable { from });
            }
            Ok(Opened { header, body: Zeroizing::new(body.to_vec()), inner: Some(*inner) })
        }
    }
}

impl Opened {
    /// Proof of what the sender said here in private, for when it is wrong; `None` for a broadcast, whose envelope is
    /// the proof. It publishes the body.
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
