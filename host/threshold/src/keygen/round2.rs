//! Round 2: check everybody's commitments, then give everybody their point of our polynomial.

use std::collections::BTreeMap;

use frost_core::keys::dkg::{self, round2};
use zeroize::Zeroizing;

use super::ceremony::{Ceremony, payload};
use super::machine::{Stage, Step};
use super::round1::{AwaitCommitments, decode};
use super::round3::AwaitShares;
use crate::inbox::Bodies;
use crate::suite::{Suite, identifier};
use crate::{Message, ThresholdError};

impl<C: Suite> AwaitCommitments<C> {
    /// Takes the round-1 bodies of all peers.
    pub(super) fn step(self, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step<C>, ThresholdError> {
        let mut commitments = BTreeMap::new();
        let mut broadcasts = BTreeMap::from([(ceremony.me, self.own)]);
        for (&from, body) in bodies {
            // Step 3.1
            let package = decode::<C>(payload(body), ceremony.threshold);
            let package = package.ok_or(ThresholdError::MalformedMessage { from, round: 1 })?;
            commitments.insert(identifier(from)?, package);
            broadcasts.insert(from, payload(body).to_vec());
        }
        // Step 3.2
        let (secret, mut packages) =
            dkg::part2(self.secret, &commitments).map_err(|error| ceremony.blame::<C>(error))?;
        // Step 3.3
        let mut send = Vec::with_capacity(packages.len());
        for &peer in &ceremony.peers {
            let package = packages.remove(&identifier(peer)?);
            let package = package.ok_or(ThresholdError::NotInRoster { participant: peer })?;
            send.push(message(ceremony, peer, &package));
        }
        Ok(Step::Next(Stage::Shares(AwaitShares { secret, commitments, broadcasts }), send))
    }
}

fn message<C: Suite>(ceremony: &Ceremony, peer: u16, package: &round2::Package<C>) -> Message {
    let share = Zeroizing::new(package.signing_share().serialize());
    ceremony.message(2, Some(peer), &share)
}
