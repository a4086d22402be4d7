//! `bundle bench`: measures evaluations of the bundle's own vectors.

use crate::bundle::trial::{self, Trial};
use crate::bundle::{Error, source};
use gateway_domain::ids::Hex32;
use gateway_policy::bundle::{Limits, Vector};
use gateway_policy::{Evaluator, PolicyEngine};
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Evaluations of each vector before the timed ones: in production, caches and the instance pool are warm.
const WARM_UP: usize = 50;

/// The report of `bundle bench`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) bundle_id: String,
    pub(crate) bundle_hash: Hex32,
    pub(crate) limits: Limits,
    /// Timed evaluations of each vector.
    pub(crate) rounds: usize,
    /// Time to verify, compile and link the bundle, in microseconds.
    pub(crate) load_us: u64,
    /// One entry for each vector, in order.
    pub(crate) vectors: Vec<Cost>,
    /// Median over all evaluations, nanoseconds.
    pub(crate) p50_ns: u64,
    /// 99th percentile over all evaluations, nanoseconds.
    pub(crate) p99_ns: u64,
}

/// The cost of one vector.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) file: String,
    pub(crate) name: String,
    /// Wasm fuel, the same on every machine.
    pub(crate) fuel: u64,
    /// Peak of linear memory in bytes, the same on every machine.
    pub(crate) memory_bytes: usize,
    /// Median, nanoseconds.
    pub(crate) p50_ns: u64,
    /// 99th percentile, nanoseconds.
    pub(crate) p99_ns: u64,
}

impl Measured {
    /// The most fuel that a vector used.
    #[must_use]
    pub(crate) fn fuel_max(&self) -> u64 {
        self.vectors.iter().map(|cost| cost.fuel).max().unwrap_or(0)
    }

    /// The most memory that a vector used, bytes.
    #[must_use]
    pub(crate) fn memory_bytes_max(&self) -> usize {
        self.vectors.iter().map(|cost| cost.memory_bytes).max().unwrap_or(0)
    }
}

impl ToLines for Measured {
    fn add_to(&self, lines: &mut Lines) {
        lines.add(format_args!("{:>9} {:>10} {:>8} {:>8}  vector", "fuel", "memory B", "p50 us", "p99 us"));
        for Cost { file, name, fuel, memory_bytes, p50_ns, p99_ns } in &self.vectors {
            let (p50, p99) = (us(*p50_ns), us(*p99_ns));
            lines.add(format_args!("{fuel:>9} {memory_bytes:>10} {p50:>8} {p99:>8}  {file}: {name}"));
        }
        let (fuel, memory) = (self.fuel_max(), self.memory_bytes_max());
        lines.add(format_args!("fuel        {fuel} at most, of {}", self.limits.fuel));
        lines.add(format_args!("memory      {memory} bytes at most, of {}", self.limits.memory_bytes));
        lines.add(format_args!("time        p50 {} us, p99 {} us", us(self.p50_ns), us(self.p99_ns)));
        lines.add(format_args!("load        {}.{} ms", self.load_us / 1_000, self.load_us % 1_000 / 100));
    }
}

/// Formats nanoseconds as microseconds with one decimal.
fn us(ns: u64) -> String {
    format!("{}.{}", ns / 1_000, ns % 1_000 / 100)
}

/// Evaluates each vector `rounds` times on one thread, each time with a new instance.
pub(crate) fn bench(path: &Path, rounds: usize) -> Result<Measured, Error> {
    let files = source::read(path)?;
    let engine = PolicyEngine::new()?;
    let started = Instant::now();
    let Trial { bundle, evaluator } = trial::load(&engine, &files)?;
    let load_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let (mut vectors, mut all) = (Vec::new(), Vec::new());
    for (file, vector) in bundle.vectors()? {
        let (fuel, memory_bytes, times) = measure(&evaluator, &file, &vector, rounds)?;
        let (p50_ns, p99_ns) = (percentile(&times, 50), percentile(&times, 99));
        vectors.push(Cost { file, name: vector.name, fuel, memory_bytes, p50_ns, p99_ns });
        all.extend(times);
    }
    all.sort_unstable();
    Ok(Measured {
        bundle_id: bundle.manifest().bundle_id.clone(),
        bundle_hash: bundle.hash(),
        limits: bundle.manifest().limits,
        rounds,
        load_us,
        vectors,
        p50_ns: percentile(&all, 50),
        p99_ns: percentile(&all, 99),
    })
}

/// Evaluates one vector; returns its fuel, its memory, and the times in ascending order.
fn measure(
    evaluator: &Evaluator,
    file: &str,
    vector: &Vector,
    rounds: usize,
) -> Result<(u64, usize, Vec<u64>), Error> {
    let (request, facts) = (vector.request(file)?, evaluator.facts_of(file, vector)?);
    let evaluated = evaluator.evaluate_raw(&request, &facts, evaluator.fuel_max());
    for _ in 0..WARM_UP.min(rounds) {
        let _warm = evaluator.evaluate(&request, &facts, evaluator.fuel_max());
    }
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let started = Instant::now();
        let evaluation = evaluator.evaluate(&request, &facts, evaluator.fuel_max());
        let elapsed: Duration = started.elapsed();
        drop(std::hint::black_box(evaluation));
        times.push(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
    }
    times.sort_unstable();
    Ok((evaluated.fuel_used(), evaluated.memory_bytes(), times))
}

/// The percentile of ascending values by nearest rank; 0 if there are none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentile_is_by_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!((percentile(&hundred, 50), percentile(&hundred, 99)), (50, 99));
        assert_eq!((percentile(&[7], 50), percentile(&[7], 99), percentile(&[], 50)), (7, 7, 0));
        assert_eq!((percentile(&[1, 9], 50), percentile(&[1, 9], 99)), (1, 9));
    }
}
