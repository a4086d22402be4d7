//! Measures the cost of isolation: the default policy as a native function, and as a component in a fresh instance.
//!
//! ```sh
//! cargo bench -p gateway-policy --bench evaluation
//! ```
//!
//! The variants take turns within each round, so that a busy machine slows them alike: rely on the ratios.
//!
//! - `native`: `PaymentGuard::evaluate`, optimised by the compiler that builds this file, with the request already built
//! - `native, end to end`: the same from the domain's request to the list of facts read, which the component includes too
//! - `component`: [`Evaluator::evaluate_raw`], with fuel, backstop clock and memory limits on
//! - `with record`: [`Evaluator::evaluate`]: the component, with both digests of the decision record

#![expect(clippy::print_stdout, reason = "a measuring tool")]

#[path = "native/request.rs"]
mod request;

use gateway_domain::policy::{FactRead, Facts, Moment, Request};
use gateway_policy::{Bundle, Evaluator, PolicyEngine, testing};
use gateway_policy_sdk as sdk;
use payment_guard::PaymentGuard;
use sdk::{Data, Policy as _};
use std::cell::RefCell;
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let trust = testing::committed_trust();
    let engine = PolicyEngine::new()?;
    for name in ["payment-guard", "payment-guard-strict"] {
        println!("== {name}");
        let bundle = testing::verify(testing::committed_bundle(name), &trust)?;
        measure_bundle(&engine, &bundle)?;
    }
    Ok(())
}

fn measure_bundle(engine: &PolicyEngine, bundle: &Bundle) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let evaluator = Evaluator::load(engine, bundle)?;
    println!("load: compile, link and run all vectors {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let texts: Vec<_> = bundle.data()?.into_iter().map(|(file, value)| (file, value.to_string())).collect();
    let texts: Vec<_> = texts.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
    let data = gateway_policy_sdk::testing::data(&texts);

    let facts = testing::facts_with_spending("2");
    for (name, moment, approvers) in [
        ("preview without approvals", Moment::Preview, &[][..]),
        ("admission, two approvals", Moment::Admission, &["bob", "carol"]),
    ] {
        let sample = testing::payment("acct-2", approvers);
        measure(name, &evaluator, &sample.request(moment), &facts, &data)?;
    }
    Ok(())
}

fn measure(
    name: &str,
    evaluator: &Evaluator,
    request: &Request<'_>,
    facts: &Facts,
    data: &dyn Data,
) -> Result<(), Box<dyn Error>> {
    let prepared = request::of(request)?;
    let mut columns: [Vec<u64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let recording = Recording::of(facts);
        let times = [
            timed(|| PaymentGuard::evaluate(black_box(&prepared), &recording, data)),
            timed(|| {
                let recording = Recording::of(&black_box(facts).clone());
                let prepared = request::of(black_box(request));
                let verdict = prepared.map(|prepared| PaymentGuard::evaluate(&prepared, &recording, data));
                (verdict, recording.read)
            }),
            timed(|| evaluator.evaluate_raw(black_box(request), facts, u64::MAX)),
            timed(|| evaluator.evaluate(black_box(request), facts, u64::MAX)),
        ];
        columns.iter_mut().zip(times).for_each(|(column, time)| column.push(time));
    }
    let fuel = evaluator.evaluate(request, facts, u64::MAX).fuel_used;
    let [native, end_to_end, component, with_record] = columns.map(|mut column| median_us(&mut column));
    println!("{name} (fuel {fuel})");
    println!("  native             {native:6.2} us");
    println!("  native, end to end {end_to_end:6.2} us");
    println!(
        "  component          {component:6.2} us   {:.1} x native, {:.1} x native end to end",
        component / native,
        component / end_to_end
    );
    println!("  with record        {with_record:6.2} us");
    Ok(())
}

fn timed<T>(run: impl FnOnce() -> T) -> u64 {
    let started = Instant::now();
    let result = black_box(run());
    let elapsed = started.elapsed();
    drop(result);
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of microseconds")]
fn median_us(column: &mut [u64]) -> f64 {
    column.sort_unstable();
    column.get(column.len() / 2).copied().unwrap_or_default() as f64 / 1e3
}

/// The facts for a native policy. Records reads as the host does.
struct Recording<'a> {
    facts: std::borrow::Cow<'a, Facts>,
    read: RefCell<Vec<FactRead>>,
}

impl<'a> Recording<'a> {
    fn of(facts: &Facts) -> Recording<'static> {
        Recording { facts: std::borrow::Cow::Owned(facts.clone()), read: RefCell::default() }
    }
}

impl sdk::Facts for Recording<'_> {
    fn get(&self, name: &str) -> Option<String> {
        let value = self.facts.get(name).map(str::to_owned);
        self.read.borrow_mut().push(FactRead { name: name.to_owned(), value: value.clone() });
        value
    }
}
