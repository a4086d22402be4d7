//! What a node shows others when it was dealt something wrong in private.

use super::Header;
use crate::limits::BODY_BYTES_MAX;
use crate::node_key::NodeIdentity;
use crate::text::{base64_bytes, hex_array};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A private message, laid open by its recipient with the sender's signature over what was in it.
///
/// It proves to anybody who knows the sender's identity that the sender wrote this body to this recipient, in this
/// ceremony and round. Whether the body is wrong, everybody can then check against the sender's broadcast. The
/// signature lies inside the sealed plaintext, so nobody but the recipient can make a complaint, and it needs nothing
/// of the recipient's secret.
///
/// It does not prove that the body was what arrived: a sender may have signed two. And there is none for a message that
/// does not open at all: that is one node's word against another's, and costs both the attempt. A complaint makes a
/// share of a secret public, so a node complains only about one that is wrong.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Complaint {
    header: Header,
    #[serde(with = "base64_bytes")]
    body: Vec<u8>,
    #[serde(with = "hex_array")]
    signature: [u8; 64],
}

/// Why a complaint proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComplaintError {
    /// It accuses another node than the one it was checked against.
    #[error("the complaint is about node {from}")]
    OtherNode {
        /// The accused.
        from: u16,
    },
    /// It is about a broadcast, which needs none, or about something larger than a message.
    #[error("the complaint is not about a private message")]
    NotPrivate,
    /// The accused did not sign this.
    #[error("node {from} did not sign what the complaint shows")]
    Unproven {
        /// The accused.
        from: u16,
    },
}

/// The header and the body that `accused` really sent.
///
/// # Errors
/// [`ComplaintError`].
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
    if accused.has_signed(&dealt(header, body), signature) {
        Ok((*header, body))
    } else {
        Err(ComplaintError::Unproven { from })
    }
}

impl Complaint {
    pub(super) fn new(header: Header, body: Vec<u8>, signature: [u8; 64]) -> Self {
        Self { header, body, signature }
    }
}

/// What the inner signature of a private message covers.
pub(super) fn dealt(header: &Header, body: &[u8]) -> [u8; 32] {
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
