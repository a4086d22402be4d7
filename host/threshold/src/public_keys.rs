//! The public keys of a threshold key: group key, verifying shares and chain code.

use std::collections::{BTreeMap, BTreeSet};

use frost_core::keys::{PublicKeyPackage, VerifyingShare};
use frost_core::{Identifier, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::encoding::Reader;
use crate::suite::{Suite, decode_point, identifier, unexpected, with_suite};
use crate::{SignatureProfile, ThresholdError};

mod wire;

/// Most participants of one key, the same limit as in the HTTP API. The work of a key generation grows with `participants² ×
/// threshold`: extrapolated from 16 of 16, 64 of 64 takes each participant about a second.
pub const PARTICIPANTS_MAX: usize = 64;

/// Lowest threshold. With a threshold of one, each share would be the key itself; frost-core rejects it.
pub const THRESHOLD_MIN: u16 = 2;

/// Version byte of [`PublicKeys::to_bytes`].
const VERSION: u8 = 1;

const MALFORMED: ThresholdError = ThresholdError::MalformedMaterial { what: "public keys" };

/// The public keys of one epoch of a threshold key. Not secret, but with [`chain_code`](Self::chain_code) anyone can compute all
/// child public keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "wire::Wire", into = "wire::Wire")]
pub struct PublicKeys {
    group: Group,
    chain_code: [u8; 32],
}

/// The public keys without the chain code, which key generation derives from a hash over these.
// INVARIANT: all points are canonical encodings of `profile`; 2 <= threshold <= participants <= PARTICIPANTS_MAX.
// Kept by `Group::checked`, the only constructor except `from_package` and `next_epoch`, whose points are
// computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    profile: SignatureProfile,
    threshold: u16,
    /// The group key as a point, with its parity: 32 bytes for Ed25519, 33 for secp256k1.
    verifying_key: Vec<u8>,
    /// By participant index.
    verifying_shares: BTreeMap<u16, Vec<u8>>,
}

impl PublicKeys {
    pub(crate) fn new(group: Group, chain_code: [u8; 32]) -> Self {
        Self { group, chain_code }
    }

    /// The signature scheme of the key.
    #[must_use]
    pub fn profile(&self) -> SignatureProfile {
        self.group.profile
    }

    /// Signers required for one signature.
    #[must_use]
    pub fn threshold(&self) -> u16 {
        self.group.threshold
    }

    /// The public key that signatures verify under, 32 bytes: RFC 8032 for Ed25519, x coordinate (BIP-340) for secp256k1.
    #[must_use]
    pub fn public_key(&self) -> Vec<u8> {
        with_suite!(self.profile(), C => C::public_key(&self.group.verifying_key))
            .unwrap_or_default()
            .to_vec()
    }

    /// The group key as a point, with its parity: 32 bytes (Ed25519) or 33 (compressed SEC 1).
    #[must_use]
    pub fn verifying_key(&self) -> &[u8] {
        &self.group.verifying_key
    }

    /// Each participant's share of the public key, by 0-based index; points encoded as in
    /// [`verifying_key`](Self::verifying_key).
    #[must_use]
    pub fn verifying_shares(&self) -> &BTreeMap<u16, Vec<u8>> {
        &self.group.verifying_shares
    }

    /// The BIP-32 chain code, 32 bytes, set by key generation and the same in every epoch.
    #[must_use]
    pub fn chain_code(&self) -> &[u8; 32] {
        &self.chain_code
    }

    /// The canonical encoding: `1 ‖ profile code ‖ threshold ‖ participants ‖ verifying key ‖ (index ‖ verifying
    /// share)… ‖ chain code`, numbers of two bytes big-endian, indexes ascending.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.group.to_bytes().as_slice(), &self.chain_code].concat()
    }

    /// Reads [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    ///
    /// [`ThresholdError::MalformedMaterial`] if the bytes are not exactly such an encoding;
    /// [`ThresholdError::Threshold`] or [`ThresholdError::TooManyParticipants`] if its numbers are out of range.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ThresholdError> {
        let mut reader = Reader::new(bytes);
        let group = Group::read(&mut reader).ok_or(MALFORMED)?;
        let chain_code = *reader.array().ok_or(MALFORMED)?;
        reader.end().ok_or(MALFORMED)?;
        Ok(Self::new(group.checked()?, chain_code))
    }

    pub(crate) fn package<C: Suite>(&self) -> Result<PublicKeyPackage<C>, ThresholdError> {
        self.group.package()
    }

    /// The keys without the chain code.
    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// The public keys of a new epoch, with the same group key and chain code.
    pub(crate) fn next_epoch(&self, threshold: u16, verifying_shares: BTreeMap<u16, Vec<u8>>) -> Self {
        let (profile, verifying_key) = (self.group.profile, self.group.verifying_key.clone());
        Self::new(Group { profile, threshold, verifying_key, verifying_shares }, self.chain_code)
    }

    /// Checks that these participants hold shares and are as many as the threshold.
    pub(crate) fn check_quorum(&self, holders: &BTreeSet<u16>) -> Result<(), ThresholdError> {
        holders.iter().try_for_each(|holder| self.check_holder(*holder))?;
        let (threshold, participants) = (self.threshold(), holders.len());
        if participants < usize::from(threshold) {
            return Err(ThresholdError::Threshold { threshold, participants });
        }
        Ok(())
    }

    /// Checks that the participant holds a share.
    pub(crate) fn check_holder(&self, participant: u16) -> Result<(), ThresholdError> {
        let holds = self.verifying_shares().contains_key(&participant);
        if holds { Ok(()) } else { Err(ThresholdError::NotInRoster { participant }) }
    }
}

