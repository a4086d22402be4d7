//! Threshold keys: a group of participants makes a key that none of them ever holds, and any `threshold` of them sign
//! with it, hand it on, or repair a share of it.
//!
//! The cryptography is [FROST](https://www.rfc-editor.org/rfc/rfc9591) as the ZF FROST crates implement it. This crate
//! is the border around them: bytes in, bytes out, no I/O, no clock, no runtime. It adds what those crates leave to
//! their caller:
//!
//! | left to the caller by frost-core | here |
//! |---|---|
//! | a consistent broadcast | every [`Session`]: nobody is done before all have shown to have seen the same messages |
//! | binding messages to one ceremony | every [`Session`]: each message opens with a hash of the ceremony and its parameters |
//! | another roster, another threshold | [`redistribute`]: a refresh and a reshare are one protocol |
//! | a check in share repair | [`repair`]: every value is committed to, and who sends a wrong one is named |
//! | using a nonce once | [`sign::Nonces`]: consumed by signing, neither `Clone` nor `Serialize` |
//! | naming every culprit | [`ThresholdError::culprits`] |
//! | BIP-32 derivation | [`mod@derive`]: one additive tweak for the child key |
//! | refusing a second encoding of the same value | every decoder: what is read is written again and compared |
//!
//! It is deliberately not a transport (messages must reach it authenticated, and round-2 messages confidential), not a
//! store, and not a place for policy. The numbered protocol text is `protocols.md`; code carries `// Step n.m` beside
//! each step. Start with [`keygen::start`], which opens a [`Session`], then
//! [`sign::commit`].
//!
//! # What the caller owes
//!
//! 1. `from` of a [`Message`] comes from the authenticated channel, never from the payload; blame rests on it.
//! 2. A session or a [`sign::Nonces`] lives in memory only. After a restart the ceremony starts again.
//! 3. A new `ceremony_id` for every attempt.
//! 4. A key is put to use only when all participants have stored their share: one being done does not say that the
//!    last echo has reached the others.
//! 5. Old shares are erased only when all new ones are stored; until then they are the key.
//! 6. The derivation path and the message are fixed before [`sign::commit`]; nonces are never offered for another.
//! 7. A durable mark "these commitments are used" is on disk before the result of [`sign::Nonces::sign`] leaves.
//!
//! # RFC 9591 to file
//!
//! | section | file |
//! |---|---|
//! | 3.1, 6.1 group, ciphersuite | `suite.rs`, `suite/` |
//! | 4.1 nonce generation, 5.1 round one | `sign/nonces.rs` |
//! | 5.2 round two | `sign/nonces.rs`, `sign/package.rs` |
//! | 5.3 aggregation, 5.4 identifiable abort | `sign/aggregate.rs` |
//! | (outside the RFC) rounds, messages and the echo of every ceremony | `session.rs`, `ceremony.rs`, `echo.rs` |
//! | (outside the RFC) key generation, FROST paper figure 1 | `keygen/` |
//! | (outside the RFC) redistribution and repair | `redistribute/`, `repair/`, `polynomial.rs`, `opening.rs` |
//! | (outside the RFC) BIP-32 and BIP-340 | `derive.rs`, `tweak.rs`, `suite/secp256k1_tr.rs` |

mod ceremony;
mod echo;
mod encoding;
mod error;
mod hash;
mod inbox;
mod key_share;
pub mod limits;
mod opening;
mod polynomial;
mod profile;
mod public_keys;
mod session;
mod suite;
mod tweak;

pub mod derive;
pub mod keygen;
pub mod redistribute;
pub mod repair;
pub mod sign;

pub use error::ThresholdError;
pub use key_share::KeyShare;
pub use profile::SignatureProfile;
pub use public_keys::PublicKeys;
pub use session::{Message, Output, Progress, Session};
pub use tweak::Tweak;
