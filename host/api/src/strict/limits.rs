//! Limits of every request body (decisions.md 1).

/// Nesting of objects and arrays: far above any request here, far below any stack.
pub const DEPTH_MAX: usize = 64;

/// Bytes of a string, unless its member has another limit.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Entries of an array or of a map.
pub const ARRAY_ENTRIES_MAX: usize = 64;

/// Unknown members named in a `Warning` header and in evidence; further ones are only counted out.
pub(super) const UNKNOWN_NAMED_MAX: usize = 16;
