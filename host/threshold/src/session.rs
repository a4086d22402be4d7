//! One participant's run of a protocol: it gets messages, returns messages, and returns its output at the end.

use std::fmt;
use std::mem;

use crate::ceremony::{Bodies, Ceremony, Message};
use crate::inbox::Inbox;
use crate::{KeyShare, PublicKeys, ThresholdError};

/// What to do after a message.
#[derive(Debug)]
pub enum Progress {
    /// Wait for further messages of other participants.
    Wait,
    /// Send these messages, in any order, and wait for further messages.
    Send(Vec<Message>),
    /// The protocol is complete for this participant.
    Done {
        /// Messages that others still need from us. May be empty; must be sent.
        send: Vec<Message>,
        /// The result of the protocol.
        output: Box<Output>,
    },
}

/// A participant's result of a ceremony.
#[derive(Debug)]
pub struct Output {
    /// This participant's share of `keys`. Store it before reporting success to anyone. `None` for a participant that gets no
    /// share from this ceremony: a dealer that leaves, or a helper.
    pub share: Option<KeyShare>,
    /// The public keys, the same for all participants.
    pub keys: PublicKeys,
    /// The hash of the broadcasts and public keys, which all participants confirmed.
    pub transcript: [u8; 32],
}

/// One participant's run of one protocol, in memory only. To abort the ceremony, drop it.
pub struct Session {
    ceremony: Ceremony,
    inbox: Inbox,
    state: State,
}

enum State {
    /// The stage gets the messages of this round when all have arrived.
    Awaiting(u8, Box<dyn Stage>),
    /// The output was returned.
    Done,
    /// A stage failed, or a sender's messages conflicted. The secrets were wiped.
    Failed,
}

/// A participant's computation after all messages of one round have arrived.
pub(crate) trait Stage: Send + Sync {
    /// Handles the bodies of the round, one of each sender.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError>;
}

/// The result of a stage.
pub(crate) enum Step {
    /// Send these messages and continue with the next round.
    Next(Vec<Message>, Box<dyn Stage>),
    Done(Box<Output>),
}

impl Session {
    /// A session that waits for the messages of round 1.
    pub(crate) fn new(ceremony: Ceremony, stage: impl Stage + 'static) -> Self {
        Self { ceremony, inbox: Inbox::default(), state: State::Awaiting(1, Box::new(stage)) }
    }

    /// Handles one message of another participant. Messages may arrive in any order, and repeated ones have no effect.
    ///
    /// # Errors
    ///
    /// A message that does not belong here is rejected and the session continues: [`ThresholdError::UnknownSender`],
    /// [`WrongRecipient`](ThresholdError::WrongRecipient), [`UnknownRound`](ThresholdError::UnknownRound),
    /// [`WrongLength`](ThresholdError::WrongLength), [`OtherCeremony`](ThresholdError::OtherCeremony).
    ///
    /// Any other error ends the session, and messages that were due are not sent; the caller informs the others that the
    /// ceremony is over. Later messages return [`ThresholdError::SessionFailed`]. These errors are
    /// [`ConflictingMessages`](ThresholdError::ConflictingMessages),
    /// [`MalformedMessage`](ThresholdError::MalformedMessage),
    /// [`InvalidProofOfKnowledge`](ThresholdError::InvalidProofOfKnowledge),
    /// [`CommitmentMismatch`](ThresholdError::CommitmentMismatch),
    /// [`ContributionMismatch`](ThresholdError::ContributionMismatch), [`NotAdmitted`](ThresholdError::NotAdmitted),
    /// [`InvalidSecretShare`](ThresholdError::InvalidSecretShare),
    /// [`TranscriptMismatch`](ThresholdError::TranscriptMismatch),
    /// [`Library`](ThresholdError::Library), and if the public keys that it started with are inconsistent,
    /// [`MalformedMaterial`](ThresholdError::MalformedMaterial) or [`ShareMismatch`](ThresholdError::ShareMismatch).
    pub fn handle(&mut self, message: Message) -> Result<Progress, ThresholdError> {
        if matches!(self.state, State::Failed) {
            return Err(ThresholdError::SessionFailed);
        }
        self.ceremony.check_message(&message)?;
        // Steps 0.4 and 0.5
        if let Err(conflict) = self.inbox.put(message) {
            self.state = State::Failed;
            return Err(conflict);
        }
        self.advance()
    }

    /// Runs the stages whose messages have all arrived. After an error the state stays `Failed`.
    fn advance(&mut self) -> Result<Progress, ThresholdError> {
        let mut send = Vec::new();
        while let Some((round, stage, bodies)) = self.take_ready_stage() {
            match stage.step(&self.ceremony, &bodies)? {
                Step::Next(messages, stage) => {
                    self.state = State::Awaiting(round.saturating_add(1), stage);
                    send.extend(messages);
                }
                Step::Done(output) => {
                    self.state = State::Done;
                    return Ok(Progress::Done { send, output });
                }
            }
        }
        Ok(if send.is_empty() { Progress::Wait } else { Progress::Send(send) })
    }

    /// Takes the stage if all messages of its round have arrived, and sets the state to `Failed` until the stage succeeds.
    fn take_ready_stage(&mut self) -> Option<(u8, Box<dyn Stage>, Bodies)> {
        let State::Awaiting(round, _) = self.state else { return None };
        let bodies = self.inbox.take(round, self.ceremony.senders(round)?)?;
        match mem::replace(&mut self.state, State::Failed) {
            State::Awaiting(round, stage) => Some((round, stage, bodies)),
            State::Done | State::Failed => None,
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("me", &self.ceremony.me).finish_non_exhaustive()
    }
}
