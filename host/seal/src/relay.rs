//! Messages between nodes that somebody untrusted carries: signed by their sender, and sealed if they are private.
//!
//! A private body is `encapsulated key (32) ‖ ciphertext`, HPKE base mode of RFC 9180 with DHKEM(X25519, HKDF-SHA256),
//! HKDF-SHA256 and ChaCha20-Poly1305, one encapsulation a message. `info` is the digest of a label and the ceremony,
//! `aad` the digest of the header. The plaintext is `inner signature (64) ‖ body`; a [`Complaint`] says what the inner
//! signature is for. The outer signature covers header and body as carried, so the relay can not change either, and
//! nobody can pass another's ciphertext off as his own: it opens under the sender's header only.
//!
//! **What is not here.** The relay can keep messages back, delay and repeat them. A repeat opens again: the session
//! takes one message for each (ceremony, round, sender) and compares the next with it. Two envelopes that
//! [`Envelope::verify`] takes, with one header and different bodies of a broadcast, prove that the sender lied to
//! somebody. There is no forward secrecy against theft of the recipient's key.

mod complaint;
mod envelope;
mod hybrid;
mod open;
mod seal;
#[cfg(test)]
mod tests;

pub use complaint::{Complaint, ComplaintError, verify_complaint};
pub use envelope::{Envelope, Header};
pub use open::{OpenError, Opened, open};
pub use seal::{SealError, seal};
