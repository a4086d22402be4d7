//! The node's log as callers see it.

pub(crate) mod rollback;
