//! Random numbers that are computed from the hash of the request.

use crate::state::State;
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};

/// Not fit for secrets, since the numbers are reproducible. A policy has no secrets.
impl random::Host for State {
    fn get_random_bytes(&mut self, n_bytes: u64) -> wasmtime::Result<Vec<u8>> {
        Ok(self.wasi().randomness.bytes(n_bytes)?)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.wasi().randomness.number()?)
    }
}

impl insecure::Host for State {
    fn get_insecure_random_bytes(&mut self, n_bytes: u64) -> wasmtime::Result<Vec<u8>> {
        Ok(self.wasi().randomness.bytes(n_bytes)?)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.wasi().randomness.number()?)
    }
}

impl insecure_seed::Host for State {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        let randomness = &mut self.wasi().randomness;
        Ok((randomness.number()?, randomness.number()?))
    }
}
