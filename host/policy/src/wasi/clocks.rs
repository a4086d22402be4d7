//! Time as the request has it.

use super::streams::Pollable;
use super::{Answered, Instance};
use crate::state::State;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lower, Resource};

/// `wasi:clocks/wall-clock.datetime`.
#[derive(ComponentType, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

impl Datetime {
    fn of_ms(ms: u64) -> Self {
        let nanoseconds = u32::try_from(ms % 1_000).unwrap_or(0).saturating_mul(1_000_000);
        Self { seconds: ms / 1_000, nanoseconds }
    }
}

/// The fact `time.now_ms`: asking the clock is asking for the fact. 1970 when the host has no such fact.
pub(super) fn wall(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    match function {
        "now" => instance.func_wrap(function, |mut store: StoreContextMut<'_, State>, (): ()| {
            Ok((Datetime::of_ms(store.data_mut().now_ms()?),))
        })?,
        "resolution" => instance.func_wrap(function, |_, (): ()| Ok((Datetime::of_ms(1),)))?,
        _ => return Ok(Answered::No),
    }
    Ok(Answered::Yes)
}

/// It stands still: how long something took is not a property of the request. To wait is to have waited.
pub(super) fn monotonic(instance: &mut Instance<'_>, function: &str) -> wasmtime::Result<Answered> {
    match function {
        "now" => instance.func_wrap(function, |_, (): ()| Ok((0_u64,)))?,
        "resolution" => instance.func_wrap(function, |_, (): ()| Ok((1_u64,)))?,
        "subscribe-instant" | "subscribe-duration" => {
            instance.func_wrap(function, |_, (_,): (u64,)| Ok((Resource::<Pollable>::new_own(0),)))?;
        }
        _ => return Ok(Answered::No),
    }
    Ok(Answered::Yes)
}
