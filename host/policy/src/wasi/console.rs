//! What a program asks about the place it runs in: nothing is set, nothing is mounted, nobody watches.

use super::streams::{Descriptor, InputStream, OutputStream, Terminal};
use super::{Answered, Instance};
use crate::fault::{EvaluationFault, Stopped};
use wasmtime::component::Resource;

pub(super) fn environment(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    match function {
        "get-environment" => {
            instance.func_wrap(function, |_, (): ()| Ok((Vec::<(String, String)>::new(),)))?
        }
        "get-arguments" => instance.func_wrap(function, |_, (): ()| Ok((Vec::<String>::new(),)))?,
        "initial-cwd" => instance.func_wrap(function, |_, (): ()| Ok((None::<String>,)))?,
        _ => return Ok(Answered::No),
    }
    Ok(Answered::Yes)
}

/// A policy that leaves has given no verdict, whatever status it leaves with.
pub(super) fn exit(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    let left = || wasmtime::Error::from(Stopped(EvaluationFault::Trap));
    match function {
        "exit" => instance.func_wrap(function, move |_, (_,): (Result<(), ()>,)| Err::<(), _>(left()))?,
        "exit-with-code" => instance.func_wrap(function, move |_, (_,): (u8,)| Err::<(), _>(left()))?,
        _ => return Ok(Answered::No),
    }
    Ok(Answered::Yes)
}

pub(super) fn stdin(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    if function != "get-stdin" {
        return Ok(Answered::No);
    }
    instance.func_wrap(function, |_, (): ()| Ok((Resource::<InputStream>::new_own(0),)))?;
    Ok(Answered::Yes)
}

pub(super) fn outputs(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    if !matches!(function, "get-stdout" | "get-stderr") {
        return Ok(Answered::No);
    }
    instance.func_wrap(function, |_, (): ()| Ok((Resource::<OutputStream>::new_own(0),)))?;
    Ok(Answered::Yes)
}

pub(super) fn terminals(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    match function {
        "get-terminal-stdin" => {
            instance.func_wrap(function, |_, (): ()| Ok((None::<Resource<Terminal<true>>>,)))?;
        }
        "get-terminal-stdout" | "get-terminal-stderr" => {
            instance.func_wrap(function, |_, (): ()| Ok((None::<Resource<Terminal<false>>>,)))?;
        }
        _ => return Ok(Answered::No),
    }
    Ok(Answered::Yes)
}

pub(super) fn preopens(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    if function != "get-directories" {
        return Ok(Answered::No);
    }
    instance.func_wrap(function, |_, (): ()| Ok((Vec::<(Resource<Descriptor>, String)>::new(),)))?;
    Ok(Answered::Yes)
}
