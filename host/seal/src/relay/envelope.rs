//! What the relay carries and sees.

use super::open::OpenError;
use crate::hash::TaggedHash;
use crate::limits::BODY_BYTES_MAX;
use crate::node_key::{Identities, NodeSecret};
use crate::text::{base64_bytes, hex_array};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The envelopes that this crate makes and reads.
const VERSION: u8 = 1;

/// Longest body as carried: an inner signature, an encapsulated key and a tag more than what is sent.
const CARRIED_BYTES_MAX: usize = BODY_BYTES_MAX + 64 + 32 + 16;

/// Where a message belongs. Everything but the body is public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The ceremony and its attempt: never the same for two attempts.
    #[serde(with = "hex_array")]
    pub ceremony: [u8; 32],
    /// Index of the sender.
    pub from: u16,
    /// The one recipient of a private message; `None` is for everybody, and in clear.
    pub to: Option<u16>,
    /// Round of the protocol, from 1.
    pub round: u8,
}

/// One message on its way.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    v: u8,
    header: Header,
    #[serde(with = "base64_bytes")]
    body: Vec<u8>,
    #[serde(with = "hex_array")]
    signature: [u8; 64],
}

impl Header {
    /// Opens a hash over the header, under a tag that says what for.
    pub(super) fn hash(&self, tag: &'static str) -> TaggedHash {
        let hash = TaggedHash::new(tag).bytes(&self.ceremony).number(self.from);
        let hash = match self.to {
            Some(to) => hash.number(to),
            None => hash.bytes(&[]),
        };
        hash.number(self.round)
    }
}

impl Envelope {
    /// Signs a body as it is carried.
    pub(super) fn sign(secret: &NodeSecret, header: Header, body: Vec<u8>) -> Self {
        let signature = secret.sign(&signed(&header, &body));
        Self { v: VERSION, header, body, signature }
    }

    /// What the relay needs to deliver it. Nothing of it is true before [`Envelope::verify`].
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The body as carried.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether the node in the header made this envelope: for recipients, and for whoever judges evidence.
    ///
    /// # Errors
    /// [`OpenError::Version`], [`OpenError::UnknownSender`], [`OpenError::Oversize`] or [`OpenError::Forged`].
    pub fn verify(&self, nodes: &Identities) -> Result<(), OpenError> {
        let from = self.header.from;
        if self.v != VERSION {
            return Err(OpenError::Version { from, version: self.v });
        }
        let sender = nodes.get(from).ok_or(OpenError::UnknownSender { from })?;
        if self.body.len() > CARRIED_BYTES_MAX {
            return Err(OpenError::Oversize { from, bytes: self.body.len() });
        }
        if sender.has_signed(&signed(&self.header, &self.body), &self.signature) {
            Ok(())
        } else {
            Err(OpenError::Forged { from })
        }
    }
}

fn signed(header: &Header, body: &[u8]) -> [u8; 32] {
    header.hash("gateway/seal/envelope/v1").bytes(body).finish()
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("header", &self.header)
            .field("body", &format_args!("<{} bytes>", self.body.len()))
            .finish_non_exhaustive()
    }
}
