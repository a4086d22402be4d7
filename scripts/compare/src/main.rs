//! The cost of isolation compared with policy engines in process: one request, evaluated in seven ways.
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
mod isolated;
mod native;
mod rego;

use case::Case;
use gateway_policy::PolicyEngine;
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The rounds of a group end after this time.
const TIME_MAX: Duration = Duration::from_secs(20);
const ROUNDS_MAX: usize = 20_000;

/// Whether the payment is allowed.
type Answer = Result<bool, Box<dyn Error>>;

trait Judge {
    fn name(&self) -> String;

    fn judge(&self, case: &Case) -> Answer;
}

fn main() -> Result<(), Box<dyn Error>> {
    let engine = PolicyEngine::new()?;
    let isolated = isolated::Isolated::load(&engine, "payment-guard")?;
    let parsed = cedar::Parsed::new()?;
    // The first of each group is the baseline.
    measure(&[
        &isolated,
        &native::Native::new(),
        &rego::Interpreted::new()?,
        &rego::Compiled::new()?,
        &parsed,
    ])?;
    let isolated_cedar = isolated::Isolated::load(&engine, "cedar-example")?;
    measure(&[&isolated, &parsed, &cedar::ParsedEachTime, &isolated_cedar])
}

fn measure(judges: &[&dyn Judge]) -> Result<(), Box<dyn Error>> {
    let (case, forbidden) = (Case::to("acct-2")?, Case::to("acct-9")?);
    for judge in judges {
        check(*judge, &case, true)?;
        check(*judge, &forbidden, false)?;
    }
    let mut columns: Vec<_> = judges.iter().map(|judge| (*judge, Vec::new())).collect();
    let started = Instant::now();
    let mut n_rounds = 0;
    while n_rounds < ROUNDS_MAX && started.elapsed() < TIME_MAX {
        for (judge, times_ns) in &mut columns {
            let before = Instant::now();
            let allows = black_box(judge.judge(black_box(&case))?);
            times_ns.push(before.elapsed().as_nanos());
            if !allows {
                return Err(format!("{} decided differently", judge.name()).into());
            }
        }
        n_rounds += 1;
    }
    print(columns, n_rounds);
    Ok(())
}

fn check(judge: &dyn Judge, case: &Case, is_due: bool) -> Result<(), Box<dyn Error>> {
    let word = |allows| if allows { "ALLOW" } else { "DENY" };
    let (decision, expected) = (word(judge.judge(case)?), word(is_due));
    if decision == expected {
        println!("{expected} as expected: {}", judge.name());
        return Ok(());
    }
    Err(format!("{}: {decision} instead of {expected}", judge.name()).into())
}

fn print(columns: Vec<(&dyn Judge, Vec<u128>)>, n_rounds: usize) {
    println!("medians of {n_rounds} rounds, and the ratio to the first");
    let mut first_us = None;
    for (judge, times_ns) in columns {
        let median_us = median_us(times_ns);
        let ratio = median_us / *first_us.get_or_insert(median_us);
        println!("  {:58} {median_us:9.2} us {ratio:9.3}", judge.name());
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of milliseconds")]
fn median_us(mut times_ns: Vec<u128>) -> f64 {
    times_ns.sort_unstable();
    times_ns.get(times_ns.len() / 2).copied().unwrap_or_default() as f64 / 1e3
}
