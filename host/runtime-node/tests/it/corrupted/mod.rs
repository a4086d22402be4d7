//! A corrupted gateway against honest nodes, over the node surface: one test for each row of `scripts/mutations.json`, which lists
//! what a node checks, how each check is switched off, and which test then fails. The attacker has the caller's place, the relay
//! and, where a test says so, the authority's key.

mod admission;
mod process;
mod shares;
mod signing;
mod victims;
