//! What the benchmarks of the store share: two stores, a small and a large one, are measured in turns.

use gateway_engine::ports::{Committed, Record};
use std::error::Error;

pub(crate) type Measured<T> = Result<T, Box<dyn Error + Send + Sync>>;

pub(crate) const SMALL: u64 = 1_000;
pub(crate) const LARGE: u64 = 1_000_000;

/// The program's arguments. `cargo bench` adds `--bench`.
pub(crate) fn arguments() -> Vec<String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench").collect()
}

/// The next number of a fixed sequence, of which the high bits are random.
pub(crate) const fn next_random(random: u64) -> u64 {
    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

pub(crate) fn written(committed: Committed) -> Measured<Record> {
    match committed {
        Committed::Written(record) => Ok(*record),
        Committed::Conflict => Err("a commit had a version conflict".into()),
    }
}

/// Prints a line for each kind of measurement: microseconds of the small store and of the large one.
pub(crate) fn print_ratios(kinds: &[&str], times: &mut [[Vec<f64>; 2]], n_rounds: u64) {
    println!("{n_rounds} rounds; median (90th percentile), microseconds: small, large");
    for (name, [small, large]) in kinds.iter().zip(times) {
        let ((small, small_90), (large, large_90)) = (quantiles(small), quantiles(large));
        let ratio = large / small;
        println!("  {name:40} {small:8.1} ({small_90:.1}) {large:10.1} ({large_90:.1})   ratio {ratio:.2}");
    }
}

/// The median and the 90th percentile.
fn quantiles(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |tenths: usize| values.get(values.len() * tenths / 10).copied().unwrap_or_default();
    (at(5), at(9))
}
