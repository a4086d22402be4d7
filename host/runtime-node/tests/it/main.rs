//! The node surface over its router, in process: what the document says, and bad input.

mod conforms;
mod surface;
