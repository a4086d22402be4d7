//! Child keys (BIP-32) and Taproot output keys (BIP-341). Steps are numbered as in `protocols.md`, section "Child keys".
//!
//! Supports only non-hardened children (<https://github.com/bitcoin/bips/blob/master/bip-0032.mediawiki>, CKDpub) of
//! `frost-secp256k1-sha256-tr` keys. They are derived from the group key and the chain code.

use bip32::{ChildNumber, ExtendedKeyAttrs, Prefix, PublicKey, XPub};
use frost_core::{Element, Field, Group, Scalar};
use frost_secp256k1_tr::Secp256K1Sha256TR;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256, Sha512};

use crate::suite::{Suite, point, point_bytes, scalar, scalar_bytes};
use crate::{PublicKeys, SignatureProfile, ThresholdError, Tweak};

type Secp256k1 = Secp256K1Sha256TR;
type ScalarField = <<Secp256k1 as frost_core::Ciphersuite>::Group as Group>::Field;

/// The lowest hardened index.
const HARDENED: u32 = 1 << 31;

/// First byte of a compressed point whose y is odd (SEC 1, section 2.3.3).
const SEC1_ODD: u8 = 3;

/// Most indexes in a derivation path: BIP-32 stores the depth in one byte.
pub const PATH_INDEXES_MAX: usize = 255;

/// A derived key, and the tweak for signing with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derivation {
    /// The BIP-340 public key: x of the point.
    pub public_key: [u8; 32],
    /// The point: the group key plus the tweak times the generator; compressed SEC 1.
    pub point: [u8; 33],
    /// The [`SigningPackage::tweak`](crate::sign::SigningPackage::tweak) that signs under this key.
    pub tweak: Tweak,
}

/// A key on the derivation path.
struct Node {
    key: Element<Secp256k1>,
    chain_code: [u8; 32],
    /// Sum of all `I_L` so far: `key` is the root key plus this times the generator.
    tweak: Scalar<Secp256k1>,
}

/// The child of `keys` at `path`, outermost index first; each index is below 2³¹. An empty path is the key itself.
///
/// # Errors
///
/// [`ThresholdError::DerivationUnsupported`] for another profile, [`ThresholdError::HardenedIndex`],
/// [`ThresholdError::PathTooDeep`], or, with negligible probability, [`ThresholdError::InvalidChild`].
pub fn derive(keys: &PublicKeys, path: &[u32]) -> Result<Derivation, ThresholdError> {
    match keys.profile() {
        SignatureProfile::FrostSecp256k1Sha256Tr => {}
        profile @ SignatureProfile::FrostEd25519Sha512 => {
            return Err(ThresholdError::DerivationUnsupported { profile });
        }
    }
    // Step 1.1
    if path.len() > PATH_INDEXES_MAX {
        return Err(ThresholdError::PathTooDeep { indexes: path.len() });
    }
    let malformed = ThresholdError::MalformedMaterial { what: "public keys" };
    let key = point::<Secp256k1>(keys.verifying_key()).ok_or_else(|| malformed.clone())?;
    // Step 1.2
    let root = Node { key, chain_code: *keys.chain_code(), tweak: ScalarField::zero() };
    let child = path.iter().try_fold(root, |node, index| node.child(*index))?;
    Derivation::new(&child.key, &child.tweak).ok_or(malformed)
}

/// The extended public key (`xpub…`) of the child at `path`, from which anyone can derive all further children.
///
/// # Errors
///
/// As [`derive()`].
pub fn extended_public_key(keys: &PublicKeys, path: &[u32]) -> Result<String, ThresholdError> {
    derive(keys, path)?;
    let malformed = |_| ThresholdError::MalformedMaterial { what: "public keys" };
    let root = ExtendedKeyAttrs {
        depth: 0,
        parent_fingerprint: [0; 4],
        child_number: ChildNumber(0),
        chain_code: *keys.chain_code(),
    };
    let point = keys.verifying_key().try_into();
    let point = point.map_err(|_| ThresholdError::MalformedMaterial { what: "public keys" })?;
    let root = XPub::new(PublicKey::from_bytes(point).map_err(malformed)?, root);
    let child = path.iter().try_fold(root, |node, index| node.derive_child(ChildNumber(*index)));
    Ok(child.map_err(malformed)?.to_string(Prefix::XPUB))
}

impl Derivation {
    /// Step 1.5. `None` if the key is the identity, which has negligible probability.
    fn new(key: &Element<Secp256k1>, tweak: &Scalar<Secp256k1>) -> Option<Self> {
        let point: [u8; 33] = point_bytes::<Secp256k1>(key)?.try_into().ok()?;
        let public_key = Secp256k1::public_key(&point)?;
        let tweak = scalar_bytes::<Secp256k1>(tweak).as_ref().try_into().ok()?;
        Some(Self { public_key, point, tweak: Tweak::from_bytes(tweak).ok()? })
    }

    /// Steps 2.1 to 2.3: the Taproot output key (BIP-341) with this key as internal key. `merkle_root` is the root of the script
    /// tree; without one the output can be spent by this key only, as in BIP-86.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::InvalidOutputKey`], with negligible probability.
    pub fn taproot(&self, merkle_root: Option<&[u8; 32]>) -> Result<Self, ThresholdError> {
        self.output_key(merkle_root).ok_or(ThresholdError::InvalidOutputKey)
    }

    fn output_key(&self, merkle_root: Option<&[u8; 32]>) -> Option<Self> {
        let tag = Sha256::digest(b"TapTweak");
        let hash = Sha256::new().chain_update(tag).chain_update(tag).chain_update(self.public_key);
        let hash = hash.chain_update(merkle_root.map_or(&[][..], |root| root)).finalize();
        let step = scalar::<Secp256k1>(&hash)?;
        // BIP-341 adds the step to the point with even y, which is the negative of this one if its y is odd.
        let step = if self.point.first() == Some(&SEC1_ODD) { ScalarField::zero() - step } else { step };
        let key = point::<Secp256k1>(&self.point)? + Secp256k1::generator_times(&step);
        Self::new(&key, &(scalar::<Secp256k1>(self.tweak.as_bytes())? + step))
    }
}

impl Node {
    /// Steps 1.3 and 1.4: CKDpub of BIP-32.
    fn child(self, index: u32) -> Result<Self, ThresholdError> {
        if index >= HARDENED {
            return Err(ThresholdError::HardenedIndex { index });
        }
        self.step(index).ok_or(ThresholdError::InvalidChild { index })
    }

    /// `None` if the child is invalid according to BIP-32.
    fn step(self, index: u32) -> Option<Self> {
        let mut mac = Hmac::<Sha512>::new_from_slice(&self.chain_code).ok()?;
        mac.update(&point_bytes::<Secp256k1>(&self.key)?);
        mac.update(&index.to_be_bytes());
        let output: [u8; 64] = mac.finalize().into_bytes().into();
        let (left, right) = output.split_first_chunk::<32>()?;
        let step = scalar::<Secp256k1>(left)?;
        let key = self.key + Secp256k1::generator_times(&step);
        point_bytes::<Secp256k1>(&key)?;
        Some(Self { key, chain_code: right.try_into().ok()?, tweak: self.tweak + step })
    }
}
