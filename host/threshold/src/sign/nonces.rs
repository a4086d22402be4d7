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

/// A pair of secret nonces.
///
/// Two signature shares with the same nonces reveal the key share, so signing consumes them, even if it fails. Wiped when
/// dropped; neither `Clone` nor `Serialize`; `Debug` does not show them.
pub struct Nonces(Box<dyn SignOnce + Send + Sync>);

/// Round one (RFC 9591 sections 4.1 and 5.1): fresh nonces, and the commitments for the coordinator.
///
/// Each nonce is a hash of 32 random bytes and the key share, so that a weak `rng` alone does not make it predictable.
///
/// # Errors
///
/// [`ThresholdError::MalformedMaterial`] or [`ThresholdError::Library`]; no input is known to cause either.
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
    /// Round two (RFC 9591 section 5.2): this participant's signature share, a scalar of 32 bytes.
    ///
    /// The caller must check before that the package's message and tweak were approved, and durably mark the commitments as used
    /// before the share leaves the process.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::ProfileMismatch`] or [`ShareMismatch`](ThresholdError::ShareMismatch) if nonces, share and keys
    /// are not of one key and epoch; [`TooFewSigners`](ThresholdError::TooFewSigners),
    /// [`UnknownSigners`](ThresholdError::UnknownSigners),
    /// [`MalformedCommitments`](ThresholdError::MalformedCommitments) or
    /// [`OwnCommitmentsMissing`](ThresholdError::OwnCommitmentsMissing) for the package;
    /// [`MalformedMaterial`](ThresholdError::MalformedMaterial) for a tweak that is not a scalar. The nonces are wiped in
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

/// Nonces whose suite is not part of their type.
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
        package.check_signers(keys)?;
        let request = package.decode::<C>()?;
        // Step 2.3
        if package.commitments.get(&share.participant()) != Some(&self.commitments) {
            return Err(ThresholdError::OwnCommitmentsMissing);
        }
        // Step 2.4
        let key = apply_tweak::<C>(share.package()?, package)?;
        // Steps 2.5 and 2.6
        let signed = round2::sign(&request, &self.nonces, &key).map_err(unexpected::<C>)?;
        Ok(signed.serialize())
    }
}

/// The key package, tweaked if the package is for a derived key.
fn apply_tweak<C: Suite>(
    key: KeyPackage<C>,
    package: &SigningPackage,
) -> Result<KeyPackage<C>, ThresholdError> {
    match &package.tweak {
        None => Ok(key),
        Some(tweak) => Addend::new(tweak)?.key_package(&key),
    }
}
