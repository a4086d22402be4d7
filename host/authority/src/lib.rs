//! Turns a quorum and a policy outcome into a signed admission decision.
