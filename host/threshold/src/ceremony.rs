//! The message format of a ceremony, the same for all protocols: how a participant sends and checks messages.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use frost_core::{Element, Scalar};
use zeroize::Zeroizing;

use crate::ThresholdError;
use crate::suite::{Suite, scalar, secret_bytes};

/// Bytes of the binding, with which every body begins.
const BINDING_BYTES: usize = 32;

/// One protocol message, which the caller transports.
///
/// A message with `to: Some(_)` is secret and needs a confidential channel. The body is wiped when dropped, and `Debug` shows
/// only its length.
pub struct Message {
    /// The sender. For a received message, the sender that the channel authenticated.
    pub from: u16,
    /// The only recipient, or `None` for all other participants.
    pub to: Option<u16>,
    /// Round of the protocol, from 1.
    pub round: u8,
    /// The body, encoded as in `protocols.md`.
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

/// The bodies of one round by sender.
pub(crate) type Bodies = BTreeMap<u16, Zeroizing<Vec<u8>>>;

/// The identity of a ceremony, and the messages that this participant expects in it.
pub(crate) struct Ceremony {
    pub(crate) me: u16,
    /// Hash of the ceremony id and all agreed parameters.
    pub(crate) binding: [u8; BINDING_BYTES],
    /// The rounds, beginning with round 1.
    // INVARIANT: `me` is not a sender. Kept by `new`.
    rounds: Vec<Round>,
}

/// The messages that this participant expects in one round.
pub(crate) struct Round {
    /// The participants that send this one a message; empty if none does.
    senders: BTreeSet<u16>,
    private: bool,
    payload_bytes: usize,
}

impl Round {
    /// Each sender sends one message to all.
    pub(crate) fn broadcast(senders: &BTreeSet<u16>, payload_bytes: usize) -> Self {
        Self { senders: senders.clone(), private: false, payload_bytes }
    }

    /// Each sender sends each recipient a confidential message.
    pub(crate) fn private(senders: &BTreeSet<u16>, payload_bytes: usize) -> Self {
        Self { senders: senders.clone(), private: true, payload_bytes }
    }

    /// This participant gets no message in this round.
    pub(crate) fn no_messages() -> Self {
        Self { senders: BTreeSet::new(), private: true, payload_bytes: 0 }
    }
}

impl Ceremony {
    pub(crate) fn new(me: u16, binding: [u8; BINDING_BYTES], mut rounds: Vec<Round>) -> Self {
        for round in &mut rounds {
            round.senders.remove(&me);
        }
        Self { me, binding, rounds }
    }

    /// The participants that send this one a message in this round. `None` if there is no such round.
    pub(crate) fn senders(&self, round: u8) -> Option<&BTreeSet<u16>> {
        self.round(round).map(|round| &round.senders)
    }

    /// The participants that send this one a message in this round, and whether it is private. `None` if there is no such round.
    pub(crate) fn expected(&self, round: u8) -> Option<(&BTreeSet<u16>, bool)> {
        self.round(round).map(|round| (&round.senders, round.private))
    }

    fn round(&self, round: u8) -> Option<&Round> {
        self.rounds.get(usize::from(round).checked_sub(1)?)
    }

    /// Checks that a message belongs to this ceremony and is expected. Does not check the payload.
    pub(crate) fn check_message(&self, message: &Message) -> Result<(), ThresholdError> {
        let Message { from, to, round, ref body } = *message;
        // Step 0.1
        if !self.rounds.iter().any(|round| round.senders.contains(&from)) {
            return Err(ThresholdError::UnknownSender { from });
        }
        let expected = self.round(round).filter(|expected| expected.senders.contains(&from));
        let expected = expected.ok_or(ThresholdError::UnknownRound { from, round })?;
        // Step 0.2
        if to != expected.private.then_some(self.me) {
            return Err(ThresholdError::WrongRecipient { from, round });
        }
        // Step 0.3
        if body.len() != BINDING_BYTES + expected.payload_bytes {
            return Err(ThresholdError::WrongLength { from, round, bytes: body.len() });
        }
        if !body.starts_with(&self.binding) {
            return Err(ThresholdError::OtherCeremony { from, round });
        }
        Ok(())
    }

    /// A private message of ours with a secret scalar as its payload.
    pub(crate) fn scalar_message<C: Suite>(&self, round: u8, to: u16, secret: &Scalar<C>) -> Message {
        self.message(round, Some(to), secret_bytes::<C>(secret).as_slice())
    }

    /// A message of ours: binding, then payload.
    pub(crate) fn message(&self, round: u8, to: Option<u16>, payload: &[u8]) -> Message {
        let mut body = Zeroizing::new(Vec::with_capacity(BINDING_BYTES + payload.len()));
        body.extend(self.binding);
        body.extend(payload);
        Message { from: self.me, to, round, body }
    }
}

/// Sender, recipient (`None` for a broadcast) and round of a message.
pub type Route = (u16, Option<u16>, u8);

/// The payloads of round 1, by sender.
pub(crate) type Broadcasts = BTreeMap<u16, Vec<u8>>;

/// What a protocol checks in messages, with public values only.
pub(crate) trait Observe<C: Suite> {
    /// The ceremony of this participant.
    fn open_for(&self, me: u16) -> Result<Ceremony, ThresholdError>;

    /// All participants.
    fn participants(&self) -> BTreeSet<u16>;

    /// The participants that send a broadcast in round 1.
    fn broadcasters(&self) -> &BTreeSet<u16>;

    /// Checks the payload of a broadcast in round 1.
    fn check_broadcast(&self, ceremony: &Ceremony, from: u16, payload: &[u8]) -> Result<(), ThresholdError>;

    /// The secret value of a private message, times the generator.
    fn committed(&self, route: Route, broadcasts: &Broadcasts) -> Result<Element<C>, ThresholdError>;

    /// Step 0.6: the transcript of these broadcasts.
    fn transcript(&self, ceremony: &Ceremony, broadcasts: &Broadcasts) -> Result<[u8; 32], ThresholdError>;
}

/// The payloads of checked broadcasts, by sender.
pub(crate) fn payloads(bodies: &Bodies) -> BTreeMap<u16, Vec<u8>> {
    bodies.iter().map(|(from, body)| (*from, payload(body).to_vec())).collect()
}

/// Decodes the scalar of a checked private message, and checks it against `committed`, the scalar times the generator.
pub(crate) fn verified_scalar<C: Suite>(
    from: u16,
    round: u8,
    body: &[u8],
    committed: &Element<C>,
) -> Result<Zeroizing<Scalar<C>>, ThresholdError> {
    let secret = scalar::<C>(payload(body)).map(Zeroizing::new);
    let secret = secret.ok_or(ThresholdError::MalformedMessage { from, round })?;
    let matches = C::generator_times(&secret) == *committed;
    if matches { Ok(secret) } else { Err(ThresholdError::InvalidSecretShare { from }) }
}

/// The payload of a checked body: the bytes after the binding.
pub(crate) fn payload(body: &[u8]) -> &[u8] {
    body.get(BINDING_BYTES..).unwrap_or_default()
}
