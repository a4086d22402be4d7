//! Sealing: messages between nodes that an untrusted gateway carries, and key shares in a node's database.
//!
//! Nodes of one key talk in ceremonies through the gateway, which must neither read nor change what they say, nor speak
//! for one of them. A node keeps shares in a database, whose file, backups and log must be worth nothing
//! without the node's key. The two halves share hash, limits and key files, and nothing else; a node has
//! one key file for each.
