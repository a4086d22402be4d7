//! Rounds 3 and 4: each helper adds its pieces up for the target, which adds the sums up to its share.

use std::collections::BTreeMap;

use frost_core::{Element, Field, Group, Scalar};
use zeroize::Zeroizing;

use super::agreed::Agreed;
use crate::ceremony::Ceremony;
use crate::inbox::Bodies;
use crate::opening::{hear, tell};
use crate::session::{Stage, Step};
use crate::suite::{ScalarField, Suite};
use crate::{KeyShare, Message, Output, ThresholdError, echo};

/// Commitments to pieces, by the helper that a piece is for.
type Row<C> = BTreeMap<u16, Element<C>>;

/// The commitments are good; the helpers' pieces for us are awaited. Nobody's, if we are the target.
pub(super) struct AwaitDeltas<C: Suite> {
    pub(super) agreed: Agreed,
    /// The round-1 payloads of all helpers, canonical.
    pub(super) broadcasts: BTreeMap<u16, Vec<u8>>,
    /// The same, decoded.
    pub(super) commitments: BTreeMap<u16, Row<C>>,
    /// The piece we cut for ourselves, if we help.
    pub(super) own_delta: Option<Zeroizing<Scalar<C>>>,
}

impl<C: Suite> Stage for AwaitDeltas<C> {
    /// Takes the round-2 bodies of all other helpers.
    fn step(mut self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let sigma = match self.own_delta.take() {
            Some(own) => Some(self.add_up(ceremony, own, bodies)?),
            None => None,
        };
        let Self { agreed, broadcasts, commitments, .. } = *self;
        // Step 3.1
        let transcript =
            echo::transcript("svc/repair-transcript/v1", ceremony, &broadcasts, agreed.keys.group());
        let then = if sigma.is_some() {
            Step::Done(Box::new(Output { share: None, keys: agreed.keys, transcript }))
        } else {
            Step::Next(Vec::new(), Box::new(AwaitSigmas::<C> { agreed, commitments, transcript }))
        };
        let (echo, stage) = echo::exchange(ceremony, transcript, then);
        Ok(Step::Next(sigma.into_iter().chain([echo]).collect(), stage))
    }
}

impl<C: Suite> AwaitDeltas<C> {
    /// Steps 2.3 to 2.5
    fn add_up(
        &self,
        ceremony: &Ceremony,
        own: Zeroizing<Scalar<C>>,
        bodies: &Bodies,
    ) -> Result<Message, ThresholdError> {
        let mut sigma = own;
        for (&from, body) in bodies {
            let committed = self.commitments.get(&from).and_then(|row| row.get(&ceremony.me));
            let committed = committed.ok_or(ThresholdError::UnknownSender { from })?;
            let delta = hear::<C>(from, 2, body, committed)?;
            *sigma = *sigma + *delta;
        }
        Ok(tell::<C>(ceremony, 4, self.agreed.target, &sigma))
    }
}

/// All saw the same commitments; the helpers' sums are awaited, by the target.
struct AwaitSigmas<C: Suite> {
    agreed: Agreed,
    commitments: BTreeMap<u16, Row<C>>,
    transcript: [u8; 32],
}

impl<C: Suite> Stage for AwaitSigmas<C> {
    /// Takes the round-4 bodies of all helpers.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError> {
        let mut secret = Zeroizing::new(ScalarField::<C>::zero());
        for (&from, body) in bodies {
            // Step 4.1
            let pieces = self.commitments.values().filter_map(|row| row.get(&from));
            let committed = pieces.fold(C::Group::identity(), |sum, delta| sum + *delta);
            let sigma = hear::<C>(from, 4, body, &committed)?;
            *secret = *secret + *sigma;
        }
        // Step 4.2
        let Self { agreed, transcript, .. } = *self;
        let share = KeyShare::from_scalar::<C>(ceremony.me, &secret, &agreed.keys)?;
        Ok(Step::Done(Box::new(Output { share: Some(share), keys: agreed.keys, transcript })))
    }
}
