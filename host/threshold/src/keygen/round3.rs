//! Round 3: check the points received, add them up, and tell everybody what we saw.

use std::collections::BTreeMap;

use frost_core::Identifier;
use frost_core::keys::SigningShare;
use frost_core::keys::dkg::{self, round1, round2};

use super::round2::blame;
use crate::ceremony::{Ceremony, payload};
use crate::echo;
use crate::hash::TaggedHash;
use crate::inbox::Bodies;
use crate::public_keys::Group;
use crate::session::{Stage, Step};
use crate::suite::{Suite, identifier};
use crate::{KeyShare, Output, PublicKeys, ThresholdError};

/// Our points are out; those of the others for us are awaited.
pub(super) struct AwaitShares<C: Suite> {
    /// Our polynomial at our own point.
    pub(super) secret: round2::SecretPackage<C>,
    /// Everybody else's round 1.
    pub(super) commitments: BTreeMap<Identifier<C>, round1::Package<C>>,
    /// The round-1 payloads of the whole roster, canonical.
    pub(super) broadcasts: BTreeMap<u16, Vec<u8>>,
}

impl<C: Suite> Stage for AwaitShares<C> {
    /// Takes the round-2 bodies of all peers.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let mut shares = BTreeMap::new();
        for (&from, body) in bodies {
            // Step 3.1
            let share = SigningShare::<C>::deserialize(payload(body));
            let share = share.map_err(|_| ThresholdError::MalformedMessage { from, round: 2 })?;
            shares.insert(identifier(from)?, round2::Package::new(share));
        }
        // Steps 3.2 and 3.3
        let (key, group) = dkg::part3(&self.secret, &self.commitments, &shares)
            .map_err(|error| blame::<C>(error, bodies))?;
        let share = KeyShare::from_package(ceremony.me, &key)?;
        let group = Group::from_package(&group, *key.min_signers(), self.broadcasts.keys().copied())?;
        // Step 3.4
        let transcript = echo::transcript("svc/keygen-transcript/v1", ceremony, &self.broadcasts, &group);
        let keys = PublicKeys::new(group, chain_code(&transcript));
        // Step 3.5
        let output = Output { share: Some(share), keys, transcript };
        let (echo, stage) = echo::exchange(ceremony, transcript, Step::Done(Box::new(output)));
        Ok(Step::Next(vec![echo], stage))
    }
}

/// Public, random to everybody before the ceremony, and the same at every participant that finishes.
fn chain_code(transcript: &[u8; 32]) -> [u8; 32] {
    TaggedHash::new("svc/chain-code/v1").bytes(transcript).finish()
}
