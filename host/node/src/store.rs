//! What the node's database holds: each file reads and writes some of its tables, and knows no node.

pub(crate) mod bundles;
pub(crate) mod columns;
pub(crate) mod consumed;
pub(crate) mod log;
pub(crate) mod operation;
pub(crate) mod rollback;
pub(crate) mod row_hash;
pub(crate) mod sealing;
pub(crate) mod spending;
pub(crate) mod tables;
pub(crate) mod transaction;
pub(crate) mod vault;
