//! Secrets in a database: a row that is stolen, swapped or altered gives nothing away and is not taken.
//!
//! Each row has a key of its own (DEK), which the node's key-encryption key wraps: [`rewrap`] changes the wrapping and
//! leaves the secret's ciphertext as it is. A sealed row is
//! `1 ‖ kek id (16) ‖ nonce (24) ‖ wrapped DEK (32 + 16) ‖ nonce (24) ‖ ciphertext + 16`, twice XChaCha20-Poly1305. Both
//! are bound to the [`Place`]; the wrapping to the kek id too.
//!
//! **What is not here.** An older row of the same place is a valid row: that is a rollback of the whole database, and
//! against it there is only the epoch that others know of. Whoever has had both the row and the kek keeps the secret:
//! rotating the kek does not help then, resharing does.

mod kek;
mod share;
mod stretching;
#[cfg(test)]
mod tests;

pub use kek::{Kek, KekError, KekId};
pub use share::{AtRestError, Place, open_share, rewrap, seal_share};
pub use stretching::{Stretching, StretchingError};
