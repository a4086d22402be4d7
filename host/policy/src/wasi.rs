//! WASI 0.2 for bundles of the `policy-wasi` world: `wasmtime-wasi` without any access.
//!
//! The runtimes of some languages cannot start without WASI. They get `wasmtime-wasi`'s default context: no environment,
//! arguments, preopened directories or terminals, and a closed standard input. Sockets and HTTP are not linked.
//!
//! Three parts are implemented here: clocks and randomness, so that an evaluation depends only on its request (ADR 15), and
//! output streams, so that output costs the host no time.
//!
//! `wasmtime-wasi` blocks on a tokio runtime, which panics on a thread that runs one. [`run_blocking`] avoids that.

mod clocks;
mod context;
mod random;

pub(crate) use context::Wasi;

use crate::fault::Stopped;
use crate::state::State;
use gateway_domain::policy::FaultKind;
use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::thread;
use tokio::runtime::{Builder, Handle, Runtime};
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, HasSelf, Linker, LinkerInstance, Resource, ResourceTable, WasmList};
use wasmtime::{Engine, StoreContextMut};
use wasmtime_wasi::cli::WasiCli;
use wasmtime_wasi::filesystem::WasiFilesystem;
use wasmtime_wasi::p2::bindings::sync::io::streams::StreamError;
use wasmtime_wasi::p2::bindings::{cli, clocks as wasi_clocks, filesystem, random as wasi_random, sync};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream};

/// The interfaces that a component of the WASI world may import.
const INTERFACES: [&str; 20] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
];

/// The version under which `wasmtime-wasi` defines its interfaces. A component may import them in a compatible version.
const VERSION: &str = "0.2.12";

/// Whether a component of the WASI world may import this: one of the interfaces above, in a version 0.2.x.
pub(crate) fn is_provided(import: &str) -> bool {
    interface(import).is_some()
}

fn interface(import: &str) -> Option<&str> {
    let (interface, version) = import.split_once('@')?;
    (INTERFACES.contains(&interface) && version.starts_with("0.2.")).then_some(interface)
}

/// Links the interfaces above. If `component` imports a function that the linked version does not have, calling it stops the
/// evaluation with [`FaultKind::NotGiven`].
///
/// # Errors
/// When a name is defined twice.
pub(crate) fn link(
    linker: &mut Linker<State>,
    engine: &Engine,
    component: &Component,
) -> wasmtime::Result<()> {
    cli::environment::add_to_linker::<State, WasiCli>(linker, |state| state.wasi().cli())?;
    cli::exit::add_to_linker::<State, WasiCli>(linker, |state| state.wasi().cli())?;
    cli::stderr::add_to_linker::<State, WasiCli>(linker, |state| state.wasi().cli())?;
    cli::stdin::add_to_linker::<State, WasiCli>(linker, |state| state.wasi().cli())?;
    cli::stdout::add_to_linker::<State, WasiCli>(linker, |state| state.wasi().cli())?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(linker, |state| state.wasi().cli())?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(linker, |state| state.wasi().cli())?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(linker, |state| state.wasi().cli())?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(linker, |state| state.wasi().cli())?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(linker, |state| state.wasi().cli())?;
    filesystem::preopens::add_to_linker::<State, WasiFilesystem>(linker, |state| state.wasi().filesystem())?;
    sync::filesystem::types::add_to_linker::<State, WasiFilesystem>(linker, |state| {
        state.wasi().filesystem()
    })?;
    type Table = HasSelf<ResourceTable>;
    sync::io::error::add_to_linker::<State, Table>(linker, |state| &mut state.wasi().table)?;
    sync::io::poll::add_to_linker::<State, Table>(linker, |state| &mut state.wasi().table)?;
    sync::io::streams::add_to_linker::<State, Table>(linker, |state| &mut state.wasi().table)?;
    wasi_clocks::monotonic_clock::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    wasi_clocks::wall_clock::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    wasi_random::insecure::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    wasi_random::insecure_seed::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    wasi_random::random::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    take_output(linker)?;
    stop_at_unknown_functions(linker, engine, component)
}

/// Accepts all writes. Copies no more of them from the guest than a fault shows, so that much output uses the guest's fuel and not the
/// host's time. Splicing would copy, so it stops the evaluation.
fn take_output(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Output = Resource<DynOutputStream>;
    type Written = Result<(), StreamError>;
    const ACCEPTED: Written = Ok(());
    linker.allow_shadowing(true);
    let mut streams = linker.instance(&format!("wasi:io/streams@{VERSION}"))?;
    for write in ["write", "blocking-write-and-flush"] {
        let name = format!("[method]output-stream.{write}");
        streams.func_wrap(
            &name,
            |mut store: StoreContextMut<'_, State>, (_, bytes): (Output, WasmList<u8>)| {
                let room = store.data().room();
                let kept: Vec<_> = bytes.as_le_slice(&store).iter().take(room).copied().collect();
                store.data_mut().write(&kept);
                Ok((ACCEPTED,))
            },
        )?;
    }
    for write in ["write-zeroes", "blocking-write-zeroes-and-flush"] {
        let name = format!("[method]output-stream.{write}");
        streams.func_wrap(&name, |_, (_, _): (Output, u64)| Ok((ACCEPTED,)))?;
    }
    for splice in ["splice", "blocking-splice"] {
        let name = format!("[method]output-stream.{splice}");
        streams.func_wrap(&name, move |_, (_, _, _): (Output, Resource<DynInputStream>, u64)| {
            Err::<(Result<u64, StreamError>,), _>(Stopped::new(FaultKind::NotGiven, splice).into())
        })?;
    }
    linker.allow_shadowing(false);
    Ok(())
}

fn stop_at_unknown_functions(
    linker: &mut Linker<State>,
    engine: &Engine,
    component: &Component,
) -> wasmtime::Result<()> {
    for (import, item) in component.component_type().imports(engine) {
        let (Some(interface), ComponentItem::ComponentInstance(imported)) = (interface(import), item.ty)
        else {
            continue;
        };
        let mut instance: LinkerInstance<'_, State> = linker.instance(&format!("{interface}@{VERSION}"))?;
        for (name, item) in imported.exports(engine) {
            if let ComponentItem::ComponentFunc(_) = item.ty {
                // Fails for a function that is defined already.
                let named = format!("{interface}/{name}");
                let _is_defined = instance.func_new(name, move |_, _, _, _| {
                    Err(Stopped::new(FaultKind::NotGiven, named.clone()).into())
                });
            }
        }
    }
    Ok(())
}

/// Runs `work` where it may block: on this thread, or on a new one if this thread belongs to a tokio runtime.
///
/// `work` gets the context of a runtime without threads, timers or I/O, since everything that a guest can wait for is ready.
pub(crate) fn run_blocking<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| Builder::new_current_thread().build().ok());
    let work = || {
        let _context = RUNTIME.as_ref().map(Runtime::enter);
        work()
    };
    if Handle::try_current().is_err() {
        return work();
    }
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}
