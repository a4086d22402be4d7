//! Round 2: check everybody's commitments, then give everybody their point of our polynomial.

use std::collections::BTreeMap;

use frost_core::Error;
use frost_core::keys::dkg::{self, round2};
use zeroize::Zeroizing;

use super::round1::{AwaitCommitments, decode};
use super::round3::AwaitShares;
use crate::ceremony::{Ceremony, payload};
use crate::inbox::Bodies;
use crate::session::{Stage, Step};
use crate::suite::{Suite, identifier, unexpected};
use crate::{Message, ThresholdError};

impl<C: Suite> Stage for AwaitCommitments<C> {
    /// Takes the round-1 bodies of all peers.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let mut commitments = BTreeMap::new();
        let mut broadcasts = BTreeMap::from([(ceremony.me, self.own)]);
        for (&from, body) in bodies {
            // Step 2.1
            let package = decode::<C>(payload(body), self.threshold);
            let package = package.ok_or(ThresholdError::MalformedMessage { from, round: 1 })?;
            commitments.insert(identifier(from)?, package);
            broadcasts.insert(from, payload(body).to_vec());
        }
        // Step 2.2
        let (secret, mut packages) =
            dkg::part2(self.secret, &commitments).map_err(|error| blame::<C>(error, bodies))?;
        // Step 2.3
        let mut send = Vec::with_capacity(packages.len());
        for &peer in bodies.keys() {
            let package = packages.remove(&identifier(peer)?);
            let package = package.ok_or(ThresholdError::NotInRoster { participant: peer })?;
            send.push(message(ceremony, peer, &package));
        }
        Ok(Step::Next(send, Box::new(AwaitShares { secret, commitments, broadcasts })))
    }
}

fn message<C: Suite>(ceremony: &Ceremony, peer: u16, package: &round2::Package<C>) -> Message {
    let share = Zeroizing::new(package.signing_share().serialize());
    ceremony.message(2, Some(peer), &share)
}

/// Translates a refusal of frost-core, whose culprits are identifiers of senders of `bodies`.
pub(super) fn blame<C: Suite>(error: Error<C>, bodies: &Bodies) -> ThresholdError {
    let sender =
        |culprit| bodies.keys().copied().find(|sender| identifier::<C>(*sender).as_ref() == Ok(culprit));
    let named = match &error {
        Error::InvalidProofOfKnowledge { culprit } => {
            sender(culprit).map(|from| ThresholdError::ProofOfKnowledge { from })
        }
        Error::InvalidSecretShare { culprit: Some(culprit) } => {
            sender(culprit).map(|from| ThresholdError::SecretShare { from })
        }
        _ => None,
    };
    named.unwrap_or_else(|| unexpected(error))
}
