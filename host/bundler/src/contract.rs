//! The contract between the gateway and a policy, as this gateway was built with it.

/// `wit/policy.wit`.
pub const WIT: &str = include_str!("../../../wit/policy.wit");
