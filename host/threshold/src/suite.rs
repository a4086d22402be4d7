//! Maps a signature profile to its FROST suite, and bytes to that suite's points and scalars.
//!
//! The rest of the crate works on bytes or is generic over [`Suite`]; no type of the FROST crates is public.

mod ed25519;
mod secp256k1_tr;

use frost_core::{Ciphersuite, Element, Error, Field, Group, Identifier, Scalar};
use zeroize::{Zeroize, Zeroizing};

use crate::{SignatureProfile, ThresholdError};

/// Bytes of an encoded scalar, in both suites.
pub(crate) const SCALAR_BYTES: usize = 32;

/// Bytes of a signature, in both suites.
pub(crate) const SIGNATURE_BYTES: usize = 64;

/// What this crate needs of a suite in addition to frost-core's [`Ciphersuite`].
pub(crate) trait Suite: Ciphersuite<Group: Group<Field: Field<Scalar: Zeroize>>> {
    /// The public key in the library that verifies this suite's signatures.
    type Verifier;

    /// The profile of this suite.
    const PROFILE: SignatureProfile;

    /// Bytes of an encoded group element.
    const POINT_BYTES: usize;

    /// Whether bytes that decode to a point are its canonical encoding. Says nothing of other bytes.
    fn is_canonical(point: &[u8]) -> bool;

    /// The generator times a scalar, in constant time. Precomputed tables make it about three times as fast as multiplying
    /// another element.
    fn generator_times(scalar: &Scalar<Self>) -> Element<Self>;

    /// The public key that signatures verify under, from the encoded group key. `None` if the length is wrong.
    fn public_key(verifying_key: &[u8]) -> Option<[u8; 32]>;

    /// Step 4.1 of `protocols.md`, "Signing": decodes a public key. `None` if it is invalid.
    fn public_key_decode(public_key: &[u8; 32]) -> Option<Self::Verifier>;

