//! What an observer of a ceremony can check, who has its messages and no secret: which participant sent a wrong one.
//!
//! The caller relays the messages, so it has all broadcasts. A private message is checked when its recipient reveals it, which it
//! does with a wrong one only: its sender knows it, so that revealing it tells others nothing that the sender could not.

use std::collections::{BTreeMap, BTreeSet};

use crate::ceremony::{Broadcasts, Message, Observe, Route, payload, verified_scalar};
use crate::suite::{Suite, with_suite};
use crate::{SignatureProfile, ThresholdError, keygen, redistribute, repair};

/// A protocol with the parameters of one ceremony, whose `me` is ignored.
#[derive(Debug, Clone)]
pub enum Protocol {
    /// Key generation.
    KeyGeneration(keygen::Params),
    /// Redistribution.
    Redistribution(redistribute::Params),
    /// Repair.
    Repair(repair::Params),
}

impl Protocol {
    /// What proves that a participant deviated: the error of an honest participant that gets this message, if it names culprits.
    /// `broadcasts` are the bodies of round 1 by sender, as they were relayed; sender and body of each must be authenticated, those
    /// of `message` too.
    ///
    /// The culprit may be the sender of a broadcast rather than of the message.
    #[must_use]
    pub fn deviation(
        &self,
        message: &Message,
        broadcasts: &BTreeMap<u16, Vec<u8>>,
    ) -> Option<ThresholdError> {
        let checked = with_suite!(self.profile(), C => match self {
            Self::KeyGeneration(params) => check::<C>(params, message, broadcasts),
            Self::Redistribution(params) => check::<C>(params, message, broadcasts),
            Self::Repair(params) => check::<C>(params, message, broadcasts),
        });
        checked.err().filter(|error| !error.culprits().is_empty())
    }

    /// The participants that did not send all their messages in the first round that is incomplete.
    #[must_use]
    pub fn missing(&self, sent: &BTreeSet<Route>) -> BTreeSet<u16> {
        with_suite!(self.profile(), C => match self {
            Self::KeyGeneration(params) => missing::<C>(params, sent),
            Self::Redistribution(params) => missing::<C>(params, sent),
            Self::Repair(params) => missing::<C>(params, sent),
        })
    }

    fn profile(&self) -> SignatureProfile {
        match self {
            Self::KeyGeneration(params) => params.profile,
            Self::Redistribution(params) => params.keys.profile(),
            Self::Repair(params) => params.case.keys.profile(),
        }
    }
}

/// Checks a message as its recipient does. A broadcast has all others as its recipients, of which any will do.
fn check<C: Suite>(
    params: &impl Observe<C>,
    message: &Message,
    bodies: &BTreeMap<u16, Vec<u8>>,
) -> Result<(), ThresholdError> {
    let Message { from, to, round, ref body } = *message;
    let recipient = to.or_else(|| params.participants().into_iter().find(|other| *other != from));
    let ceremony = params.open_for(recipient.ok_or(ThresholdError::UnknownSender { from })?)?;
    ceremony.check_message(message)?;
    if round == 1 {
        return params.check_broadcast(&ceremony, from, payload(body));
    }
    let Some(broadcasts) = checked_broadcasts::<C>(params, bodies)? else { return Ok(()) };
    match to {
        Some(_) => {
            verified_scalar::<C>(from, round, body, &params.committed((from, to, round), &broadcasts)?)?;
        }
        // Step 0.8, with the transcript of the broadcasts that were relayed to all.
        None if payload(body) != params.transcript(&ceremony, &broadcasts)? => {
            return Err(ThresholdError::WrongEcho { from });
        }
        None => {}
    }
    Ok(())
}

/// The payloads of round 1; `None` if one is missing, so that nothing can be shown.
fn checked_broadcasts<C: Suite>(
    params: &impl Observe<C>,
    bodies: &BTreeMap<u16, Vec<u8>>,
) -> Result<Option<Broadcasts>, ThresholdError> {
    let mut broadcasts = Broadcasts::new();
    for &from in params.broadcasters() {
        let Some(body) = bodies.get(&from) else { return Ok(None) };
        let message = Message { from, to: None, round: 1, body: body.clone().into() };
        check::<C>(params, &message, &Broadcasts::new())?;
        broadcasts.insert(from, payload(body).to_vec());
    }
    Ok(Some(broadcasts))
}

fn missing<C: Suite>(params: &impl Observe<C>, sent: &BTreeSet<Route>) -> BTreeSet<u16> {
    let participants = params.participants();
    for round in 1..=u8::MAX {
        let (mut is_round, mut absent) = (false, BTreeSet::new());
        for &me in &participants {
            let Ok(ceremony) = params.open_for(me) else { continue };
            let Some((senders, is_private)) = ceremony.expected(round) else { continue };
            is_round = true;
            let to = is_private.then_some(me);
            absent.extend(senders.iter().filter(|from| !sent.contains(&(**from, to, round))));
        }
        if !is_round || !absent.is_empty() {
            return absent;
        }
    }
    BTreeSet::new()
}
