//! Tests of the public API. Signatures, child keys and hashes are checked with code that this crate does not use.

#[cfg(test)]
mod ceremonies;
#[cfg(test)]
mod contributions;
#[cfg(test)]
mod derive;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod hashes;
#[cfg(test)]
mod keygen;
#[cfg(test)]
mod keygen_attacks;
#[cfg(test)]
mod material;
#[cfg(test)]
mod observe;
#[cfg(test)]
mod proofs;
#[cfg(test)]
mod redistribute;
#[cfg(test)]
mod redistribute_attacks;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod repair_attacks;
#[cfg(test)]
mod sign;
#[cfg(test)]
mod sign_attacks;
#[cfg(test)]
mod unknown_secrets;
#[cfg(test)]
mod vectors;
