//! The wasm engines, which all bundles share, and what they link to components.
//!
//! Evaluations are deterministic: no clock, no randomness, no threads, no relaxed SIMD, canonical NaNs, and fuel as the limit.
//! They are isolated: components can import only `svc:policy/facts`, and `data`, `documents` and `log` of `svc:bundle`. A bundle of the WASI world also
//! gets `wasmtime-wasi` without any access, see `wasi.rs`.
//!
//! Components are compiled when a bundle is loaded, never during a request. Compiled code is not cached on disk: the default
//! policy compiles in about 35 ms, and loading a cache would need `unsafe` and protection of the cache against changes.

use crate::bindings::svc::bundle::{data, documents, log};
use crate::bindings::svc::policy::facts;
use crate::bundle::{BundleError, EngineError, World};
use crate::limits::{
    CORE_INSTANCES_PER_COMPONENT_MAX, INSTANCES_MAX, INSTANCES_MIN, MEMORIES_PER_COMPONENT_MAX,
    MEMORY_BYTES_INLINE, MEMORY_BYTES_KEPT, MEMORY_BYTES_KEPT_LARGE, MEMORY_BYTES_MAX, STACK_BYTES_MAX,
    TABLE_BYTES_KEPT, TABLE_ELEMENTS_MAX, TABLES_PER_COMPONENT_MAX, TICK,
};
use crate::state::State;
use crate::wasi;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};
use wasmtime::{Config, Enabled, Engine, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig};

/// The first bytes of a core module. A component has other ones after `\0asm`.
const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// The process's engines, shared by all bundles. They differ in how an instance's memory is cleared.
#[derive(Clone)]
pub struct PolicyEngine {
    /// For guests that may have [`MEMORY_BYTES_INLINE`] at most. Clearing all that such a guest has takes less time than a search for what it
    /// wrote.
    small: Pooled,
    /// For the others, whose written pages are searched for: without that, a system call drops them, and each causes a page fault again.
    /// Made for the first of them, since it reserves as much address space again.
    large: Arc<Mutex<Option<Pooled>>>,
    room: u32,
}

/// A wasm engine with its instances, and what it links to components.
#[derive(Clone)]
pub(crate) struct Pooled {
    engine: Engine,
    linker: Linker<State>,
}

impl std::fmt::Debug for PolicyEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyEngine").finish_non_exhaustive()
    }
}

impl PolicyEngine {
    /// Engines with room for four concurrent evaluations per hardware thread, at least [`INSTANCES_MIN`] in all. They have room for
    /// fewer where the process's address space is too small, and say so in the log: each evaluation reserves 8 GiB of it.
    pub fn new() -> Result<Self, EngineError> {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let wanted = u32::try_from(threads.saturating_mul(4)).unwrap_or(u32::MAX).max(INSTANCES_MIN);
        at_most(wanted, Self::with_room_for)
    }

    /// Engines with room for `instances` concurrent evaluations each, at most [`INSTANCES_MAX`].
    pub fn with_room_for(instances: u32) -> Result<Self, EngineError> {
        Ok(Self { small: Pooled::new(&pool(instances))?, large: Arc::default(), room: instances })
    }

    /// The engine for a guest that may have this much memory.
    pub(crate) fn for_memory(&self, bytes: usize) -> Result<Pooled, EngineError> {
        if bytes <= MEMORY_BYTES_INLINE {
            return Ok(self.small.clone());
        }
        let mut large = self.large.lock();
        if let Some(large) = &*large {
            return Ok(large.clone());
        }
        let searched = |room| {
            let mut pool = pool(room);
            pool.linear_memory_keep_resident(MEMORY_BYTES_KEPT_LARGE).pagemap_scan(Enabled::Auto);
            Pooled::new(&pool)
        };
        Ok(large.insert(at_most(self.room, searched)?).clone())
    }

    /// An engine with the same limits for one module, without the pool and the clock.
    #[cfg(feature = "snapshot")]
    pub(crate) fn sandbox() -> Result<Engine, EngineError> {
        Engine::new(&config()).map_err(EngineError::Wasmtime)
    }

    /// Whether this is a core module, and not a component.
    #[must_use]
    pub fn is_module(wasm: &[u8]) -> bool {
        wasm.starts_with(CORE_MODULE)
    }
}

impl Pooled {
    fn new(pool: &PoolingAllocationConfig) -> Result<Self, EngineError> {
        let pool = InstanceAllocationStrategy::Pooling(pool.clone());
        let engine = Engine::new(config().allocation_strategy(pool)).map_err(EngineError::Wasmtime)?;
        start_clock(engine.weak()).map_err(EngineError::Clock)?;
        let mut linker = Linker::new(&engine);
        facts::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)
            .and_then(|()| data::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state))
            .and_then(|()| documents::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state))
            .and_then(|()| log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state))
            .map_err(EngineError::Wasmtime)?;
        Ok(Self { engine, linker })
    }

    /// Compiles a component. A panic of the compiler is an error.
    pub(crate) fn compile(&self, wasm: &[u8]) -> Result<Component, BundleError> {
        if PolicyEngine::is_module(wasm) {
            return Err(BundleError::CoreModule);
        }
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

    /// Links a component to the imports of its world.
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

fn config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(STACK_BYTES_MAX)
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        // A component may be linked from modules that have a memory each.
        .wasm_multi_memory(true)
        .wasm_memory64(false)
        // Language runtimes are built with tail calls, which use fuel like other calls.
        .wasm_tail_call(true)
        .gc_support(false)
        .concurrency_support(false)
        .wasm_backtrace_max_frames(None);
    config
}

fn pool(instances: u32) -> PoolingAllocationConfig {
    let instances = instances.min(INSTANCES_MAX);
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

/// What `make` gives with this room, or with half of it, and so on, where the address space has no more.
fn at_most<T>(wanted: u32, make: impl Fn(u32) -> Result<T, EngineError>) -> Result<T, EngineError> {
    let mut room = wanted;
    loop {
        match make(room) {
            Err(EngineError::Wasmtime(_)) if room > 1 => room /= 2,
            made => {
                if room < wanted {
                    tracing::warn!(
                        room,
                        wanted,
                        "the address space has room for few policy evaluations at once"
                    );
                }
                return made;
            }
        }
    }
}

/// Starts a thread that advances wasmtime's epoch by one at each wake-up, so that there is no burst of ticks after a stall. It
/// ends when the engine is dropped.
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
