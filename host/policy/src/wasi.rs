//! The WASI that a `policy-wasi` bundle finds: all there, and nothing in it.
//!
//! The runtimes of some languages cannot start without WASI. So these interfaces are answered, and each answer is what
//! a program would hear in an empty room: no environment, no arguments, no folder, an input that has ended, an output
//! that nobody reads. What has to be a number is a pure function of the request: the wall clock is the fact
//! `time.now_ms`, recorded as any fact that is read; the monotonic clock stands still; randomness follows from the
//! hash of the request. The same request gives the same bytes and the same fuel.
//!
//! The answers are our own rather than `wasmtime-wasi`'s with nothing granted: there is no code here that could open a
//! file or a socket, so nothing that a wrong setting could let out (ADR 0015).

mod clocks;
mod console;
mod randomness;
mod streams;

pub(crate) use randomness::Randomness;

use crate::fault::{EvaluationFault, Stopped};
use crate::state::State;
use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, LinkerInstance};

/// Every interface there is, with what it answers. Sockets and HTTP are not among them: a runtime that insists on a
/// network is refused when it is loaded, not when it first tries.
const INTERFACES: [(&str, Answers); 20] = [
    ("wasi:cli/environment", console::environment),
    ("wasi:cli/exit", console::exit),
    ("wasi:cli/stderr", console::outputs),
    ("wasi:cli/stdin", console::stdin),
    ("wasi:cli/stdout", console::outputs),
    ("wasi:cli/terminal-input", nothing),
    ("wasi:cli/terminal-output", nothing),
    ("wasi:cli/terminal-stderr", console::terminals),
    ("wasi:cli/terminal-stdin", console::terminals),
    ("wasi:cli/terminal-stdout", console::terminals),
    ("wasi:clocks/monotonic-clock", clocks::monotonic),
    ("wasi:clocks/wall-clock", clocks::wall),
    ("wasi:filesystem/preopens", console::preopens),
    // Without a folder there is no descriptor to call any of it on.
    ("wasi:filesystem/types", nothing),
    ("wasi:io/error", nothing),
    ("wasi:io/poll", streams::poll),
    ("wasi:io/streams", streams::streams),
    ("wasi:random/insecure", randomness::random),
    ("wasi:random/insecure-seed", randomness::seed),
    ("wasi:random/random", randomness::random),
];

type Instance<'a> = LinkerInstance<'a, State>;

/// Defines one function of an interface, or says that it has no answer.
type Answers = fn(&mut Instance<'_>, &str) -> wasmtime::Result<Answered>;

/// Whether a function of an interface was defined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answered {
    Yes,
    No,
}

/// Whether a policy of the WASI world is given this import: an interface above, of any version that is compatible
/// with 0.2.
pub(crate) fn is_given(import: &str) -> bool {
    answers(import).is_some()
}

fn answers(import: &str) -> Option<Answers> {
    let (interface, version) = import.split_once('@')?;
    let (_, answers) = INTERFACES.iter().find(|(known, _)| *known == interface)?;
    version.starts_with("0.2.").then_some(*answers)
}

/// Defines what `component` asks for, and no more, under the very names it uses.
///
/// # Errors
/// When an interface is not shaped as WASI 0.2 has it.
pub(crate) fn link(
    linker: &mut Linker<State>,
    engine: &Engine,
    component: &Component,
) -> wasmtime::Result<()> {
    for (import, item) in component.component_type().imports(engine) {
        let (Some(answers), ComponentItem::ComponentInstance(interface)) = (answers(import), item.ty) else {
            continue;
        };
        let mut instance = linker.instance(import)?;
        for (name, item) in interface.exports(engine) {
            match item.ty {
                ComponentItem::Resource(_) => streams::resource(&mut instance, name)?,
                ComponentItem::ComponentFunc(_) => {
                    if answers(&mut instance, name)? == Answered::No {
                        unanswered(&mut instance, name)?;
                    }
                }
                // Types define nothing; modules and components no WASI interface has, and linking refuses them.
                ComponentItem::CoreFunc(_)
                | ComponentItem::Module(_)
                | ComponentItem::Component(_)
                | ComponentItem::ComponentInstance(_)
                | ComponentItem::Type(_) => {}
            }
        }
    }
    Ok(())
}

/// An interface whose functions cannot be reached by anything that is given.
fn nothing(_: &mut Instance<'_>, _: &str) -> wasmtime::Result<Answered> {
    Ok(Answered::No)
}

/// The guest is stopped if it calls it all the same.
fn unanswered(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<()> {
    instance.func_new(function, |_, _, _, _| Err(Stopped(EvaluationFault::NotGiven).into()))
}
