//! Complaints: proof for other nodes that a sender sent a wrong private message.

use super::Header;
use crate::limits::BODY_BYTES_MAX;
use crate::node_key::NodeIdentity;
use crate::text::{base64_bytes, hex_array};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The plaintext of a private message, which its recipient publishes with the sender's signature.
///
/// It proves, to anyone with the sender's identity, that the sender signed this body for this recipient, ceremony and round.
/// The body can then be checked against the sender's broadcast. The signature is part of the encrypted plaintext, so only the
/// sender and the recipient have it.
///
/// It does not prove that this body was sent: the sender may have signed several. A message that does not open gives no
/// complaint, since a third party cannot find out which of the two nodes is at fault. A complaint reveals the body, so complain
/// only about a wrong one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Complaint {
    header: Header,
    #[serde(with = "base64_bytes")]
    body: Vec<u8>,
    #[serde(with = "hex_array")]
    signature: [u8; 64],
}

/// Why a complaint is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComplaintError {
    /// The complaint is about another node than the one given.
    #[error("the complaint is about node {from}")]
    OtherNode {
        /// The accused.
        from: u16,
    },
    /// The complaint is about a broadcast, or its body is larger than [`BODY_BYTES_MAX`].
    #[error("the complaint is not about a private message")]
    NotPrivate,
    /// The signature of the accused node is not valid.
    #[error("node {from} did not sign the message in the complaint")]
    NotSigned {
        /// The accused.
        from: u16,
    },
}

/// Verifies a complaint. Returns the header and body that `accused` signed.
pub fn verify_complaint<'a>(
    accused: &NodeIdentity,
    complaint: &'a Complaint,
) -> Result<(Header, &'a [u8]), ComplaintError> {
    let Complaint { header, body, signature } = complaint;
    let from = header.from;
    if from != accused.index() {
        return Err(ComplaintError::OtherNode { from });
    }
    if header.to.is_none() || body.len() > BODY_BYTES_MAX {
        return Err(ComplaintError::NotPrivate);
    }
    if accused.has_signed(&inner_digest(header, body), signature) {
        Ok((*header, body))
    } else {
        Err(ComplaintError::NotSigned { from })
    }
}

impl Complaint {
    /// The header of the message, not verified.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn new(header: Header, body: Vec<u8>, signature: [u8; 64]) -> Self {
        Self { header, body, signature }
    }
}

/// The digest that the inner signature of a private message covers.
pub(super) fn inner_digest(header: &Header, body: &[u8]) -> [u8; 32] {
    header.hash("gateway/seal/dealt/v1").bytes(body).finish()
}

impl fmt::Debug for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Complaint")
            .field("header", &self.header)
            .field("body", &format_args!("<{} bytes>", self.body.len()))
            .finish_non_exhaustive()
    }
}
