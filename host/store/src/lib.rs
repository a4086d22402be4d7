//! Durable commits and reads.
