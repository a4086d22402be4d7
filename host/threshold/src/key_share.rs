//! One participant's secret share of a threshold key.

use std::fmt;

use frost_core::keys::{KeyPackage, SigningShare, VerifyingShare};
use frost_core::{Scalar, VerifyingKey};
use zeroize::Zeroizing;

use crate::encoding::Reader;
use crate::suite::{
    SCALAR_BYTES, Suite, decode_point, identifier, point_bytes, scalar, secret_bytes, unexpected, with_suite,
};
use crate::{PublicKeys, SignatureProfile, THRESHOLD_MIN, ThresholdError};

/// Version byte of [`KeyShare::to_secret_bytes`].
const VERSION: u8 = 1;

const MALFORMED: ThresholdError = ThresholdError::MalformedMaterial { what: "key share" };

/// One participant's share of the signing key.
///
/// Wiped when dropped; `Debug` does not show the secret. Neither `Clone` nor `Serialize`: only
/// [`to_secret_bytes`](Self::to_secret_bytes) returns the secret.
pub struct KeyShare {
    profile: SignatureProfile,
    participant: u16,
    threshold: u16,
    /// The signing share as the suite encodes a scalar.
    secret: Zeroizing<[u8; SCALAR_BYTES]>,
    /// The group key as a point, with its parity.
    verifying_key: Vec<u8>,
    // INVARIANT: the generator times `secret`. Kept by `from_secret`, the only constructor.
    verifying_share: Vec<u8>,
}

impl KeyShare {
    /// The share that frost-core computed.
    pub(crate) fn from_package<C: Suite>(
        participant: u16,
        package: &KeyPackage<C>,
    ) -> Result<Self, ThresholdError> {
        let secret = Zeroizing::new(package.signing_share().serialize());
        let secret: &[u8; SCALAR_BYTES] = secret.as_slice().try_into().map_err(|_| MALFORMED)?;
        let verifying_key = package.verifying_key().serialize().map_err(unexpected::<C>)?;
        Self::from_secret::<C>(participant, *package.min_signers(), secret, verifying_key)
    }

    /// The share that a protocol of this crate computed. Fails if it does not belong to these public keys.
    pub(crate) fn from_scalar<C: Suite>(
        participant: u16,
        secret: &Scalar<C>,
        keys: &PublicKeys,
    ) -> Result<Self, ThresholdError> {
        let verifying_key = keys.verifying_key().to_vec();
        let secret = secret_bytes::<C>(secret);
        let share = Self::from_secret::<C>(participant, keys.threshold(), &secret, verifying_key)?;
        share.check_belongs(keys)?;
        Ok(share)
    }

    fn from_secret<C: Suite>(
        participant: u16,
        threshold: u16,
        secret: &[u8; SCALAR_BYTES],
        verifying_key: Vec<u8>,
    ) -> Result<Self, ThresholdError> {
        let scalar = scalar::<C>(secret).map(Zeroizing::new).ok_or(MALFORMED)?;
        let verifying_share = point_bytes::<C>(&C::generator_times(&scalar)).ok_or(MALFORMED)?;
        let secret = Zeroizing::new(*secret);
        Ok(Self { profile: C::PROFILE, participant, threshold, secret, verifying_key, verifying_share })
    }

    /// The signature scheme of the key.
    #[must_use]
    pub fn profile(&self) -> SignatureProfile {
        self.profile
    }

    /// The 0-based index of the participant whose share this is.
    #[must_use]
    pub fn participant(&self) -> u16 {
        self.participant
    }

    /// The share for encrypted storage: `1 ‖ profile code ‖ participant ‖ threshold ‖ signing share
    /// (32) ‖ verifying key (32 or 33)`, numbers of two bytes big-endian.
    #[must_use]
    pub fn to_secret_bytes(&self) -> Zeroizing<Vec<u8>> {
        let length = 2 + 2 + 2 + SCALAR_BYTES + self.verifying_key.len();
        // Allocated in full: growing would leave a copy of the secret in freed memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(length));
        bytes.extend([VERSION, self.profile.code()]);
        bytes.extend(self.participant.to_be_bytes());
        bytes.extend(self.threshold.to_be_bytes());
        bytes.extend(self.secret.as_slice());
        bytes.extend(&self.verifying_key);
        bytes
    }

