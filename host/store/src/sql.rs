//! Rows as either database stores them, and the connections that read them.

pub(crate) mod row;
pub(crate) mod rows;
