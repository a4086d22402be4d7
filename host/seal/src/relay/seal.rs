//! From a message to an envelope.

use super::complaint::dealt;
use super::hybrid::{Binding, encrypt};
use super::{Envelope, Header};
use crate::limits::BODY_BYTES_MAX;
use crate::node_key::{Identities, NodeSecret};
use crate::random::{NoRandomness, Stream, draw};
use zeroize::Zeroizing;

/// Why a message can not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The header names another sender than the node that seals.
    #[error("the header is of node {from}, not of this one")]
    NotOurs {
        /// The sender in the header.
        from: u16,
    },
    /// Nobody with this index is known, or it is the sender.
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
    /// HPKE failed, as it does with a key that [`Identities`] never holds.
    #[error("nothing can be sealed to node {to}")]
    Unsealable {
        /// The recipient in the header.
        to: u16,
    },
    /// The operating system gave no randomness.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// Signs a message, and seals it if it has one recipient, with an ephemeral key of its own from the operating system's
/// randomness.
///
/// # Errors
/// [`SealError`].
pub fn seal(
    secret: &NodeSecret,
    nodes: &Identities,
    header: Header,
    body: &[u8],
) -> Result<Envelope, SealError> {
    seal_from(draw()?, secret, nodes, header, body)
}

/// The same, with the seed of the ephemeral key as an argument: it must never be used twice.
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
    let inner = secret.sign(&dealt(&header, body));
    let plaintext = Zeroizing::new([inner.as_slice(), body].concat());
    let sealed = encrypt(recipient.sealing(), &Binding::of(&header), &plaintext, &mut Stream::new(seed));
    Ok(Envelope::sign(secret, header, sealed.map_err(|_| SealError::Unsealable { to })?))
}
