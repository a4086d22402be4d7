//! Initializes a policy's module when its bundle is built, so that evaluations need not.
//!
//! A module that exports [`INITIALIZE`] is instantiated in the sandbox, reads the bundle's data, and its memory after that becomes the
//! initial memory of the module in the bundle (Wizer). The same module and data give the same bytes.

use crate::PolicyEngine;
use crate::bindings::svc::bundle::data::Host as _;
use crate::bundle::{BundleError, BundleFiles, EngineError};
use crate::data::Data;
use crate::fact_names::FactNames;
use crate::limits::{FUEL_INITIALIZE, MEMORY_BYTES_MAX};
use crate::state::{Contents, State};
use gateway_domain::policy::Facts;
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use wasmtime::{Caller, Extern, Instance, Linker, Memory, Module, Store, Trap, Val};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

/// The export of a core module that `bundle build` calls once: it takes no arguments, and returns 0 or the address of the fault, two
/// numbers of 32 bits: address and length in bytes of a text in UTF-8. It may read the bundle's data, and no facts.
pub const INITIALIZE: &str = "initialize-policy";

/// Why a module cannot be initialized.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A file under `data/` is not valid.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The sandbox cannot start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The policy refuses the bundle's data.
    #[error("the policy cannot be used: {0}")]
    Refused(String),
    /// Its calls were nested too deeply.
    #[error(
        "the policy ran out of stack while it read the bundle's data: a text under `data/` has too many nested parentheses, or an \
         expression of too many parts"
    )]
    Stack(#[source] wasmtime::Error),
    /// It used more fuel or memory than it may, or stopped for another reason.
    #[error("the policy stopped while it read the bundle's data{}", written.as_deref().map(|text| format!(": it wrote `{text}`")).unwrap_or_default())]
    Stopped {
        /// What it wrote, such as the message of a panic.
        written: Option<String>,
        /// Why it stopped.
        source: wasmtime::Error,
    },
    /// Not a module that can be initialized.
    #[error("the module cannot be initialized")]
    Module(#[source] wasmtime::Error),
}

/// The module after its initialization with the bundle's data; the module itself if it does not export [`INITIALIZE`].
///
/// # Errors
/// [`SnapshotError`].
pub fn initialized<'a>(module: &'a [u8], files: &BundleFiles) -> Result<Cow<'a, [u8]>, SnapshotError> {
    let engine = PolicyEngine::sandbox()?;
    let mut wizer = Wizer::new();
    wizer.init_func(INITIALIZE);
    let (context, instrumented) = wizer.instrument(module).map_err(SnapshotError::Module)?;
    let compiled = Module::new(&engine, &instrumented).map_err(SnapshotError::Module)?;
    if compiled.get_export(INITIALIZE).is_none() {
        return Ok(Cow::Borrowed(module));
    }
    let contents = Contents { data: Data::new(files.documents()?), fact_names: FactNames::new(Vec::new()) };
    let mut store = Store::new(&engine, State::new(Facts::default(), Arc::new(contents), MEMORY_BYTES_MAX));
    store.limiter(|state| state);
    store.set_epoch_deadline(u64::MAX);
    store.set_fuel(FUEL_INITIALIZE).map_err(SnapshotError::Module)?;
    let instance = link(&compiled, &mut store).map_err(SnapshotError::Module)?;
    let fault = initialize(&instance, &mut store).map_err(|fault| stopped(fault, store.data()))?;
    if let Some(fault) = fault {
        return Err(SnapshotError::Refused(fault));
    }
    let mut after = Initialized { instance, store };
    ready(wizer.snapshot(&context, &mut after)).map(Cow::Owned).map_err(SnapshotError::Module)
}

/// Stack overflows of the engine, or of the module's own stack, which the linker places below all other memory.
fn stopped(fault: wasmtime::Error, state: &State) -> SnapshotError {
    match fault.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow | Trap::MemoryOutOfBounds) => SnapshotError::Stack(fault),
        _ => SnapshotError::Stopped { written: state.written(), source: fault },
    }
}

/// Instantiates the module with the bundle's data and a log; every other import traps.
fn link(module: &Module, store: &mut Store<State>) -> wasmtime::Result<Instance> {
    let mut linker = Linker::new(store.engine());
    for import in module.imports() {
        let interface = import.module().split('@').next().unwrap_or_default();
        match (interface, import.name()) {
            ("svc:bundle/data", "get") => linker.func_wrap(import.module(), import.name(), data_get)?,
            ("svc:bundle/log", "write") => linker.func_wrap(import.module(), import.name(), log_write)?,
            _ => &mut linker,
        };
    }
    linker.define_unknown_imports_as_traps(module)?;
    linker.instantiate(store, module)
}

