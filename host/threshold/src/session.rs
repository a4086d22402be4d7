//! One run of any protocol: messages in, messages out, at last an output.

use std::fmt;
use std::mem;

use zeroize::Zeroizing;

use crate::ceremony::Ceremony;
use crate::inbox::{Bodies, Inbox};
use crate::{KeyShare, PublicKeys, ThresholdError};

/// One protocol message, as the caller carries it.
///
/// A message with `to: Some(_)` is secret: it must travel over a confidential channel. The body is wiped when dropped,
/// and `Debug` shows its length only.
pub struct Message {
    /// The sender. On the way in: who the channel says it is.
    pub from: u16,
    /// The one recipient, or `None` for everybody else in the roster.
    pub to: Option<u16>,
    /// Round of the protocol, from 1.
    pub round: u8,
    /// The protocol's bytes; layouts are in `protocols.md`.
    pub body: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("from", &self.from)
            .field("to", &self.to)
            .field("round", &self.round)
            .field("body", &format_args!("<{} bytes>", self.body.len()))
            .finish()
    }
}

/// Where a session stands after a message.
#[derive(Debug)]
pub enum Progress {
    /// Others have to speak first.
    Wait,
    /// Send these, in any order; then others have to speak.
    Send(Vec<Message>),
    /// The protocol is complete for this participant.
    Done {
        /// What others still need from us: may be empty, must be sent.
        send: Vec<Message>,
        /// What the protocol was for.
        output: Box<Output>,
    },
}

/// What a participant has at the end.
#[derive(Debug)]
pub struct Output {
    /// This participant's share of `keys`, to be stored before any other participant hears that we are done. `None`
    /// for one that has no share by this ceremony: a dealer that leaves, a helper.
    pub share: Option<KeyShare>,
    /// The same at every participant.
    pub keys: PublicKeys,
    /// The transcript all participants confirmed, 32 bytes; evidence of the ceremony.
    pub transcript: [u8; 32],
}

/// One participant's run of one protocol. Lives in memory only; drop it to abort.
pub struct Session {
    ceremony: Ceremony,
    inbox: Inbox,
    state: State,
}

enum State {
    /// The messages of this round are awaited, and what is to be done with them.
    Awaiting(u8, Box<dyn Stage>),
    /// Nothing is awaited: the output is out.
    Done,
    /// Nothing is awaited: a step failed, and its secrets are gone.
    Failed,
}

/// What a participant does with the complete messages of one round.
pub(crate) trait Stage: Send + Sync {
    /// Takes the bodies of all senders of the round.
    fn step(self: Box<Self>, ceremony: &Ceremony, bodies: &Bodies) -> Result<Step, ThresholdError>;
}

/// What a complete round leads to.
pub(crate) enum Step {
    /// On to the next round, when these are sent.
    Next(Vec<Message>, Box<dyn Stage>),
    Done(Box<Output>),
}

impl Session {
    /// A session that awaits round 1.
    pub(crate) fn open(ceremony: Ceremony, stage: impl Stage + 'static) -> Self {
        Self { ceremony, inbox: Inbox::default(), state: State::Awaiting(1, Box::new(stage)) }
    }

    /// Takes one message of another participant, in any order.
    ///
    /// A repeated message is [`Progress::Wait`], also after the end.
    ///
    /// # Errors
    ///
    /// A message that has no place here is refused and the session goes on: [`ThresholdError::UnknownSender`],
    /// [`Misaddressed`](ThresholdError::Misaddressed), [`UnknownRound`](ThresholdError::UnknownRound),
    /// [`WrongLength`](ThresholdError::WrongLength), [`ForeignCeremony`](ThresholdError::ForeignCeremony).
    ///
    /// Anything else ends the session, also in place of messages that were due; the caller tells the others that the
    /// ceremony is over. Later messages get [`ThresholdError::SessionOver`]:
    /// [`ConflictingMessages`](ThresholdError::ConflictingMessages),
    /// [`MalformedMessage`](ThresholdError::MalformedMessage),
    /// [`ProofOfKnowledge`](ThresholdError::ProofOfKnowledge), [`ForeignSecret`](ThresholdError::ForeignSecret),
    /// [`SecretShare`](ThresholdError::SecretShare), [`TranscriptDiffers`](ThresholdError::TranscriptDiffers),
    /// [`Library`](ThresholdError::Library), and if the public keys it was started with contradict themselves,
    /// [`MalformedMaterial`](ThresholdError::MalformedMaterial) or [`ForeignShare`](ThresholdError::ForeignShare).
    pub fn handle(&mut self, message: Message) -> Result<Progress, ThresholdError> {
        if matches!(self.state, State::Failed) {
            return Err(ThresholdError::SessionOver);
        }
        self.ceremony.admit(&message)?;
        // Steps 0.4 and 0.5
        if let Err(conflict) = self.inbox.put(message) {
            self.state = State::Failed;
            return Err(conflict);
        }
        self.advance()
    }

    /// Takes every step whose messages are complete. On an error the state stays `Failed`.
    fn advance(&mut self) -> Result<Progress, ThresholdError> {
        let mut send = Vec::new();
        while let Some((round, stage, bodies)) = self.due() {
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

    /// The stage whose round is complete. Until it has led to the next, the state is `Failed`.
    fn due(&mut self) -> Option<(u8, Box<dyn Stage>, Bodies)> {
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
