//! The additive tweak that turns a key into one of its children, for shares and for public keys.
//!
//! For a tweak `t`: every share `s` becomes `s + t`, every verifying share `Y` becomes `Y + tG`, the group key `K`
//! becomes `K + tG`. As Lagrange coefficients sum to one, the new shares are shares of the new key. The group key is added as a
//! point with its parity; the suite converts it to the one with even y when it signs.

use std::collections::BTreeMap;

use frost_core::keys::{KeyPackage, PublicKeyPackage, SigningShare, VerifyingShare};
use frost_core::{Element, Identifier, Scalar, VerifyingKey};
use frost_secp256k1_tr::Secp256K1Sha256TR;
use zeroize::{Zeroize, Zeroizing};

use crate::ThresholdError;
use crate::suite::{Suite, point, point_bytes, scalar, scalar_bytes};

/// The difference between a child key and its parent key, as a scalar of secp256k1. Not secret: it is computed from the public
/// keys and the chain code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tweak([u8; 32]);

impl Tweak {
    /// Reads a tweak: 32 bytes, big-endian.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::MalformedMaterial`] if the scalar is not below the order of secp256k1.
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self, ThresholdError> {
        let below_order = scalar::<Secp256K1Sha256TR>(&bytes).is_some();
        if below_order { Ok(Self(bytes)) } else { Err(ThresholdError::MalformedMaterial { what: "tweak" }) }
    }

    /// The scalar, 32 bytes, big-endian.
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
    /// [`ThresholdError::DerivationUnsupported`] if the suite does not support tweaks.
    pub(crate) fn new(tweak: &Tweak) -> Result<Self, ThresholdError> {
        let scalar = C::tweak(tweak)?;
        Ok(Self { scalar, element: C::generator_times(&scalar) })
    }

    /// The child's share of one participant.
    pub(crate) fn key_package(&self, parent: &KeyPackage<C>) -> Result<KeyPackage<C>, ThresholdError> {
        let secret = Zeroizing::new(parent.signing_share().serialize());
        let sum = scalar::<C>(&secret).ok_or(UNADDABLE)? + self.scalar;
        let mut bytes = scalar_bytes::<C>(&sum);
        let share = SigningShare::deserialize(bytes.as_ref()).map_err(|_| UNADDABLE);
        bytes.as_mut().zeroize();
        let (id, share, threshold) = (*parent.identifier(), share?, *parent.min_signers());
        let key = self.verifying_key(parent.verifying_key())?;
        Ok(KeyPackage::new(id, share, VerifyingShare::from(share), key, threshold))
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
        let bytes = self.add(share.serialize().ok()).ok_or(UNADDABLE)?;
        VerifyingShare::deserialize(&bytes).map_err(|_| UNADDABLE)
    }

    fn verifying_key(&self, key: &VerifyingKey<C>) -> Result<VerifyingKey<C>, ThresholdError> {
        let bytes = self.add(key.serialize().ok()).ok_or(UNADDABLE)?;
        VerifyingKey::deserialize(&bytes).map_err(|_| UNADDABLE)
    }

    fn add(&self, encoded: Option<Vec<u8>>) -> Option<Vec<u8>> {
        point_bytes::<C>(&(point::<C>(&encoded?)? + self.element))
    }
}

/// The error of a sum that is zero or the identity, which has negligible probability.
const UNADDABLE: ThresholdError = ThresholdError::MalformedMaterial { what: "tweaked key" };
