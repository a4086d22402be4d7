//! What tests of authentication stand on: an issuer that signs what it is told to, with keys of its own, and an identity
//! provider on loopback that answers, hangs, or talks nonsense as it is told.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "tests fail by panicking"
)]

mod issuer;
mod provider;

pub use issuer::{Issuer, Signer};
pub use provider::{Behaviour, FakeProvider};
