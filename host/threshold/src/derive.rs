//! Derived keys: the key for payments, child keys (BIP-32) and Taproot output keys (BIP-341), in this order. Steps are numbered as in
//! `protocols.md`, section "Derived keys".
//!
//! Each follows from the group key with one additive tweak. BIP-32 children are non-hardened
//! (<https://github.com/bitcoin/bips/blob/master/bip-0032.mediawiki>, CKDpub), and need the chain code too. They and output keys exist
//! for `frost-secp256k1-sha256-tr` only; the key for payments exists for every profile.

use bip32::{ChildNumber, ExtendedKeyAttrs, Prefix, PublicKey, XPub};
use frost_core::{Element, Field, Scalar};
use frost_secp256k1_tr::Secp256K1Sha256TR;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256, Sha512};

use crate::suite::{ScalarField, Suite, point, point_bytes, scalar, scalar_bytes, with_suite};
use crate::{PublicKeys, SignatureProfile, ThresholdError, Tweak};

type Secp256k1 = Secp256K1Sha256TR;

/// The lowest hardened index.
const HARDENED: u32 = 1 << 31;

/// The domain tag of step 3.1.
const PAYMENTS_TAG: &[u8] = b"svc/payments-key/v1";

/// Most indexes in a derivation path: BIP-32 stores the depth in one byte.
pub const PATH_INDEXES_MAX: usize = 255;

/// A derived key, and the tweak for signing with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derivation {
    /// The public key that verifies signatures: x of the point (BIP-340), or the point (RFC 8032).
    pub public_key: [u8; 32],
    /// The point: the group key plus the tweak times the generator; compressed SEC 1, or RFC 8032.
    pub point: Vec<u8>,
    /// The [`SigningPackage::tweak`](crate::sign::SigningPackage::tweak) that signs under this key.
    pub tweak: Tweak,
    profile: SignatureProfile,
    /// The chain code of its children.
    chain_code: [u8; 32],
}

/// The child of `keys` at `path`, outermost index first; each index is below 2³¹. An empty path is the key itself.
pub fn derive(keys: &PublicKeys, path: &[u32]) -> Result<Derivation, ThresholdError> {
    Derivation::of(keys)?.child(path)
}

/// The extended public key (`xpub…`) of the child at `path`, from which anyone can derive all further children.
pub fn extended_public_key(keys: &PublicKeys, path: &[u32]) -> Result<String, ThresholdError> {
    derive(keys, path)?;
    let malformed = |_| MALFORMED;
    let root = ExtendedKeyAttrs {
        depth: 0,
        parent_fingerprint: [0; 4],
        child_number: ChildNumber(0),
        chain_code: *keys.chain_code(),
    };
    let point = keys.verifying_key().try_into();
    let point = point.map_err(|_| MALFORMED)?;
    let root = XPub::new(PublicKey::from_bytes(point).map_err(malformed)?, root);
    let child = path.iter().try_fold(root, |node, index| node.derive_child(ChildNumber(*index)));
    Ok(child.map_err(malformed)?.to_string(Prefix::XPUB))
}

const MALFORMED: ThresholdError = ThresholdError::MalformedMaterial { what: "public keys" };

impl Derivation {
    /// The key itself, with a tweak of zero.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::MalformedMaterial`]; public keys that were decoded do not cause it.
    pub fn of(keys: &PublicKeys) -> Result<Self, ThresholdError> {
        with_suite!(keys.profile(), C => {
            let key = point::<C>(keys.verifying_key());
            key.and_then(|key| Self::new::<C>(&key, &ScalarField::<C>::zero(), *keys.chain_code())).ok_or(MALFORMED)
        })
    }

    /// Steps 3.1 to 3.3: the key for payments of the key with this id.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::InvalidPaymentsKey`], with negligible probability.
    pub fn payments(&self, key_id: &[u8; 32]) -> Result<Self, ThresholdError> {
        // Step 3.1
        let hash = Sha256::new().chain_update(PAYMENTS_TAG).chain_update(key_id);
        let hash = hash.chain_update(self.public_key).finalize().into();
        with_suite!(self.profile, C => {
            let step = Some(C::reduce(&hash)).filter(|step| *step != ScalarField::<C>::zero());
            step.and_then(|step| self.plus::<C>(step)).ok_or(ThresholdError::InvalidPaymentsKey)
        })
    }