    /// Reads [`to_secret_bytes`](Self::to_secret_bytes). The caller wipes `bytes`.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::ProfileMismatch`] if the share is for another profile;
    /// [`ThresholdError::MalformedMaterial`] if the bytes are not exactly such an encoding.
    pub fn from_secret_bytes(profile: SignatureProfile, bytes: &[u8]) -> Result<Self, ThresholdError> {
        with_suite!(profile, C => Self::read::<C>(bytes))
    }

    fn read<C: Suite>(bytes: &[u8]) -> Result<Self, ThresholdError> {
        let mut reader = Reader::new(bytes);
        let version = reader.byte().ok_or(MALFORMED)?;
        let actual = reader.byte().and_then(SignatureProfile::from_code).ok_or(MALFORMED)?;
        if actual != C::PROFILE {
            return Err(ThresholdError::ProfileMismatch { expected: C::PROFILE, actual });
        }
        let participant = reader.u16().ok_or(MALFORMED)?;
        let threshold = reader.u16().ok_or(MALFORMED)?;
        let secret = reader.array().ok_or(MALFORMED)?;
        let verifying_key = reader.bytes(C::POINT_BYTES).ok_or(MALFORMED)?;
        reader.end().ok_or(MALFORMED)?;
        let known = version == VERSION && threshold >= THRESHOLD_MIN;
        let key = decode_point::<C, _, _>(verifying_key, VerifyingKey::<C>::deserialize);
        if !known || key.is_none() {
            return Err(MALFORMED);
        }
        Self::from_secret::<C>(participant, threshold, secret, verifying_key.to_vec())
    }

    /// Checks that this is its participant's share of exactly these public keys, not of another epoch with the same group key.
    ///
    /// # Errors
    ///
    /// [`ThresholdError::ProfileMismatch`] or [`ThresholdError::ShareMismatch`].
    pub fn check_belongs(&self, keys: &PublicKeys) -> Result<(), ThresholdError> {
        if self.profile != keys.profile() {
            return Err(ThresholdError::ProfileMismatch { expected: keys.profile(), actual: self.profile });
        }
        let belongs = self.threshold == keys.threshold()
            && self.verifying_key == keys.verifying_key()
            && keys.verifying_shares().get(&self.participant) == Some(&self.verifying_share);
        if belongs { Ok(()) } else { Err(ThresholdError::ShareMismatch { participant: self.participant }) }
    }

    /// Checks that a share is given, and is this participant's share of these public keys.
    pub(crate) fn check_required<'share>(
        share: Option<&'share Self>,
        participant: u16,
        keys: &PublicKeys,
    ) -> Result<&'share Self, ThresholdError> {
        let share = share.ok_or(ThresholdError::ShareMissing { participant })?;
        share.check_belongs(keys)?;
        if share.participant != participant {
            return Err(ThresholdError::ShareMismatch { participant: share.participant });
        }
        Ok(share)
    }

    /// The signing share as a scalar.
    pub(crate) fn scalar<C: Suite>(&self) -> Result<Zeroizing<Scalar<C>>, ThresholdError> {
        scalar::<C>(self.secret.as_slice()).map(Zeroizing::new).ok_or(MALFORMED)
    }

    /// The signing share as frost-core hashes it into nonces.
    pub(crate) fn signing_share<C: Suite>(&self) -> Result<SigningShare<C>, ThresholdError> {
        SigningShare::deserialize(self.secret.as_slice()).map_err(|_| MALFORMED)
    }

    /// The share as frost-core's type.
    pub(crate) fn package<C: Suite>(&self) -> Result<KeyPackage<C>, ThresholdError> {
        Ok(KeyPackage::new(
            identifier(self.participant)?,
            self.signing_share()?,
            VerifyingShare::deserialize(&self.verifying_share).map_err(|_| MALFORMED)?,
            VerifyingKey::deserialize(&self.verifying_key).map_err(|_| MALFORMED)?,
            self.threshold,
        ))
    }
}

impl fmt::Debug for KeyShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyShare")
            .field("profile", &self.profile.name())
            .field("participant", &self.participant)
            .field("threshold", &self.threshold)
            .field("secret", &format_args!("<redacted>"))
            .field("verifying_key", &hex::encode(&self.verifying_key))
            .finish()
    }
}
