//! What every protocol session speaks: messages in, messages out, at last an output.

use std::fmt;

use zeroize::Zeroizing;

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
pub enum Progress<Output> {
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
