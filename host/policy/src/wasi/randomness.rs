//! Numbers that look random and follow from the request.

use super::{Answered, Instance};
use crate::fault::{EvaluationFault, Stopped};
use crate::limits::RANDOM_BYTES_MAX;
use crate::state::State;
use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use wasmtime::StoreContextMut;

const TAG: &str = "svc/policy-random/v1";

/// SHA-256 over seed and counter, block by block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Randomness {
    seed: Hex32,
    n_blocks: u64,
    bytes_left: usize,
}

impl Randomness {
    pub(crate) const fn seeded(seed: Hex32) -> Self {
        Self { seed, n_blocks: 0, bytes_left: RANDOM_BYTES_MAX }
    }

    /// The next bytes; whole blocks are used up, so a request for one byte costs as much as one for 32.
    fn bytes(&mut self, n_bytes: u64) -> Result<Vec<u8>, Stopped> {
        let too_many = Stopped(EvaluationFault::Memory);
        let Ok(n_bytes) = usize::try_from(n_bytes) else { return Err(too_many) };
        let used = n_bytes.checked_next_multiple_of(32).and_then(|used| self.bytes_left.checked_sub(used));
        let Some(bytes_left) = used else { return Err(too_many) };
        self.bytes_left = bytes_left;
        let mut bytes = Vec::with_capacity(n_bytes.saturating_add(32));
        while bytes.len() < n_bytes {
            bytes.extend_from_slice(&self.block());
        }
        bytes.truncate(n_bytes);
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64, Stopped> {
        let bytes = self.bytes(8)?;
        Ok(bytes.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    fn block(&mut self) -> [u8; 32] {
        let input = [self.seed.as_bytes().as_slice(), &self.n_blocks.to_be_bytes()].concat();
        self.n_blocks = self.n_blocks.saturating_add(1);
        *canonical::digest_bytes(TAG, &input).as_bytes()
    }
}

/// `wasi:random/random` and `wasi:random/insecure`: neither is fit for a secret, and a policy keeps none.
pub(super) fn random(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    match function {
        "get-random-bytes" | "get-insecure-random-bytes" => {
            instance.func_wrap(function, |mut store: StoreContextMut<'_, State>, (n_bytes,): (u64,)| {
                Ok((store.data_mut().randomness().bytes(n_bytes)?,))
            })?;
        }
        "get-random-u64" | "get-insecure-random-u64" => {
            instance.func_wrap(function, |mut store: StoreContextMut<'_, State>, (): ()| {
                Ok((store.data_mut().randomness().number()?,))
            })?;
        }
        _ => return Ok(Answered::No),
    }
    Ok(Answered::Yes)
}

pub(super) fn seed(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    if function != "insecure-seed" {
        return Ok(Answered::No);
    }
    instance.func_wrap(function, |mut store: StoreContextMut<'_, State>, (): ()| {
        let randomness = store.data_mut().randomness();
        Ok(((randomness.number()?, randomness.number()?),))
    })?;
    Ok(Answered::Yes)
}
