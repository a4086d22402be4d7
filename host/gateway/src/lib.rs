//! The operation gateway: composition root and binary.
