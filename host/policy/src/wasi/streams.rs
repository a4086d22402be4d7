//! Handles that stand for nothing: an input at its end, outputs that nobody reads, waits that are over.

use super::{Answered, Instance};
use wasmtime::component::{ComponentType, Lift, Lower, Resource, ResourceType, WasmList};

/// Handles carry no number that means anything: there is nothing behind one to tell apart.
pub(super) struct InputStream;
pub(super) struct OutputStream;
pub(super) struct Pollable;
pub(super) struct Failure;
pub(super) struct Descriptor;
pub(super) struct DirectoryEntries;
pub(super) struct Terminal<const INPUT: bool>;

/// `wasi:io/streams.stream-error`, in its whole shape. Nothing here fails, so only the end is ever said.
#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<Failure>),
    #[component(name = "closed")]
    Closed,
}

type Streamed<T> = Result<T, StreamError>;

/// How much an output says it takes at a time.
const WRITE_BYTES_MAX: u64 = 64 << 10;

/// Defines a resource by its WASI name. Letting go of one does nothing.
pub(super) fn resource(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<()> {
    let kind = match name {
        "input-stream" => ResourceType::host::<InputStream>(),
        "output-stream" => ResourceType::host::<OutputStream>(),
        "pollable" => ResourceType::host::<Pollable>(),
        "descriptor" => ResourceType::host::<Descriptor>(),
        "directory-entry-stream" => ResourceType::host::<DirectoryEntries>(),
        "terminal-input" => ResourceType::host::<Terminal<true>>(),
        "terminal-output" => ResourceType::host::<Terminal<false>>(),
        // `error`; and a name WASI does not have fits no function that is given.
        _ => ResourceType::host::<Failure>(),
    };
    instance.resource(name, kind, |_, _| Ok(()))
}

pub(super) fn streams(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    if let Some(method) = function.strip_prefix("[method]input-stream.") {
        return input(instance, function, method);
    }
    match function.strip_prefix("[method]output-stream.") {
        Some(method) => output(instance, function, method),
        None => Ok(Answered::No),
    }
}

fn input(instance: &mut Instance<'_>, function: &str, method: &str) -> wasmtime::Result<Answered> {
    type Read = (Resource<InputStream>, u64);
    match method {
        "read" | "blocking-read" => instance
            .func_wrap(function, |_, (_, _): Read| Ok((Streamed::<Vec<u8>>::Err(StreamError::Closed),)))?,
        "skip" | "blocking-skip" => {
            instance
                .func_wrap(function, |_, (_, _): Read| Ok((Streamed::<u64>::Err(StreamError::Closed),)))?;
        }
        "subscribe" => instance.func_wrap(function, |_, (_,): (Resource<InputStream>,)| {
            Ok((Resource::<Pollable>::new_own(0),))
        })?,
        _ => return Ok(Answered::No),
    }
    Ok(Answered::Yes)
}

/// What is written is not even copied out of the guest, so a flood of it costs the guest its fuel, and the host nothing.
fn output(instance: &mut Instance<'_>, function: &str, method: &str) -> wasmtime::Result<Answered> {
    match method {
        "check-write" => instance
            .func_wrap(function, |_, (_,): (Resource<OutputStream>,)| Ok((Streamed::Ok(WRITE_BYTES_MAX),)))?,
        "write" | "blocking-write-and-flush" => instance
            .func_wrap(function, |_, (_, _): (Resource<OutputStream>, WasmList<u8>)| {
                Ok((Streamed::Ok(()),))
            })?,
        "write-zeroes" | "blocking-write-zeroes-and-flush" => instance
            .func_wrap(function, |_, (_, _): (Resource<OutputStream>, u64)| Ok((Streamed::Ok(()),)))?,
        "flush" | "blocking-flush" => {
            instance.func_wrap(function, |_, (_,): (Resource<OutputStream>,)| Ok((Streamed::Ok(()),)))?
        }
        "subscribe" => instance.func_wrap(function, |_, (_,): (Resource<OutputStream>,)| {
            Ok((Resource::<Pollable>::new_own(0),))
        })?,
        _ => return Ok(Answered::No),
    }
    Ok(Answered::Yes)
}

/// Everything waited for has happened.
pub(super) fn poll(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    match function {
        "[method]pollable.ready" => {
            instance.func_wrap(function, |_, (_,): (Resource<Pollable>,)| Ok((true,)))?;
        }
        "[method]pollable.block" => {
            instance.func_wrap(function, |_, (_,): (Resource<Pollable>,)| Ok(()))?;
        }
        "poll" => instance.func_wrap(function, |_, (waits,): (Vec<Resource<Pollable>>,)| {
            let all = 0..u32::try_from(waits.len()).unwrap_or(u32::MAX);
            Ok((all.collect::<Vec<_>>(),))
        })?,
        _ => return Ok(Answered::No),
    }
    Ok(Answered::Yes)
}
