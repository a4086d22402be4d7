//! Policy engines in process, compared with the default policy as a native Rust function: one request, evaluated in five ways.
//! `cargo bench -p gateway-policy --bench evaluation` compares the same function with the isolated policy.
//!
//! ```sh
//! cargo run --release --locked --manifest-path scripts/compare/Cargo.toml
//! ```
//!
//! Every engine starts from the gateway's own form of the request and ends with a decision, so building an engine's input
//! is in its time. The engines of a group take turns within each round, so that a busy machine slows them alike; read the
//! ratios. Before the measurement each must allow the payment, and deny it to another recipient.
//!
//! Cedar evaluates `bundles/cedar-example`, the others the default policy: compare Cedar with Cedar. Engines that parse in
//! each evaluation are a separate group, since they leave cold caches behind.

mod case;
mod cedar;
mod native;
mod rego;

use case::Case;
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The rounds of a group end after this time.
const TIME_MAX: Duration = Duration::from_secs(20);
const ROUNDS_MAX: usize = 20_000;

/// Whether the policy allows the payment.
type Allowed = Result<bool, Box<dyn Error>>;

trait Runner {
    fn name(&self) -> String;

    fn evaluate(&self, case: &Case) -> Allowed;
}

fn main() -> Result<(), Box<dyn Error>> {
    let (native, parsed) = (native::Native::new(), cedar::Parsed::new()?);
    // The first of each group is the baseline.
    measure(&[&native, &rego::Interpreted::new()?, &rego::Compiled::new()?, &parsed])?;
    measure(&[&native, &parsed, &cedar::ParsedEachTime])
}

fn measure(runners: &[&dyn Runner]) -> Result<(), Box<dyn Error>> {
    let (case, forbidden) = (Case::to("acct-2")?, Case::to("acct-9")?);
    for runner in runners {
        check(*runner, &case, true)?;
        check(*runner, &forbidden, false)?;
    }
    let mut columns: Vec<_> = runners.iter().map(|runner| (*runner, Vec::new())).collect();
    let started = Instant::now();
    let mut n_rounds = 0;
    while n_rounds < ROUNDS_MAX && started.elapsed() < TIME_MAX {
        for (runner, times_ns) in &mut columns {
            let before = Instant::now();
            let allows = black_box(runner.evaluate(black_box(&case))?);
            times_ns.push(before.elapsed().as_nanos());
            if !allows {
                return Err(format!("{} decided differently", runner.name()).into());
            }
        }
        n_rounds += 1;
    }
    print(columns, n_rounds);
    Ok(())
}

fn check(runner: &dyn Runner, case: &Case, is_due: bool) -> Result<(), Box<dyn Error>> {
    let word = |allows| if allows { "ALLOW" } else { "DENY" };
    let (decision, expected) = (word(runner.evaluate(case)?), word(is_due));
    if decision == expected {
        println!("{expected} as expected: {}", runner.name());
        return Ok(());
    }
    Err(format!("{}: {decision} instead of {expected}", runner.name()).into())
}

fn print(columns: Vec<(&dyn Runner, Vec<u128>)>, n_rounds: usize) {
    println!("medians of {n_rounds} rounds, and the ratio to the first");
    let mut first_us = None;
    for (runner, times_ns) in columns {
        let median_us = median_us(times_ns);
        let ratio = median_us / *first_us.get_or_insert(median_us);
        println!("  {:58} {median_us:9.2} us {ratio:9.3}", runner.name());
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of milliseconds")]
fn median_us(mut times_ns: Vec<u128>) -> f64 {
    times_ns.sort_unstable();
    times_ns.get(times_ns.len() / 2).copied().unwrap_or_default() as f64 / 1e3
}
