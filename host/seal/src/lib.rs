//! Sealing: messages between nodes that an untrusted gateway carries, and key shares in a node's database.
//!
//! Nodes of one key talk in ceremonies through the gateway, which must neither read nor change what they say, nor speak
//! for one of them: [`relay`]. A node keeps shares in a database, whose file, backups and log must be worth nothing
//! without the node's key: [`at_rest`]. The two halves share hash, limits and key files, and nothing else; a node has
//! one key file for each.
//!
//! It is deliberately not a transport, not a store and not a session: it does not know which messages came before, or
//! what is in them. It has no clock, no runtime and no I/O but in [`key_file`]. Randomness is the operating system's,
//! drawn inside [`relay::seal`], [`at_rest::seal_share`], [`at_rest::rewrap`], [`at_rest::Stretching::fresh`] and
//! [`key_file::load_or_create`]: a caller that could pass it in could pass it in twice.
//!
//! Start with [`node_key::NodeSecret`], then [`relay::seal`] and [`relay::open`]; or with [`at_rest::Kek`], then
//! [`at_rest::seal_share`]. `vectors/formats.json` pins every format.
//!
//! # What the caller owes
//!
//! 1. Identities come from operators or signed records, never from the gateway. A node checks that its own is among
//!    them: who seals to another key than a node has is blamed for it.
//! 2. A new ceremony id for every attempt; one message for each (ceremony, round, sender), the rest compared with it.
//! 3. The key's check value is compared when the node starts ([`at_rest::Kek::verify`]).
//!
//! Secrets are wiped from where this crate keeps them. What a hash or cipher leaves on the stack is not.

mod hash;
mod random;
mod text;

pub mod at_rest;
pub mod key_file;
pub mod limits;
pub mod node_key;
pub mod relay;

pub use random::NoRandomness;
