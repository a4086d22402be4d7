//! Compares the cost of bundles: activation, one evaluation, and the memory of many instances at once.
//!
//! ```sh
//! cargo bench -p gateway-policy --bench bundles -- [FOLDER…]
//! ```
//!
//! Measures `bundles/payment-guard` and `bundles/cedar-example`, and then the folders named; relative ones start at `host/policy`,
//! where cargo runs it. `bundles/trust-development.json` must trust the bundles. Each evaluates the first of its own vectors in which it allows an
//! admission. The bundles take turns within each round, so that a busy machine slows them alike: rely on the ratios.
//! Memory is the growth of the process's resident set while many instances exist at once, each after its evaluation.

#![expect(clippy::print_stdout, reason = "a measuring tool")]

use gateway_domain::policy::{Decision, Facts, Moment, Request};
use gateway_domain::time::EpochMs;
use gateway_policy::bundle::{Vector, World};
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The rounds end after this time, even if there were fewer than [`ROUNDS_MAX`].
const TIME_MAX: Duration = Duration::from_secs(30);
const ROUNDS_MAX: usize = 20_000;
const KEPT: usize = 1_000;

/// A bundle, and the vector that it evaluates.
struct Measured {
    name: String,
    evaluator: Evaluator,
    vector: Vector,
    times_ns: Vec<u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles");
    let trust = TrustPolicy::parse(&std::fs::read(root.join("trust-development.json"))?)?;
    let engine = PolicyEngine::with_room_for(u32::try_from(KEPT)?)?;
    let mut all = Vec::new();
    let ours = ["payment-guard", "cedar-example"].map(|name| root.join(name));
    // Cargo adds the flag `--bench`.
    let named = std::env::args().skip(1).filter(|argument| argument != "--bench").map(PathBuf::from);
    for folder in ours.into_iter().chain(named) {
        all.push(activate(&engine, &trust, &folder)?);
    }
    let started = Instant::now();
    for _ in 0..ROUNDS_MAX {
        for measured in &mut all {
            measured.evaluate_once()?;
        }
        if started.elapsed() > TIME_MAX {
            break;
        }
    }
    for measured in &mut all {
        measured.print()?;
    }
    for measured in &all {
        measured.print_memory()?;
    }
    Ok(())
}

fn activate(engine: &PolicyEngine, trust: &TrustPolicy, folder: &Path) -> Result<Measured, Box<dyn Error>> {
    let files = BundleFiles::read(folder)?;
    let n_bytes = files.get("policy.wasm")?.len();
    let started = Instant::now();
    let bundle = Bundle::verify(files, trust, &Pins::default(), EpochMs(1))?;
    let verified = started.elapsed();
    let evaluator = Evaluator::load(engine, &bundle)?;
    let vectors = bundle.vectors()?;
    println!(
        "{}: {n_bytes} bytes, world {}, verify {:.1} ms, compile and {} vectors {:.1} ms",
        bundle.manifest().bundle_id,
        World::parse(&bundle.manifest().world)?.name(),
        ms(verified),
        vectors.len(),
        ms(started.elapsed().saturating_sub(verified)),
    );
    let asked = vectors
        .into_iter()
        .map(|(_, vector)| vector)
        .find(|vector| vector.input.moment == Moment::Admission && vector.expect.decision == Decision::Allow);
    let vector = asked.ok_or("no vector of an admission that is allowed")?;
    Ok(Measured { name: evaluator.bundle_id().to_owned(), evaluator, vector, times_ns: Vec::new() })
}

impl Measured {
    fn evaluate_once(&mut self) -> Result<(), Box<dyn Error>> {
        let (request, facts) = (self.request()?, self.facts());
        let started = Instant::now();
        let judged = black_box(self.evaluator.evaluate_raw(black_box(&request), &facts, u64::MAX));
        let elapsed = started.elapsed();
        if let Err(fault) = judged.decision() {
            return Err(format!("{}: {fault}", self.name).into());
        }
        self.times_ns.push(u64::try_from(elapsed.as_nanos())?);
        Ok(())
    }

    fn print(&mut self) -> Result<(), Box<dyn Error>> {
        let fuel = self.evaluator.evaluate(&self.request()?, &self.facts(), u64::MAX).fuel_used;
        self.times_ns.sort_unstable();
        let at =
            |share: usize| self.times_ns.get(self.times_ns.len() * share / 100).copied().unwrap_or_default();
        println!(
            "{}: fuel {fuel}, median {:.1} us, fastest {:.1} us, of {} rounds",
            self.name,
            us(at(50)),
            us(at(0)),
            self.times_ns.len()
        );
        Ok(())
    }

    fn print_memory(&self) -> Result<(), Box<dyn Error>> {
        let (request, facts) = (self.request()?, self.facts());
        let before = resident_bytes()?;
        let kept = (0..KEPT).map(|_| self.evaluator.evaluate_and_retain(&request, &facts));
        let kept = kept.collect::<Result<Vec<_>, _>>().map_err(|fault| fault.to_string())?;
        let grown = resident_bytes()?.saturating_sub(before);
        println!("{}: {} instances at once, {} KiB each", self.name, kept.len(), grown / 1_024 / KEPT);
        Ok(())
    }

    fn request(&self) -> Result<Request<'_>, Box<dyn Error>> {
        let input = &self.vector.input;
        Ok(Request {
            moment: input.moment,
            intent_hash: input.intent.hash()?,
            tenant: &input.tenant,
            key_ref: &input.key_ref,
            submitter: &input.submitter,
            intent: &input.intent,
            approvals: &input.approvals,
        })
    }

    fn facts(&self) -> Facts {
        Facts::from_pairs(self.vector.facts.clone())
    }
}

/// proc(5): the second number of `statm` is the resident set, in pages of 4 KiB.
fn resident_bytes() -> Result<usize, Box<dyn Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let n_pages: usize = statm.split_whitespace().nth(1).ok_or("statm has no second number")?.parse()?;
    Ok(n_pages * 4_096)
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of microseconds")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}
