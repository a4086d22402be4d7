//! A scalar told in private, and what was committed to in public.

use frost_core::{Element, Scalar};
use zeroize::Zeroizing;

use crate::ceremony::{Ceremony, payload};
use crate::suite::{Suite, scalar, secret_bytes};
use crate::{Message, ThresholdError};

/// The message that tells `to` a scalar.
pub(crate) fn tell<C: Suite>(ceremony: &Ceremony, round: u8, to: u16, secret: &Scalar<C>) -> Message {
    ceremony.message(round, Some(to), secret_bytes::<C>(secret).as_slice())
}

/// The scalar that `from` told us in a message of this round, if it is what was committed to.
pub(crate) fn hear<C: Suite>(
    from: u16,
    round: u8,
    body: &[u8],
    committed: &Element<C>,
) -> Result<Zeroizing<Scalar<C>>, ThresholdError> {
    let secret = scalar::<C>(payload(body)).map(Zeroizing::new);
    let secret = secret.ok_or(ThresholdError::MalformedMessage { from, round })?;
    let opens = C::generator_times(&secret) == *committed;
    if opens { Ok(secret) } else { Err(ThresholdError::SecretShare { from }) }
}