impl Group {
    /// The keys that frost-core computed, for the given roster.
    pub(crate) fn from_package<C: Suite>(
        package: &PublicKeyPackage<C>,
        threshold: u16,
        roster: impl IntoIterator<Item = u16>,
    ) -> Result<Self, ThresholdError> {
        let share = |participant| {
            let share = package.verifying_shares().get(&identifier(participant)?);
            let share = share.ok_or(ThresholdError::NotInRoster { participant })?;
            Ok((participant, share.serialize().map_err(unexpected::<C>)?))
        };
        Ok(Self {
            profile: C::PROFILE,
            threshold,
            verifying_key: package.verifying_key().serialize().map_err(unexpected::<C>)?,
            verifying_shares: roster.into_iter().map(share).collect::<Result<_, ThresholdError>>()?,
        })
    }

    /// The first part of [`PublicKeys::to_bytes`].
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let participants = u16::try_from(self.verifying_shares.len()).unwrap_or(u16::MAX);
        let mut bytes = vec![VERSION, self.profile.code()];
        bytes.extend(self.threshold.to_be_bytes());
        bytes.extend(participants.to_be_bytes());
        bytes.extend(&self.verifying_key);
        for (participant, share) in &self.verifying_shares {
            bytes.extend(participant.to_be_bytes());
            bytes.extend(share);
        }
        bytes
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        (reader.byte()? == VERSION).then_some(())?;
        let profile = SignatureProfile::from_code(reader.byte()?)?;
        let threshold = reader.u16()?;
        let participants = reader.u16()?;
        let point_bytes = with_suite!(profile, C => C::POINT_BYTES);
        let verifying_key = reader.bytes(point_bytes)?.to_vec();
        let mut verifying_shares = BTreeMap::new();
        for _ in 0..participants {
            let participant = reader.u16()?;
            let ascending = verifying_shares.last_key_value().is_none_or(|(last, _)| *last < participant);
            ascending.then_some(())?;
            verifying_shares.insert(participant, reader.bytes(point_bytes)?.to_vec());
        }
        Some(Self { profile, threshold, verifying_key, verifying_shares })
    }

    /// Checks the invariant for keys that were received or stored.
    fn checked(self) -> Result<Self, ThresholdError> {
        check_threshold(self.threshold, self.verifying_shares.len())?;
        with_suite!(self.profile, C => self.package::<C>().map(drop))?;
        Ok(self)
    }

    fn package<C: Suite>(&self) -> Result<PublicKeyPackage<C>, ThresholdError> {
        let key = decode_point::<C, _, _>(&self.verifying_key, VerifyingKey::<C>::deserialize);
        let share = |(participant, bytes): (&u16, &Vec<u8>)| {
            let share = decode_point::<C, _, _>(bytes, VerifyingShare::<C>::deserialize);
            Ok((identifier(*participant)?, share.ok_or(MALFORMED)?))
        };
        let shares: Result<BTreeMap<Identifier<C>, _>, ThresholdError> =
            self.verifying_shares.iter().map(share).collect();
        Ok(PublicKeyPackage::new(shares?, key.ok_or(MALFORMED)?, Some(self.threshold)))
    }
}

/// Checks that so many participants can have a key with this threshold.
pub(crate) fn check_threshold(threshold: u16, participants: usize) -> Result<(), ThresholdError> {
    if participants > PARTICIPANTS_MAX {
        return Err(ThresholdError::TooManyParticipants { participants });
    }
    if threshold < THRESHOLD_MIN || usize::from(threshold) > participants {
        return Err(ThresholdError::Threshold { threshold, participants });
    }
    Ok(())
}