    /// Steps 4.2 and 4.3: whether the signature on the message verifies under this key.
    fn verifies(key: &Self::Verifier, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool;

    /// Whether signatures under this encoded group key are those of its negative: with BIP-340, if its y is odd.
    fn is_negated(verifying_key: &[u8]) -> bool;

    /// A hash as a scalar: reduced modulo the group's order, in the byte order of the suite's scalars.
    fn reduce(hash: &[u8; 32]) -> Scalar<Self>;
}

/// The scalar field of a suite.
pub(crate) type ScalarField<C> = <<C as Ciphersuite>::Group as Group>::Field;

/// Evaluates `$body` with `$Suite` as the suite of `$profile`. The only place where a profile becomes a suite.
macro_rules! with_suite {
    ($profile:expr, $Suite:ident => $body:expr) => {
        match $profile {
            $crate::SignatureProfile::FrostEd25519Sha512 => {
                type $Suite = frost_ed25519::Ed25519Sha512;
                $body
            }
            $crate::SignatureProfile::FrostSecp256k1Sha256Tr => {
                type $Suite = frost_secp256k1_tr::Secp256K1Sha256TR;
                $body
            }
        }
    };
}
pub(crate) use with_suite;

/// The FROST identifier of a 0-based participant index: the index + 1, since the polynomial's value at 0 is the key itself.
pub(crate) fn identifier<C: Suite>(participant: u16) -> Result<Identifier<C>, ThresholdError> {
    let out_of_range = ThresholdError::NotInRoster { participant };
    let number = participant.checked_add(1).ok_or_else(|| out_of_range.clone())?;
    Identifier::try_from(number).map_err(|_| out_of_range)
}

/// Decodes a value. `None` if the bytes are not its canonical encoding: `write(read(bytes)) == bytes`. For one point, use
/// [`decode_point`].
pub(crate) fn canonical<T, E>(
    bytes: &[u8],
    read: impl FnOnce(&[u8]) -> Result<T, E>,
    write: impl FnOnce(&T) -> Result<Vec<u8>, E>,
) -> Option<T> {
    let value = read(bytes).ok()?;
    (write(&value).ok()? == bytes).then_some(value)
}

/// Decodes a point, as one of frost-core's types. `None` if the bytes are not its canonical encoding.
///
/// The decoder of secp256k1 accepts several encodings of some points (SEC 1 "compact"), but values that are hashed or compared
/// as bytes must have only one.
pub(crate) fn decode_point<C: Suite, T, E>(
    bytes: &[u8],
    read: impl FnOnce(&[u8]) -> Result<T, E>,
) -> Option<T> {
    let point = read(bytes).ok()?;
    C::is_canonical(bytes).then_some(point)
}

/// The encoding of a group element; `None` for the identity, which has no encoding.
pub(crate) fn point_bytes<C: Suite>(element: &Element<C>) -> Option<Vec<u8>> {
    C::Group::serialize(element).ok().map(|bytes| bytes.as_ref().to_vec())
}

/// The concatenated encodings of group elements.
///
/// # Errors
///
/// [`ThresholdError::Library`] if one is the identity, which has negligible probability for random elements.
pub(crate) fn points_bytes<C: Suite>(elements: &[Element<C>]) -> Result<Vec<u8>, ThresholdError> {
    let mut bytes = Vec::with_capacity(elements.len() * C::POINT_BYTES);
    for element in elements {
        let encoding = C::Group::serialize(element).map_err(|error| unexpected::<C>(error.into()))?;
        bytes.extend(encoding.as_ref());
    }
    Ok(bytes)
}

/// The group element of a canonical encoding.
pub(crate) fn point<C: Suite>(bytes: &[u8]) -> Option<Element<C>> {
    let read = |bytes: &[u8]| C::Group::deserialize(&bytes.try_into().map_err(|_| ())?).map_err(drop);
    decode_point::<C, _, _>(bytes, read)
}

/// The inverse of [`points_bytes`].
pub(crate) fn points<C: Suite>(bytes: &[u8]) -> Option<Vec<Element<C>>> {
    bytes.chunks(C::POINT_BYTES).map(point::<C>).collect()
}

/// A scalar that is a hash of the digest of a tagged hash: FROST's hash for identifiers, which this crate does not derive.
///
/// # Errors
///
/// Does not occur: both suites define the hash.
pub(crate) fn hash_to_scalar<C: Suite>(digest: &[u8]) -> Result<Scalar<C>, ThresholdError> {
    let missing = || ThresholdError::Library { detail: "the suite has no hash to a scalar".to_owned() };
    C::HID(digest).ok_or_else(missing)
}

/// The scalar of a canonical encoding.
pub(crate) fn scalar<C: Suite>(bytes: &[u8]) -> Option<Scalar<C>> {
    let bytes = bytes.try_into().ok()?;
    ScalarField::<C>::deserialize(&bytes).ok()
}

/// The encoding of a scalar.
pub(crate) fn scalar_bytes<C: Suite>(scalar: &Scalar<C>) -> impl AsRef<[u8]> + AsMut<[u8]> + use<C> {
    ScalarField::<C>::serialize(scalar)
}

/// The encoding of a secret scalar. Wipes the intermediate copy.
pub(crate) fn secret_bytes<C: Suite>(scalar: &Scalar<C>) -> Zeroizing<[u8; SCALAR_BYTES]> {
    let mut encoding = scalar_bytes::<C>(scalar);
    let mut bytes = Zeroizing::new([0; SCALAR_BYTES]);
    bytes.iter_mut().zip(encoding.as_ref()).for_each(|(to, from)| *to = *from);
    encoding.as_mut().zeroize();
    bytes
}

/// An error of the FROST library that our own checks should have excluded.
pub(crate) fn unexpected<C: Suite>(error: Error<C>) -> ThresholdError {
    ThresholdError::Library { detail: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frost_ed25519::Ed25519Sha512;
    use frost_secp256k1_tr::Secp256K1Sha256TR;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{RngCore as _, SeedableRng as _};

    /// Every encoding that decodes is the one that the point has.
    fn check<C: Suite>(encodings: impl Iterator<Item = Vec<u8>>) -> usize {
        let decoded = encodings.filter_map(|bytes| Some((point::<C>(&bytes)?, bytes)));
        decoded.inspect(|(point, bytes)| assert_eq!(point_bytes::<C>(point).as_ref(), Some(bytes))).count()
    }

    #[test]
    fn only_the_encoding_that_a_point_has_is_decoded() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut random = |first: Option<u8>| {
            let mut bytes = vec![0; 32];
            rng.fill_bytes(&mut bytes);
            first.into_iter().chain(bytes).collect::<Vec<_>>()
        };
        let n_points =
            check::<Secp256K1Sha256TR>((0..=u8::MAX).cycle().take(10_000).map(|tag| random(Some(tag))));
        assert!(n_points > 20, "{n_points}");
        let n_points =
            check::<Secp256K1Sha256TR>([2, 3, 5].into_iter().cycle().take(900).map(|tag| random(Some(tag))));
        assert!((200..400).contains(&n_points), "{n_points}");
        let n_points = check::<Ed25519Sha512>((0..4_000).map(|_| random(None)));
        assert!(n_points > 100, "{n_points}");
    }

    /// y from 2²⁵⁵ − 19, which is another encoding of y − (2²⁵⁵ − 19), and x from the order of secp256k1's field.
    #[test]
    fn coordinates_that_are_not_reduced_are_not_decoded() {
        for low in 0xed..=0xff {
            for high in [0x7f, 0xff] {
                let bytes = [&[low][..], &[0xff; 30], &[high]].concat();
                assert_eq!(point::<Ed25519Sha512>(&bytes), None, "{low:x} {high:x}");
            }
        }
        for low in 0x2f..=0xff {
            for tag in [2, 3, 5] {
                let bytes = [&[tag][..], &[0xff; 27], &[0xfe, 0xff, 0xff, 0xfc, low]].concat();
                assert_eq!(point::<Secp256K1Sha256TR>(&bytes), None, "{tag} {low:x}");
            }
        }
    }
}
