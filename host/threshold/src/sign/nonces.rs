//! The signer's part: nonces that are used at most once.

use std::fmt;

use frost_core::keys::KeyPackage;
use frost_core::round1::{self, SigningNonces};
use frost_core::round2;
use rand_core::CryptoRngCore;

use super::SigningPackage;
use super::package::encode;
use crate::suite::{Suite, unexpected, with_suite};
use crate::tweak::Addend;
use crate::{KeyShare, PublicKeys, ThresholdError};

/// The secret nonces behind one pair of commitments.
///
/// Two signature shares from the same nonces reveal the key share, so signing consumes them, whether it succeeds or
/// not. Wiped when dropped; neither `Clone` nor `Serialize`; redacted by `Debug`.
pub struct Nonces(Box<dyn SignOnce + Send + Sync>);

/// Round one (RFC 9591 sections 4.1 and 5.1): fresh nonces, and the commitments for the coordinator.
///
/// Each nonce is a hash of 32 random bytes and the key share, as a hedge against a weak `rng`.
///
/// # Errors
///
/// [`ThresholdError::Library`]; none is known to be reachable.
pub fn commit(share: &KeyShare, rng: &mut impl CryptoRngCore) -> Result<(Nonces, Vec<u8>), ThresholdError> {
    with_suite!(share.profile(), C => {
        // Step 1.1
        let (nonces, commitments) = round1::commit::<C, _>(&share.signing_share()?, rng);
        // Step 1.2
        let commitments = encode(&commitments).map_err(unexpected::<C>)?;
        Ok((Nonces(Box::new(UnusedNonces::<C> { nonces, commitments: commitments.clone() })), commitments))
    })
}

impl Nonces {
    /// Round two (RFC 9591 section 5.2): this participant's signature share, a scalar of 32 bytes as the suite encodes
    /// it.
    ///
    /// The caller must have checked that message and tweak of the package were approved, and durably marked the
    /// commitments as used.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::ProfileMismatch`] or [`ShareMismatch`](ThresholdError::ShareMismatch) if nonces, share and keys
    /// are not of one key and epoch; [`TooFewSigners`](ThresholdError::TooFewSigners),
    /// [`UnknownSigners`](ThresholdError::UnknownSigners),
    /// [`MalformedCommitments`](ThresholdError::MalformedCommitments) or
    /// [`OwnCommitmentsMissing`](ThresholdError::OwnCommitmentsMissing) for the package;
    /// [`DerivationUnsupported`](ThresholdError::DerivationUnsupported) for a tweak on Ed25519. The nonces are wiped in
    /// every case.
    pub fn sign(
        self,
        package: &SigningPackage,
        share: &KeyShare,
        keys: &PublicKeys,
    ) -> Result<Vec<u8>, ThresholdError> {
        self.0.sign(package, share, keys)
    }
}

impl fmt::Debug for Nonces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonces(<redacted>)")
    }
}

/// Nonces of any suite.
trait SignOnce {
    fn sign(
        self: Box<Self>,
        package: &SigningPackage,
        share: &KeyShare,
        keys: &PublicKeys,
    ) -> Result<Vec<u8>, ThresholdError>;
}

/// Unused nonces, with the commitments that were sent.
struct UnusedNonces<C: Suite> {
    nonces: SigningNonces<C>,
    commitments: Vec<u8>,
}

impl<C: Suite> SignOnce for UnusedNonces<C> {
    fn sign(
        self: Box<Self>,
        package: &SigningPackage,
        share: &KeyShare,
        keys: &PublicKeys,
    ) -> Result<Vec<u8>, ThresholdError> {
        // Step 2.1
        if share.profile() != C::PROFILE {
            return Err(ThresholdError::ProfileMismatch { expected: C::PROFILE, actual: share.profile() });
        }
        share.check_belongs(keys)?;
        // Step 2.2
        let request = package.check::<C>(keys)?;
        // Step 2.3
        if package.commitments.get(&share.participant()) != Some(&self.commitments) {
            return Err(ThresholdError::OwnCommitmentsMissing);
        }
        // Step 2.4
        let key = tweaked::<C>(share.package()?, package)?;
        // Steps 2.5 and 2.6
        let signed = round2::sign(&request, &self.nonces, &key).map_err(unexpected::<C>)?;
        Ok(signed.serialize())
    }
}

fn tweaked<C: Suite>(key: KeyPackage<C>, package: &SigningPackage) -> Result<KeyPackage<C>, ThresholdError> {
    match &package.tweak {
        None => Ok(key),
        Some(tweak) => Addend::new(tweak)?.key_package(&key),
    }
}
