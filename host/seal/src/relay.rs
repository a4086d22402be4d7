//! Messages between nodes over an untrusted relay: signed by their sender, and sealed if they are private.
//!
//! A private body is `encapsulated key (32) ‖ ciphertext`, HPKE base mode of RFC 9180 with DHKEM(X25519, HKDF-SHA256),
//! HKDF-SHA256 and ChaCha20-Poly1305, one encapsulation per message. `info` is the digest of a label and the ceremony,
//! `aad` the digest of the header. The plaintext is `inner signature (64) ‖ body`; a [`Complaint`] contains the inner signature.
//! The signature of the envelope covers the header and the body as sent, so the relay cannot change either. A ciphertext opens
//! only with its own header, so no other node can send it as its own.
//!
//! **Limits.** The relay can withhold, delay and repeat messages. A repeat opens again: the session accepts one message
//! for each (ceremony, round, sender) and compares any further one with it. Two broadcast envelopes that both pass
//! [`Envelope::verify`], with equal headers and different bodies, prove that the sender sent different messages to different
//! recipients. There is no forward secrecy: with the recipient's key, earlier messages can be read.

mod complaint;
mod hybrid;
mod open;
mod seal;
#[cfg(test)]
mod tests;

pub use complaint::{Complaint, ComplaintError, verify_complaint};
pub use open::{OpenError, Opened, open};
pub use seal::{SealError, seal};

use crate::hash::TaggedHash;
use crate::limits::BODY_BYTES_MAX;
use crate::node_key::{Identities, NodeSecret};
use crate::text::{base64_bytes, hex_array};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of envelopes that this crate writes and reads.
const VERSION: u8 = 1;

/// Longest body as sent: the message body, inner signature, encapsulated key and tag.
const CARRIED_BYTES_MAX: usize = BODY_BYTES_MAX + 64 + 32 + 16;

/// The ceremony, round, sender and recipient of a message. Not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The id of the ceremony; a repeated attempt has another one.
    #[serde(with = "hex_array")]
    pub ceremony: [u8; 32],
    /// Index of the sender.
    pub from: u16,
    /// The recipient of a private message; `None` for a broadcast, whose body is not encrypted.
    pub to: Option<u16>,
    /// Round of the protocol, from 1.
    pub round: u8,
}

/// A signed message, encrypted if it is private.
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
    /// Starts a hash over the header, under a tag for its purpose.
    fn hash(&self, tag: &'static str) -> TaggedHash {
        let hash = TaggedHash::new(tag).bytes(&self.ceremony).number(self.from);
        let hash = match self.to {
            Some(to) => hash.number(to),
            None => hash.bytes(&[]),
        };
        hash.number(self.round)
    }
}

impl Envelope {
    /// Signs header and body as sent.
    fn sign(secret: &NodeSecret, header: Header, body: Vec<u8>) -> Self {
        let signature = secret.sign(&signed_digest(&header, &body));
        Self { v: VERSION, header, body, signature }
    }

    /// The header, for the relay to find the recipient. Not authenticated before [`Envelope::verify`].
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The body of a broadcast; `None` for a private message, whose body is encrypted. Not authenticated before
    /// [`Envelope::verify`].
    #[must_use]
    pub fn broadcast(&self) -> Option<&[u8]> {
        self.header.to.is_none().then_some(self.body.as_slice())
    }

    /// The body as sent: encrypted if the message is private.
    fn body(&self) -> &[u8] {
        &self.body
    }

    /// Checks that the sender in the header signed this envelope.
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
        if sender.has_signed(&signed_digest(&self.header, &self.body), &self.signature) {
            Ok(())
        } else {
            Err(OpenError::Forged { from })
        }
    }
}

/// The digest that the envelope's signature covers.
fn signed_digest(header: &Header, body: &[u8]) -> [u8; 32] {
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
