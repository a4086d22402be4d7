//! Functions that take turns within each round, so that a busy machine slows them alike: read the ratios.

use std::error::Error;
use std::time::{Duration, Instant};

/// The rounds end after this time.
const TIME_MAX: Duration = Duration::from_secs(2);
const ROUNDS_MAX: usize = 20_000;

type Run<'a> = Box<dyn FnMut() -> Result<(), Box<dyn Error>> + 'a>;

/// A function and the times that it took.
pub(crate) struct Column<'a> {
    name: &'static str,
    run: Run<'a>,
    times_ns: Vec<u128>,
}

impl<'a> Column<'a> {
    pub(crate) fn new(name: &'static str, run: impl FnMut() -> Result<(), Box<dyn Error>> + 'a) -> Self {
        Self { name, run: Box::new(run), times_ns: Vec::new() }
    }
}

/// Measures them, and prints the median of each and its ratio to the first.
pub(crate) fn in_turns(columns: &mut [Column<'_>]) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let mut n_rounds = 0;
    while n_rounds < ROUNDS_MAX && started.elapsed() < TIME_MAX {
        for Column { run, times_ns, .. } in &mut *columns {
            let before = Instant::now();
            run()?;
            times_ns.push(before.elapsed().as_nanos());
        }
        n_rounds += 1;
    }
    println!("medians of {n_rounds} rounds, and the ratio to the first");
    let mut first_us = None;
    for Column { name, times_ns, .. } in columns {
        let median_us = median_us(times_ns);
        println!("  {name:44} {median_us:9.2} us {:9.3}", median_us / *first_us.get_or_insert(median_us));
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of milliseconds")]
fn median_us(times_ns: &mut [u128]) -> f64 {
    times_ns.sort_unstable();
    times_ns.get(times_ns.len() / 2).copied().unwrap_or_default() as f64 / 1e3
}
