//! The coordinator's part of signing: aggregates signature shares, or names the signers whose shares are invalid. The step
//! numbers are those of "Signing" in `host/threshold/protocols.md`.

use std::collections::{BTreeMap, BTreeSet};

use frost_core::keys::PublicKeyPackage;
use frost_core::round2::SignatureShare;
use frost_core::{CheaterDetection, aggregate_custom, verify_signature_share};

use super::{Signature, SigningPackage};
use crate::suite::{Suite, identifier, unexpected, with_suite};
use crate::tweak::Addend;
use crate::{PublicKeys, ThresholdError};

/// Sums the signature shares (RFC 9591 section 5.3) and verifies the result.
///
/// `shares` maps the 0-based index of each of the package's signers, and no other, to the output of its
/// [`Nonces::sign`](super::Nonces::sign).
///
/// # Errors
///
/// [`ThresholdError::InvalidSignatureShares`] names every signer whose share does not decode or verify (RFC 9591 section 5.4).
/// Invalid inputs: [`SignerSetMismatch`](ThresholdError::SignerSetMismatch),
/// [`TooFewSigners`](ThresholdError::TooFewSigners), [`UnknownSigners`](ThresholdError::UnknownSigners),
/// [`MalformedCommitments`](ThresholdError::MalformedCommitments) and
/// [`MalformedMaterial`](ThresholdError::MalformedMaterial). A signature that does not verify although each share does
/// is [`InvalidSignature`](ThresholdError::InvalidSignature).
pub fn aggregate(
    package: &SigningPackage,
    shares: &BTreeMap<u16, Vec<u8>>,
    keys: &PublicKeys,
) -> Result<Signature, ThresholdError> {
    // Step 3.1: one share from each signer.
    check_signers(package, shares)?;
    package.check_signers(keys)?;
    with_suite!(keys.profile(), C => Aggregation::<C>::new(package, shares, keys.package()?)?.aggregate())
}

/// Step 3.5: like [`aggregate`], for shares of an epoch that the key has left. That epoch's roster, threshold and verifying shares are not
/// needed, since every epoch has the same group key: only the signature is verified, and no signer can be named.
///
/// # Errors
///
/// As [`aggregate`], but [`InvalidSignature`](ThresholdError::InvalidSignature) for any share that is not valid.
pub fn aggregate_of_former_epoch(
    package: &SigningPackage,
    shares: &BTreeMap<u16, Vec<u8>>,
    keys: &PublicKeys,
) -> Result<Signature, ThresholdError> {
    check_signers(package, shares)?;
    with_suite!(keys.profile(), C => {
        let group_key = *keys.package::<C>()?.verifying_key();
        let keys = PublicKeyPackage::new(BTreeMap::new(), group_key, None);
        let signature = Aggregation::<C>::new(package, shares, keys)?.sum_shares()?;
        signature.ok_or(ThresholdError::InvalidSignature)
    })
}

/// The decoded inputs of one aggregation.
struct Aggregation<C: Suite> {
    request: frost_core::SigningPackage<C>,
    keys: PublicKeyPackage<C>,
    /// `None` for a share that does not decode.
    shares: BTreeMap<u16, Option<SignatureShare<C>>>,
}

impl<C: Suite> Aggregation<C> {
    fn new(
        package: &SigningPackage,
        shares: &BTreeMap<u16, Vec<u8>>,
        keys: PublicKeyPackage<C>,
    ) -> Result<Self, ThresholdError> {
        let request = package.decode::<C>()?;
        // Step 2.4: add the tweak to the public keys.
        let keys = match &package.tweak {
            None => keys,
            Some(tweak) => Addend::new(tweak)?.public_keys(&keys)?,
        };
        let decode = |(signer, bytes): (&u16, &Vec<u8>)| (*signer, SignatureShare::deserialize(bytes).ok());
        Ok(Self { request, keys, shares: shares.iter().map(decode).collect() })
    }

    /// Steps 3.2 to 3.4
    fn aggregate(&self) -> Result<Signature, ThresholdError> {
        match self.sum_shares()? {
            Some(signature) => Ok(signature),
            None => Err(self.invalid_shares_error()?),
        }
    }

    /// Step 3.2: the signature; `None` if a share does not decode or the signature does not verify.
    fn sum_shares(&self) -> Result<Option<Signature>, ThresholdError> {
        let mut shares = BTreeMap::new();
        for (signer, share) in &self.shares {
            let Some(share) = share else { return Ok(None) };
            shares.insert(identifier(*signer)?, *share);
        }
        // frost-core's own search for invalid shares is disabled: ours includes shares that do not decode.
        match aggregate_custom(&self.request, &shares, &self.keys, CheaterDetection::Disabled) {
            Ok(signature) => {
                let bytes = signature.serialize().map_err(unexpected::<C>)?;
                Ok(bytes.try_into().ok())
            }
            Err(frost_core::Error::InvalidSignature) => Ok(None),
            Err(error) => Err(unexpected(error)),
        }
    }

    /// Step 3.4: the error that names all signers whose share does not decode or verify.
    fn invalid_shares_error(&self) -> Result<ThresholdError, ThresholdError> {
        let mut signers = Vec::new();
        for (signer, share) in &self.shares {
            if !self.verifies(*signer, share.as_ref())? {
                signers.push(*signer);
            }
        }
        // Empty only if valid shares summed to an invalid signature.
        Ok(if signers.is_empty() {
            ThresholdError::InvalidSignature
        } else {
            ThresholdError::InvalidSignatureShares { signers }
        })
    }

    fn verifies(&self, signer: u16, share: Option<&SignatureShare<C>>) -> Result<bool, ThresholdError> {
        let id = identifier(signer)?;
        let verifying_share = self.keys.verifying_shares().get(&id);
        let verifying_share =
            verifying_share.ok_or(ThresholdError::UnknownSigners { signers: vec![signer] })?;
        let key = self.keys.verifying_key();
        Ok(share.is_some_and(|share| {
            verify_signature_share(id, verifying_share, share, &self.request, key).is_ok()
        }))
    }
}

fn check_signers(package: &SigningPackage, shares: &BTreeMap<u16, Vec<u8>>) -> Result<(), ThresholdError> {
    let signers: BTreeSet<u16> = package.commitments.keys().copied().collect();
    let signed: BTreeSet<u16> = shares.keys().copied().collect();
    if signers == signed {
        return Ok(());
    }
    let missing = signers.difference(&signed).copied().collect();
    let unexpected = signed.difference(&signers).copied().collect();
    Err(ThresholdError::SignerSetMismatch { missing, unexpected })
}
