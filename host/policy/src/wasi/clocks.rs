//! Clocks that depend only on the request.

use crate::state::State;
use wasmtime::component::Resource;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

/// The wall clock shows the fact `time.now_ms`, or 1970 if there is no such fact. Reading the clock reads the fact: it is
/// recorded, and a bundle that does not declare the fact is stopped.
impl wall_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        Ok(datetime(self.now_ms()?))
    }

    fn resolution(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        Ok(datetime(1))
    }
}

fn datetime(ms: u64) -> wall_clock::Datetime {
    let nanoseconds = u32::try_from(ms % 1_000).unwrap_or(0).saturating_mul(1_000_000);
    wall_clock::Datetime { seconds: ms / 1_000, nanoseconds }
}

/// The monotonic clock is always 0, since elapsed time is not a property of the request. A wait ends immediately.
impl monotonic_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<monotonic_clock::Instant> {
        Ok(0)
    }

    fn resolution(&mut self) -> wasmtime::Result<monotonic_clock::Duration> {
        Ok(1)
    }

    fn subscribe_instant(
        &mut self,
        _when: monotonic_clock::Instant,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        let table = &mut self.wasi().table;
        let elapsed = table.push(Elapsed)?;
        subscribe(table, elapsed)
    }

    fn subscribe_duration(
        &mut self,
        _duration: monotonic_clock::Duration,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        self.subscribe_instant(0)
    }
}

struct Elapsed;

#[async_trait]
impl Pollable for Elapsed {
    async fn ready(&mut self) {}
}
