//! Threshold key generation and signing as sans-IO sessions on the ZF FROST crates.