    /// The child at `path`, outermost index first; each index is below 2³¹. An empty path is this key.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::DerivationUnsupported`] for another profile than secp256k1's, [`ThresholdError::HardenedIndex`],
    /// [`ThresholdError::PathTooDeep`], or, with negligible probability, [`ThresholdError::InvalidChild`].
    pub fn child(&self, path: &[u32]) -> Result<Self, ThresholdError> {
        self.check_secp256k1()?;
        // Step 1.1
        if path.len() > PATH_INDEXES_MAX {
            return Err(ThresholdError::PathTooDeep { indexes: path.len() });
        }
        // Step 1.2
        path.iter().try_fold(self.clone(), |parent, index| {
            // Step 1.3
            if *index >= HARDENED {
                return Err(ThresholdError::HardenedIndex { index: *index });
            }
            parent.child_at(*index).ok_or(ThresholdError::InvalidChild { index: *index })
        })
    }

    /// Steps 1.4 and 1.5: CKDpub of BIP-32. `None` if the child is invalid according to BIP-32.
    fn child_at(&self, index: u32) -> Option<Self> {
        let mut mac = Hmac::<Sha512>::new_from_slice(&self.chain_code).ok()?;
        mac.update(&self.point);
        mac.update(&index.to_be_bytes());
        let output: [u8; 64] = mac.finalize().into_bytes().into();
        let (left, right) = output.split_first_chunk::<32>()?;
        let step = scalar::<Secp256k1>(left)?;
        let key = point::<Secp256k1>(&self.point)? + Secp256k1::generator_times(&step);
        Self::new::<Secp256k1>(&key, &(self.scalar::<Secp256k1>()? + step), right.try_into().ok()?)
    }

    /// Steps 2.1 to 2.3: the Taproot output key (BIP-341) with this key as internal key. `merkle_root` is the root of the script
    /// tree; without one the output can be spent by this key only, as in BIP-86.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::DerivationUnsupported`] for another profile than secp256k1's, or, with negligible probability,
    /// [`ThresholdError::InvalidOutputKey`].
    pub fn taproot(&self, merkle_root: Option<&[u8; 32]>) -> Result<Self, ThresholdError> {
        self.check_secp256k1()?;
        // Step 2.1
        let tag = Sha256::digest(b"TapTweak");
        let hash = Sha256::new().chain_update(tag).chain_update(tag).chain_update(self.public_key);
        let hash = hash.chain_update(merkle_root.map_or(&[][..], |root| root)).finalize();
        let step = scalar::<Secp256k1>(&hash);
        step.and_then(|step| self.plus::<Secp256k1>(step)).ok_or(ThresholdError::InvalidOutputKey)
    }

    fn check_secp256k1(&self) -> Result<(), ThresholdError> {
        match self.profile {
            SignatureProfile::FrostSecp256k1Sha256Tr => Ok(()),
            profile @ SignatureProfile::FrostEd25519Sha512 => {
                Err(ThresholdError::DerivationUnsupported { profile })
            }
        }
    }

    /// Steps 2.2 and 2.3, and 3.2 and 3.3: adds the step times the generator to the point that signatures verify with, which is the
    /// negative of this one if its y is odd.
    fn plus<C: Suite>(&self, step: Scalar<C>) -> Option<Self> {
        let step = if C::is_negated(&self.point) { ScalarField::<C>::zero() - step } else { step };
        let key = point::<C>(&self.point)? + C::generator_times(&step);
        Self::new::<C>(&key, &(self.scalar::<C>()? + step), self.chain_code)
    }

    /// `None` if the key is the identity, which has negligible probability.
    fn new<C: Suite>(key: &Element<C>, tweak: &Scalar<C>, chain_code: [u8; 32]) -> Option<Self> {
        let point = point_bytes::<C>(key)?;
        let public_key = C::public_key(&point)?;
        let tweak = Tweak::new(scalar_bytes::<C>(tweak).as_ref().try_into().ok()?);
        Some(Self { public_key, point, tweak, profile: C::PROFILE, chain_code })
    }

    fn scalar<C: Suite>(&self) -> Option<Scalar<C>> {
        scalar::<C>(self.tweak.as_bytes())
    }
}
