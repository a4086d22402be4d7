//! What the host keeps for one evaluation: the facts, what was asked of them, and the guest's limits.

use crate::bindings::svc::policy::facts::Host;
use crate::fault::{EvaluationFault, Stopped};
use crate::limits::{FACT_NAME_BYTES_MAX, FACTS_READ_MAX};
use crate::wasi::Randomness;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::{FactRead, Facts};
use wasmtime::ResourceLimiter;

pub(crate) struct State {
    facts: Facts,
    read: Vec<FactRead>,
    memory_bytes_max: usize,
    randomness: Randomness,
}

impl State {
    pub(crate) const fn new(facts: Facts, memory_bytes_max: usize) -> Self {
        Self { facts, read: Vec::new(), memory_bytes_max, randomness: Randomness::seeded(Hex32::ZERO) }
    }

    /// For the world that has randomness: it follows from `seed` alone.
    pub(crate) const fn seed(&mut self, seed: Hex32) {
        self.randomness = Randomness::seeded(seed);
    }

    pub(crate) const fn randomness(&mut self) -> &mut Randomness {
        &mut self.randomness
    }

    /// The fact `time.now_ms`, read as the guest itself would read it; 0 when there is none.
    pub(crate) fn now_ms(&mut self) -> wasmtime::Result<u64> {
        let now_ms = self.get("time.now_ms".to_owned())?;
        Ok(now_ms.and_then(|now_ms| now_ms.parse().ok()).unwrap_or(0))
    }

    /// What was asked, each name once, in the order of asking.
    pub(crate) fn into_read(self) -> Vec<FactRead> {
        self.read
    }
}

impl Host for State {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        let value = self.facts.get(&name).map(str::to_owned);
        if self.read.iter().all(|read| read.name != name) {
            if self.read.len() >= FACTS_READ_MAX || name.len() > FACT_NAME_BYTES_MAX {
                return Err(Stopped(EvaluationFault::TooManyFacts).into());
            }
            self.read.push(FactRead { name, value: value.clone() });
        }
        Ok(value)
    }
}

/// A guest that outgrows its limits ends at once: a refused growth that it may shrug off would make a verdict depend
/// on the host's settings.
impl ResourceLimiter for State {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > self.memory_bytes_max {
            return Err(Stopped(EvaluationFault::Memory).into());
        }
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(Stopped(EvaluationFault::Memory).into())
    }

    /// The pool's tables have no more elements than a policy may have; see [`crate::limits::TABLE_ELEMENTS_MAX`].
    fn table_growing(&mut self, _: usize, _: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(true)
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(Stopped(EvaluationFault::Memory).into())
    }
}
