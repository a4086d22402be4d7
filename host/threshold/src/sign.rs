//! Signing: RFC 9591 section 5, two rounds between `threshold` signers and a coordinator.
//!
//! Round one is [`commit`], round two [`Nonces::sign`]; the coordinator then calls [`aggregate`]. `protocols.md`,
//! section "Signing", is the numbered text.

mod aggregate;
mod nonces;
mod package;
mod verify;

pub use aggregate::aggregate;
pub use nonces::{Nonces, commit};
pub use package::SigningPackage;
pub use verify::verify;

/// A signature, 64 bytes: RFC 8032 (`R ‖ S`) for Ed25519, BIP-340 (`r ‖ s`) for secp256k1.
pub type Signature = [u8; 64];
