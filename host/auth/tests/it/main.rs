//! Authentication against an identity provider on loopback, with a clock that the test moves.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod introspection;
mod jwks;
mod keys;
mod modes;
mod support;
mod vectors;
mod wycheproof_keys;