/// Calls the module's initialization. Returns the fault that it gives.
fn initialize(instance: &Instance, store: &mut Store<State>) -> wasmtime::Result<Option<String>> {
    let fault = instance.get_typed_func::<(), u32>(&mut *store, INITIALIZE)?.call(&mut *store, ())?;
    if fault == 0 {
        return Ok(None);
    }
    let memory = instance.get_memory(&mut *store, "memory").ok_or_else(no_memory)?;
    let memory = memory.data(&store);
    text(memory, number(memory, fault)?, number(memory, fault.saturating_add(4))?).map(Some)
}

/// `data.get` as a core module imports it: `func(file: string, pointer: string) -> option<string>` in the canonical ABI.
fn data_get(
    mut caller: Caller<'_, State>,
    file: u32,
    file_bytes: u32,
    pointer: u32,
    pointer_bytes: u32,
    result: u32,
) -> wasmtime::Result<()> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory).ok_or_else(no_memory)?;
    let file = text(memory.data(&caller), file, file_bytes)?;
    let pointer = text(memory.data(&caller), pointer, pointer_bytes)?;
    let Some(value) = caller.data_mut().get(file, pointer)? else {
        return write(&memory, &mut caller, result, &[0]);
    };
    let bytes = u32::try_from(value.len())?;
    let allocate = caller.get_export("cabi_realloc").and_then(Extern::into_func);
    let allocate = allocate.ok_or_else(|| wasmtime::Error::msg("the module has no `cabi_realloc`"))?;
    let allocate = allocate.typed::<(u32, u32, u32, u32), u32>(&caller)?;
    let address = allocate.call(&mut caller, (0, 0, 1, bytes))?;
    write(&memory, &mut caller, address, value.as_bytes())?;
    write(&memory, &mut caller, result, &[1])?;
    write(&memory, &mut caller, result.saturating_add(4), &address.to_le_bytes())?;
    write(&memory, &mut caller, result.saturating_add(8), &bytes.to_le_bytes())
}

/// `log.write` as a core module imports it: `func(text: string)`.
fn log_write(mut caller: Caller<'_, State>, at: u32, bytes: u32) -> wasmtime::Result<()> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory).ok_or_else(no_memory)?;
    let text = text(memory.data(&caller), at, bytes)?;
    caller.data_mut().write(text.as_bytes());
    Ok(())
}

fn write(memory: &Memory, caller: &mut Caller<'_, State>, at: u32, bytes: &[u8]) -> wasmtime::Result<()> {
    Ok(memory.write(caller, usize::try_from(at)?, bytes)?)
}

fn number(memory: &[u8], at: u32) -> wasmtime::Result<u32> {
    let bytes = memory.get(usize::try_from(at)?..).and_then(<[u8]>::first_chunk);
    bytes.map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(beyond)
}

fn text(memory: &[u8], at: u32, bytes: u32) -> wasmtime::Result<String> {
    let text = memory.get(usize::try_from(at)?..).and_then(|rest| rest.get(..usize::try_from(bytes).ok()?));
    Ok(String::from_utf8(text.ok_or_else(beyond)?.to_vec())?)
}

fn beyond() -> wasmtime::Error {
    wasmtime::Error::msg("an address is beyond the module's memory")
}

fn no_memory() -> wasmtime::Error {
    wasmtime::Error::msg("the module exports no `memory`")
}

/// The instance after its initialization, for Wizer to read.
struct Initialized {
    instance: Instance,
    store: Store<State>,
}

impl InstanceState for Initialized {
    #[expect(
        clippy::panic,
        reason = "Wizer exports the globals that it asks for, and refuses those of other types"
    )]
    async fn global_get(&mut self, name: &str, _: ValType) -> SnapshotVal {
        let global = self.instance.get_global(&mut self.store, name);
        match global.map(|global| global.get(&mut self.store)) {
            Some(Val::I32(value)) => SnapshotVal::I32(value),
            Some(Val::I64(value)) => SnapshotVal::I64(value),
            Some(Val::F32(value)) => SnapshotVal::F32(value),
            Some(Val::F64(value)) => SnapshotVal::F64(value),
            Some(Val::V128(value)) => SnapshotVal::V128(value.as_u128()),
            _ => panic!("no global `{name}` of numbers"),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        let memory = self.instance.get_memory(&mut self.store, name);
        contents(memory.map_or(&[], |memory| memory.data(&self.store)));
    }
}

/// The output of a future that never waits.
#[expect(clippy::panic, reason = "Wizer waits only for `Initialized`, which never waits")]
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the snapshot waits"),
    }
}
