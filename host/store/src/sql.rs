//! The SQL that both databases share: rows as stored, connections, and the words in which the databases differ.

pub(crate) mod connection;
pub(crate) mod row;
pub(crate) mod statements;
