//! The rounds in order, each taken when its messages are complete.

use std::mem;

use rand_core::CryptoRngCore;

use super::ceremony::Ceremony;
use super::finish::AwaitEchoes;
use super::round1::{self, AwaitCommitments};
use super::round3::AwaitShares;
use super::{Handle, KeygenOutput};
use crate::inbox::{Bodies, Inbox};
use crate::suite::Suite;
use crate::{Message, Progress, ThresholdError};

/// One participant of one ceremony.
pub(super) struct Machine<C: Suite> {
    ceremony: Ceremony,
    inbox: Inbox,
    stage: Stage<C>,
}

/// What the participant is waiting for.
pub(super) enum Stage<C: Suite> {
    /// The other participants' round 1.
    Commitments(AwaitCommitments<C>),
    /// Their round 2.
    Shares(AwaitShares<C>),
    /// Their round 3.
    Echoes(AwaitEchoes),
    /// Nothing: the output is out.
    Done,
    /// Nothing: a step failed, and its secrets are gone.
    Failed,
}

/// What a complete round leads to.
pub(super) enum Step<C: Suite> {
    Next(Stage<C>, Vec<Message>),
    Done(Box<KeygenOutput>),
}

impl<C: Suite> Machine<C> {
    pub(super) fn start(
        ceremony: Ceremony,
        rng: &mut impl CryptoRngCore,
    ) -> Result<(Self, Message), ThresholdError> {
        let (waiting, message) = round1::commit(&ceremony, rng)?;
        Ok((Self { ceremony, inbox: Inbox::default(), stage: Stage::Commitments(waiting) }, message))
    }

    /// Takes every step whose messages are complete. On an error the stage stays `Failed`.
    fn advance(&mut self) -> Result<Progress<KeygenOutput>, ThresholdError> {
        let mut send = Vec::new();
        while let Some(bodies) =
            self.stage.round().and_then(|round| self.inbox.take(round, &self.ceremony.peers))
        {
            let stage = mem::replace(&mut self.stage, Stage::Failed);
            match stage.step(&self.ceremony, bodies)? {
                Step::Next(stage, messages) => {
                    self.stage = stage;
                    send.extend(messages);
                }
                Step::Done(output) => {
                    self.stage = Stage::Done;
                    return Ok(Progress::Done { send, output });
                }
            }
        }
        Ok(if send.is_empty() { Progress::Wait } else { Progress::Send(send) })
    }
}

impl<C: Suite> Handle for Machine<C> {
    fn handle(&mut self, message: Message) -> Result<Progress<KeygenOutput>, ThresholdError> {
        if matches!(self.stage, Stage::Failed) {
            return Err(ThresholdError::SessionOver);
        }
        self.ceremony.admit(&message)?;
        // Steps 2.4 and 2.5
        if let Err(conflict) = self.inbox.put(message) {
            self.stage = Stage::Failed;
            return Err(conflict);
        }
        self.advance()
    }
}

impl<C: Suite> Stage<C> {
    /// The round whose messages are awaited.
    fn round(&self) -> Option<u8> {
        match self {
            Self::Commitments(_) => Some(1),
            Self::Shares(_) => Some(2),
            Self::Echoes(_) => Some(3),
            Self::Done | Self::Failed => None,
        }
    }

    fn step(self, ceremony: &Ceremony, bodies: Bodies) -> Result<Step<C>, ThresholdError> {
        match self {
            Self::Commitments(waiting) => waiting.step(ceremony, &bodies),
            Self::Shares(waiting) => waiting.step(ceremony, &bodies),
            Self::Echoes(waiting) => waiting.step(&bodies),
            Self::Done | Self::Failed => Err(ThresholdError::SessionOver),
        }
    }
}
