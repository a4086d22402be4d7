//! Sealing: messages between nodes that an untrusted gateway carries, and key shares in a node's database.
//!
//! In ceremonies, the nodes of a key exchange messages through the gateway, which must not be able to read, change or
//! forge them: [`relay`]. A node keeps shares in a database, whose file, backups and log must be useless without the
//! node's key: [`at_rest`]. The two halves share only hash, limits and key files; a node has one key file for each.
//!
//! The crate is deliberately not a transport, a store or a session: it does not know earlier messages or the meaning of
//! any. It has no clock, no runtime, and no I/O except in [`key_file`]. [`relay::seal`], [`at_rest::seal_share`],
//! [`at_rest::rewrap`], [`at_rest::Stretching::fresh`] and [`key_file::load_or_create`] draw randomness from the operating
//! system themselves, so that no caller can pass in the same randomness twice.
//!
//! Start with [`node_key::NodeSecret`], then [`relay::seal`] and [`relay::open`]; or with [`at_rest::Kek`], then
//! [`at_rest::seal_share`]. `vectors/formats.json` pins every format.
//!
//! # Obligations of the caller
//!
//! 1. Take identities from operators or signed records, never from the gateway. Check that the node's own identity is
//!    among them: otherwise an honest sender that seals to the wrong key is named as the culprit.
//! 2. Use a new ceremony id for every attempt. Accept one message for each (ceremony, round, sender), and compare any
//!    further one with it.
//! 3. Compare the key's check value when the node starts ([`at_rest::Kek::verify`]).
//!
//! This crate wipes the secrets that it stores, but not what a hash or cipher leaves on the stack.

mod hash;
mod random;
mod text;

pub mod at_rest;
pub mod key_file;
pub mod limits;
pub mod node_key;
pub mod relay;

pub use random::NoRandomness;
