//! Threshold keys: each of several participants holds a share of a key, and no one ever has the whole key. Any `threshold` of
//! them can sign with it, deal new shares of it, or repair a lost share.
//!
//! The cryptography is [FROST](https://www.rfc-editor.org/rfc/rfc9591) as the ZF FROST crates implement it. This crate
//! wraps them in sans-IO sessions: messages in, messages out, with no I/O, clock or async runtime. It adds what those crates
//! leave to their caller:
//!
//! | left to the caller by frost-core | here |
//! |---|---|
//! | a consistent broadcast | every [`Session`] has an echo round: no result before all others sent the same transcript |
//! | binding messages and proofs to one ceremony | every message starts with a hash of the ceremony id and parameters, which proofs of knowledge cover |
//! | another roster, another threshold | [`redistribute`]: a refresh and a reshare are one protocol |
//! | detecting wrong values in share repair | [`repair`]: helpers commit to values, and the sender of a wrong one is named |
//! | using a nonce once | [`sign::Nonces`]: consumed by signing, neither `Clone` nor `Serialize` |
//! | naming participants at fault by index | [`ThresholdError::culprits`] |
//! | proof of the fault for others | [`Protocol::deviation`] |
//! | derived keys | [`mod@derive`]: one additive tweak for the key for payments, its BIP-32 child and its Taproot output key |
//! | rejecting a second encoding of the same value | every decoder re-encodes what it read and compares |
//!
//! It is not a transport: the caller must authenticate the sender of each message, and keep messages to one recipient
//! confidential. It stores nothing and has no policy. `protocols.md` numbers the steps of each protocol; the code marks them as
//! `// Step n.m`. Start with [`keygen::start`], which returns a [`Session`], then [`sign::commit`].
//!
//! # Obligations of the caller
//!
//! 1. Take [`Message::from`] from the authenticated channel, never from the payload: culprits are named by it.
//! 2. Keep a session or [`sign::Nonces`] in memory only. After a restart, start a new ceremony.
//! 3. Use a new `ceremony_id` for every attempt.
//! 4. Use a key only when all participants have stored their share: a participant that is done does not know whether the others
//!    received the last echo.
//! 5. Erase old shares only when all new ones are stored.
//! 6. Fix the derivation path and the message before [`sign::commit`], and do not use the nonces for another path or message.
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
//! | (outside the RFC) rounds, messages, proofs of knowledge and the echo of every ceremony | `session.rs`, `ceremony.rs`, `proof.rs`, `echo.rs` |
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
mod observe;
mod polynomial;
mod profile;
mod proof;
mod public_keys;
mod session;
mod suite;
mod tweak;

pub mod derive;
pub mod keygen;
pub mod redistribute;
pub mod repair;
pub mod sign;

pub use ceremony::{Message, Route};
pub use error::ThresholdError;
pub use key_share::KeyShare;
pub use observe::Protocol;
pub use profile::{SignatureProfile, UnknownProfile};
pub use public_keys::{PARTICIPANTS_MAX, PublicKeys, THRESHOLD_MIN};
pub use session::{Output, Progress, Session};
pub use tweak::Tweak;
