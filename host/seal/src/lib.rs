//! Sealing: messages between nodes that an untrusted gateway relays, and key shares in a node's database.
//!
//! In ceremonies, the nodes of a key exchange messages through the gateway, which must not be able to forge or change them, or
//! to read private ones: [`relay`]. A node keeps shares in a database, whose file, backups and log must be useless without the
//! node's key-encryption key: [`at_rest`].
//!
//! The crate is not a transport, a store or a session: it does not remember earlier messages. It has no clock, no async runtime,
//! and no I/O except in [`key_file`], [`kek_source`] and [`durable`]. [`relay::seal`], [`at_rest::seal_share`], [`at_rest::rewrap`],
//! [`at_rest::Stretching::fresh`] and [`key_file::load_or_create`] take randomness from the operating system and not from the
//! caller, who could pass the same randomness twice.
//!
//! Start with [`node_key::NodeSecret`], then [`relay::seal`] and [`relay::open`]; or with [`at_rest::Kek`], then
//! [`at_rest::seal_share`]. `vectors/formats.json` pins every format.
//!
//! # Obligations of the caller
//!
//! 1. Take identities from operators or signed records, never from the relay. Check that the node's own identity is among them:
//!    with a wrong one, an honest sender that seals to its key is named as the culprit.
//! 2. Use a new ceremony id for every attempt. Accept one message for each (ceremony, round, sender), and compare any
//!    further one with it.
//! 3. Compare the key's check value when the node starts ([`at_rest::Kek::verify`]).
//!
//! This crate wipes the secrets that it stores, but not copies that a hash or cipher leaves on the stack.

mod hash;
mod random;
mod text;

pub mod at_rest;
pub mod durable;
pub mod kek_source;
pub mod key_file;
pub mod limits;
pub mod node_key;
pub mod relay;

pub use random::NoRandomness;
