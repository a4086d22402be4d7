//! Round 3: check the points received, add them up, and tell everybody what we saw.

use std::collections::BTreeMap;

use frost_core::Identifier;
use frost_core::keys::SigningShare;
use frost_core::keys::dkg::{self, round1, round2};

use super::KeygenOutput;
use super::ceremony::{Ceremony, payload};
use super::finish::AwaitEchoes;
use super::machine::{Stage, Step};
use crate::hash::TaggedHash;
use crate::inbox::Bodies;
use crate::public_keys::Group;
use crate::suite::{Suite, identifier};
use crate::{KeyShare, PublicKeys, ThresholdError};

/// Our points are out; those of the others for us are awaited.
pub(super) struct AwaitShares<C: Suite> {
    /// Our polynomial at our own point.
    pub(super) secret: round2::SecretPackage<C>,
    /// Everybody else's round 1.
    pub(super) commitments: BTreeMap<Identifier<C>, round1::Package<C>>,
    /// The round-1 payloads of the whole roster, canonical.
    pub(super) broadcasts: BTreeMap<u16, Vec<u8>>,
}

impl<C: Suite> AwaitShares<C> {
    /// Takes the round-2 bodies of all peers.
    pub(super) fn step(self, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step<C>, ThresholdError> {
        let mut shares = BTreeMap::new();
        for (&from, body) in bodies {
            // Step 4.1
            let share = SigningShare::<C>::deserialize(payload(body));
            let share = share.map_err(|_| ThresholdError::MalformedMessage { from, round: 2 })?;
            shares.insert(identifier(from)?, round2::Package::new(share));
        }
        // Steps 4.2 and 4.3
        let (key, group) = dkg::part3(&self.secret, &self.commitments, &shares)
            .map_err(|error| ceremony.blame::<C>(error))?;
        let group = Group::from_package(&group, ceremony.threshold, ceremony.roster())?;
        // Step 4.4
        let transcript = transcript(ceremony, &self.broadcasts, &group);
        // Step 4.5
        let echo = ceremony.message(3, None, &transcript);
        // Step 4.6
        let keys = PublicKeys::new(group, chain_code(&transcript));
        let share = KeyShare::from_package(ceremony.me, &key)?;
        let output = Box::new(KeygenOutput { share, keys, transcript });
        Ok(Step::Next(Stage::Echoes(AwaitEchoes { output }), vec![echo]))
    }
}

/// Covers everything that was broadcast and what came of it.
fn transcript(ceremony: &Ceremony, broadcasts: &BTreeMap<u16, Vec<u8>>, group: &Group) -> [u8; 32] {
    let opened = TaggedHash::new("svc/keygen-transcript/v1").bytes(&ceremony.binding);
    let hash = broadcasts.iter().fold(opened, |hash, (from, payload)| hash.number(*from).bytes(payload));
    hash.bytes(&group.to_bytes()).finish()
}

/// Public, random to everybody before the ceremony, and the same at every participant that finishes.
fn chain_code(transcript: &[u8; 32]) -> [u8; 32] {
    TaggedHash::new("svc/chain-code/v1").bytes(transcript).finish()
}
