//! Sealing a message: signs it, and encrypts a private body.

use super::complaint::inner_digest;
use super::hybrid::{Binding, encrypt};
use super::{Envelope, Header};
use crate::limits::BODY_BYTES_MAX;
use crate::node_key::{Identities, NodeSecret};
use crate::random::{NoRandomness, Stream, draw};
use zeroize::Zeroizing;

/// Why a message cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The header names another sender than this node.
    #[error("the header names node {from} as the sender, not this node")]
    NotOurs {
        /// The sender in the header.
        from: u16,
    },
    /// The recipient is unknown, or is the sender.
    #[error("node {to} is not another known node")]
    UnknownRecipient {
        /// The recipient in the header.
        to: u16,
    },
    /// More than [`BODY_BYTES_MAX`].
    #[error("a body of {bytes} bytes is too large")]
    Oversize {
        /// Bytes of the body.
        bytes: usize,
    },
    /// HPKE failed. Does not occur with keys that [`NodeIdentity`](crate::node_key::NodeIdentity) accepts.
    #[error("the message cannot be sealed to node {to}")]
    Unsealable {
        /// The recipient in the header.
        to: u16,
    },
    /// The operating system provided no randomness.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// Signs a message. If it has a recipient, also encrypts the body, with an ephemeral key from the operating system's randomness.
pub fn seal(
    secret: &NodeSecret,
    nodes: &Identities,
    header: Header,
    body: &[u8],
) -> Result<Envelope, SealError> {
    seal_from(draw()?, secret, nodes, header, body)
}

/// As [`seal`], with the seed of the ephemeral key as an argument, which must never be used twice.
pub(super) fn seal_from(
    seed: Zeroizing<[u8; 32]>,
    secret: &NodeSecret,
    nodes: &Identities,
    header: Header,
    body: &[u8],
) -> Result<Envelope, SealError> {
    if header.from != secret.identity().index() {
        return Err(SealError::NotOurs { from: header.from });
    }
    if body.len() > BODY_BYTES_MAX {
        return Err(SealError::Oversize { bytes: body.len() });
    }
    let Some(to) = header.to else {
        return Ok(Envelope::sign(secret, header, body.to_vec()));
    };
    let recipient = nodes.get(to).filter(|_| to != header.from).ok_or(SealError::UnknownRecipient { to })?;
    let inner = secret.sign(&inner_digest(&header, body));
    let plaintext = Zeroizing::new([inner.as_slice(), body].concat());
    let sealed = encrypt(recipient.sealing(), &Binding::of(&header), &plaintext, &mut Stream::new(seed));
    Ok(Envelope::sign(secret, header, sealed.map_err(|_| SealError::Unsealable { to })?))
}
