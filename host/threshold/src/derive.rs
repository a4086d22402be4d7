//! Child keys: BIP-32 public derivation. Steps are numbered as in `protocols.md`, section "Child keys".
//!
//! Supports only non-hardened children (<https://github.com/bitcoin/bips/blob/master/bip-0032.mediawiki>, CKDpub) of
//! `frost-secp256k1-sha256-tr` keys. They are derived from the group key and the chain code.

use frost_core::{Element, Field, Group, Scalar};
use frost_secp256k1_tr::Secp256K1Sha256TR;
use hmac::{Hmac, Mac};
use sha2::Sha512;

use crate::suite::{Suite, point, point_bytes, scalar, scalar_bytes};
use crate::{PublicKeys, SignatureProfile, ThresholdError, Tweak};

type Secp256k1 = Secp256K1Sha256TR;
type ScalarField = <<Secp256k1 as frost_core::Ciphersuite>::Group as Group>::Field;

/// The lowest hardened index.
const HARDENED: u32 = 1 << 31;

/// Most indexes in a derivation path: BIP-32 stores the depth in one byte.
pub const PATH_INDEXES_MAX: usize = 255;

/// A child key, and the tweak for signing with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derivation {
    /// The child's BIP-340 public key: x of its point.
    pub public_key: [u8; 32],
    /// The [`SigningPackage::tweak`](crate::sign::SigningPackage::tweak) that signs under this child key.
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
    child.derivation().ok_or(malformed)
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

    /// Step 1.5
    fn derivation(&self) -> Option<Derivation> {
        let public_key = Secp256k1::public_key(&point_bytes::<Secp256k1>(&self.key)?)?;
        let tweak = scalar_bytes::<Secp256k1>(&self.tweak).as_ref().try_into().ok()?;
        Some(Derivation { public_key, tweak: Tweak::from_bytes(tweak).ok()? })
    }
}
