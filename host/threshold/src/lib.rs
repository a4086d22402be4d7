//! Threshold keys: a group of participants creates a key that exists in no single place, and any `threshold` of them
//! sign with it, deal new shares of it, or repair a lost share.
//!
//! The cryptography is [FROST](https://www.rfc-editor.org/rfc/rfc9591) as the ZF FROST crates implement it. This crate
//! wraps them in sans-IO sessions: bytes in, bytes out, no I/O, clock or runtime. It adds what those crates leave to
//! their caller:
//!
//! | left to the caller by frost-core | here |
//! |---|---|
//! | a consistent broadcast | every [`Session`] ends with an echo round: no result before all report the same transcript |
//! | binding messages to one ceremony | every message starts with a hash of the ceremony id and parameters |
//! | another roster, another threshold | [`redistribute`]: a refresh and a reshare are one protocol |
//! | a check in share repair | [`repair`]: every value is committed to, and the sender of a wrong one is named |
//! | using a nonce once | [`sign::Nonces`]: consumed by signing, neither `Clone` nor `Serialize` |
//! | naming every culprit | [`ThresholdError::culprits`] |
//! | BIP-32 derivation | [`mod@derive`]: one additive tweak for the child key |
//! | rejecting a second encoding of the same value | every decoder re-encodes what it read and compares |
//!
//! It is deliberately not a transport (messages must arrive authenticated, and messages to one recipient confidential),
//! not a store, and not a place for policy. `protocols.md` numbers the steps of each protocol; the code marks them as
//! `// Step n.m`. Start with [`keygen::start`], which opens a [`Session`], then [`sign::commit`].
//!
//! # Obligations of the caller
//!
//! 1. Take `from` of a [`Message`] from the authenticated channel, never from the payload: culprits are named by it.
//! 2. Keep a session or [`sign::Nonces`] in memory only. After a restart, start a new ceremony.
//! 3. Use a new `ceremony_id` for every attempt.
//! 4. Use a key only when all participants have stored their share: one that is done does not know whether the others
//!    received the last echo.
//! 5. Erase old shares only when all new ones are stored.
//! 6. Fix the derivation path and the message before [`sign::commit`], and never use the nonces for others.
//! 7. Mark the commitments as used, durably, before the result of [`sign::Nonces::sign`] leaves the process.
//!
//! Items 2, 6 and 7 are part of the nonce rule in `protocols.md`.
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
//! | (outside the RFC) key generation, FROST paper figure 1 | `keygen.rs` |
//! | (outside the RFC) redistribution and repair | `redistribute.rs`, `repair.rs`, `polynomial.rs` |
//! | (outside the RFC) BIP-32 and BIP-340 | `derive.rs`, `tweak.rs`, `suite/secp256k1_tr.rs` |

mod ceremony;
mod echo;
mod encoding;
mod error;
mod hash;
mod inbox;
mod key_share;
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
pub use public_keys::{PARTICIPANTS_MAX, PublicKeys, THRESHOLD_MIN};
pub use session::{Message, Output, Progress, Session};
pub use tweak::Tweak;
