//! The wasm engine: what any policy can do at all.
//!
//! Deterministic by construction: no clock, no randomness, no threads, no relaxed SIMD, one pattern for NaN, and fuel
//! as the limit. Isolated by construction: the only imports to link are `svc:policy/facts` and
//! `svc:policy/data`; a bundle of the WASI world also gets `wasmtime-wasi` with nothing granted, see `wasi.rs`.
//!
//! Components are compiled when a bundle is loaded, never on the request path. Compiled code is not cached on disk:
//! the default policy compiles in about 35 ms, loading foreign machine code is the one thing that would need
//! `unsafe` here, and write access to such a cache would be write access to this process's code.

use crate::bindings::svc::policy::{data, facts};
use crate::bundle::{BundleError, World};
use crate::limits::{
    CORE_INSTANCES_PER_COMPONENT_MAX, INSTANCES_MAX, INSTANCES_MIN, MEMORIES_PER_COMPONENT_MAX,
    MEMORY_BYTES_KEPT, MEMORY_BYTES_MAX, STACK_BYTES_MAX, TABLE_BYTES_KEPT, TABLE_ELEMENTS_MAX,
    TABLES_PER_COMPONENT_MAX, TICK,
};
use crate::state::State;
use crate::wasi;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};
use wasmtime::{Config, Engine, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig};

/// The engine could not be built: the machine lacks address space or threads.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The configuration is refused, or the pool's address space cannot be reserved.
    #[error("policy engine cannot start")]
    Wasmtime(#[source] wasmtime::Error),
    /// The clock that stops endless evaluations cannot be started.
    #[error("policy backstop clock cannot start")]
    Clock(#[source] std::io::Error),
}

/// The process's engine, shared by all bundles.
#[derive(Clone)]
pub struct PolicyEngine {
    engine: Engine,
    linker: Linker<State>,
}

impl std::fmt::Debug for PolicyEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyEngine").finish_non_exhaustive()
    }
}

impl PolicyEngine {
    /// Reserves the pool, with room for four evaluations per thread of the machine, and starts the backstop clock.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn new() -> Result<Self, EngineError> {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self::with_room_for(u32::try_from(threads.saturating_mul(4)).unwrap_or(u32::MAX).max(INSTANCES_MIN))
    }

    /// As [`PolicyEngine::new`], with room for `instances` evaluations at once, at most [`INSTANCES_MAX`].
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn with_room_for(instances: u32) -> Result<Self, EngineError> {
        let instances = instances.min(INSTANCES_MAX);
        let engine = Engine::new(&config(instances)).map_err(EngineError::Wasmtime)?;
        start_clock(engine.weak()).map_err(EngineError::Clock)?;
        let mut linker = Linker::new(&engine);
        facts::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)
            .and_then(|()| data::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state))
            .map_err(EngineError::Wasmtime)?;
        Ok(Self { engine, linker })
    }

    /// Compiles a component. When the compiler panics the bundle is refused, and the process goes on.
    pub(crate) fn compile(&self, wasm: &[u8]) -> Result<Component, BundleError> {
        let compiled = catch_unwind(AssertUnwindSafe(|| Component::from_binary(&self.engine, wasm)));
        compiled
            .unwrap_or_else(|_| Err(wasmtime::Error::msg("the compiler failed")))
            .map_err(BundleError::Component)
    }

    /// The names of a component's imports, sorted.
    pub(crate) fn imports(&self, component: &Component) -> Vec<String> {
        let mut names: Vec<_> =
            component.component_type().imports(&self.engine).map(|(name, _)| name.to_owned()).collect();
        names.sort();
        names
    }

    pub(crate) const fn wasmtime(&self) -> &Engine {
        &self.engine
    }

    /// Links a component to what its world gives. WASI is linked only for bundles of the WASI world.
    pub(crate) fn link(&self, component: &Component, world: World) -> wasmtime::Result<InstancePre<State>> {
        match world {
            World::Pure => self.linker.instantiate_pre(component),
            World::Wasi => {
                let mut linker = self.linker.clone();
                wasi::link(&mut linker, &self.engine, component)?;
                linker.instantiate_pre(component)
            }
        }
    }
}

/// The reasons for the numbers are in [`crate::limits`].
fn config(instances: u32) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(STACK_BYTES_MAX)
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        // Component linkers join parts that have a memory each.
        .wasm_multi_memory(true)
        .wasm_memory64(false)
        // Language runtimes are built with tail calls. Each takes fuel, as any other call.
        .wasm_tail_call(true)
        .gc_support(false)
        .concurrency_support(false)
        .wasm_backtrace_max_frames(None)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(instances)));
    config
}

fn pool(instances: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(CORE_INSTANCES_PER_COMPONENT_MAX))
        .total_memories(instances.saturating_mul(MEMORIES_PER_COMPONENT_MAX))
        .total_tables(instances.saturating_mul(TABLES_PER_COMPONENT_MAX))
        .max_core_instances_per_component(CORE_INSTANCES_PER_COMPONENT_MAX)
        .max_memories_per_component(MEMORIES_PER_COMPONENT_MAX)
        .max_tables_per_component(TABLES_PER_COMPONENT_MAX)
        .max_memory_size(MEMORY_BYTES_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .linear_memory_keep_resident(MEMORY_BYTES_KEPT)
        .table_keep_resident(TABLE_BYTES_KEPT);
    pool
}

/// Advances the epoch by one per wake-up, so that a stalled machine never gets a burst of ticks. Ends with the engine.
fn start_clock(engine: EngineWeak) -> std::io::Result<()> {
    let run = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            thread::sleep(TICK);
        }
    };
    thread::Builder::new().name("policy-clock".into()).spawn(run).map(drop)
}
