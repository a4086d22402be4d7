//! The additive tweak that turns a key into one that is derived from it, for shares and for public keys.
//!
//! For a tweak `t`: every share `s` becomes `s + t`, every verifying share `Y` becomes `Y + tG`, the group key `K`
//! becomes `K + tG`. As Lagrange coefficients sum to one, the new shares are shares of the new key. The group key is added as a
//! point with its parity; the suite converts it to the one with even y when it signs.

use std::collections::BTreeMap;

use frost_core::keys::{KeyPackage, PublicKeyPackage, SigningShare, VerifyingShare};
use frost_core::{Element, Group, Identifier, Scalar, VerifyingKey};
use zeroize::Zeroize;

use crate::ThresholdError;
use crate::suite::{Suite, scalar};

/// The difference between a derived key and the key itself, as a scalar in the encoding of its curve: 32 bytes, big-endian for
/// secp256k1 and little-endian for Ed25519. Not secret: it is computed from public values.
///
/// Any bytes are a tweak; signing with one that is not a scalar of the key's curve is [`ThresholdError::MalformedMaterial`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tweak([u8; 32]);

impl Tweak {
    /// A tweak with this encoding.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The encoding of the scalar.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The tweak `t` as a scalar, and `tG`.
pub(crate) struct Addend<C: Suite> {
    scalar: Scalar<C>,
    element: Element<C>,
}

impl<C: Suite> Addend<C> {
    /// # Errors
    ///
    /// [`ThresholdError::MalformedMaterial`] if the tweak is not a scalar of the suite.
    pub(crate) fn new(tweak: &Tweak) -> Result<Self, ThresholdError> {
        let scalar =
            scalar::<C>(tweak.as_bytes()).ok_or(ThresholdError::MalformedMaterial { what: "tweak" })?;
        Ok(Self { scalar, element: C::generator_times(&scalar) })
    }

    /// The child's share of one participant.
    pub(crate) fn key_package(&self, parent: &KeyPackage<C>) -> Result<KeyPackage<C>, ThresholdError> {
        let mut sum = parent.signing_share().to_scalar() + self.scalar;
        let share = SigningShare::new(sum);
        sum.zeroize();
        let (id, threshold) = (*parent.identifier(), *parent.min_signers());
        // Adding points takes a fraction of the time of multiplying the generator by the new share.
        let verifying_share = self.verifying_share(parent.verifying_share())?;
        let key = self.verifying_key(parent.verifying_key())?;
        Ok(KeyPackage::new(id, share, verifying_share, key, threshold))
    }

    /// The child's public keys.
    pub(crate) fn public_keys(
        &self,
        parent: &PublicKeyPackage<C>,
    ) -> Result<PublicKeyPackage<C>, ThresholdError> {
        let shares = parent.verifying_shares().iter();
        let shares: BTreeMap<Identifier<C>, VerifyingShare<C>> =
            shares.map(|(id, share)| Ok((*id, self.verifying_share(share)?))).collect::<Result<_, _>>()?;
        Ok(PublicKeyPackage::new(shares, self.verifying_key(parent.verifying_key())?, parent.min_signers()))
    }

    fn verifying_share(&self, share: &VerifyingShare<C>) -> Result<VerifyingShare<C>, ThresholdError> {
        self.add(share.to_element()).map(VerifyingShare::new)
    }

    fn verifying_key(&self, key: &VerifyingKey<C>) -> Result<VerifyingKey<C>, ThresholdError> {
        self.add(key.to_element()).map(VerifyingKey::new)
    }

    fn add(&self, element: Element<C>) -> Result<Element<C>, ThresholdError> {
        let sum = element + self.element;
        if sum == C::Group::identity() { Err(UNADDABLE) } else { Ok(sum) }
    }
}

/// The error of a sum that is zero or the identity, which has negligible probability.
const UNADDABLE: ThresholdError = ThresholdError::MalformedMaterial { what: "tweaked key" };
