//! A deterministic simulation of the whole system: two gateway replicas over one store, the authority, and five nodes, with faults,
//! driven by one seed. Only the network, the disks, the clocks and the crashes are simulated. See `host/docs/faults.md`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "a failing run prints its seed and its trace")]

mod chance;
mod delivery;
mod end;
mod faults;
mod gaps;
mod judge;
mod machines;
mod mutants;
mod network;
mod nodes;
mod orders;
mod parts;
mod ports;
#[path = "../reads.rs"]
mod reads;
mod replicas;
mod report;
mod trace;
mod world;

use end::Verdict;
use parts::Shared;
use report::Report;
use std::env;
use std::ops::Range;
use std::path::{Path, PathBuf};
use world::World;

/// Orders of one run, unless `SVC_SIMULATION_ORDERS` says otherwise. The long form has more, since a start takes time too.
const ORDERS: usize = 40;

/// Seeds of the short form.
const SHORT: Range<u64> = 0..6;

/// Runs after which the counts are written.
const RUNS_PER_WRITE: u64 = 10;

fn run(shared: &Shared, seed: u64, n_orders: usize) -> Verdict {
    let mut world = World::start(shared, seed);
    world.work(n_orders);
    world.finish()
}

fn n_orders() -> usize {
    env::var("SVC_SIMULATION_ORDERS").map_or(ORDERS, |n| n.parse().unwrap())
}

/// The seeds to run: `SVC_SIMULATION_SEEDS=from..to`, or the short form.
fn seeds() -> Range<u64> {
    let Ok(setting) = env::var("SVC_SIMULATION_SEEDS") else { return SHORT };
    let (from, to) = setting.split_once("..").unwrap();
    from.parse().unwrap()..to.parse().unwrap()
}

/// The processor time of this process so far, in milliseconds: fields 14 and 15 of the kernel's status, in hundredths of a second.
fn cpu_ms() -> u64 {
    let status = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = status.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let times = fields.get(11..13).unwrap_or_default();
    times.iter().map(|time| time.parse::<u64>().unwrap() * 10).sum()
}

/// Runs the seeds, and prints what each violated. With `SVC_SIMULATION_COUNTS` adds the counts to that file, and continues after
/// the seeds that are in it.
#[test]
fn seeds_hold_every_invariant() {
    let shared = Shared::new();
    let file = env::var_os("SVC_SIMULATION_COUNTS").map(PathBuf::from);
    let Range { start, end } = seeds();
    let before = file.as_deref().and_then(Report::read);
    let mut report =
        before.unwrap_or(Report { seeds: vec![(start, start)], n_orders: n_orders(), ..Report::default() });
    let mut measured = cpu_ms();
    let mut n_bad = 0;
    for seed in report.seeds[0].1..end {
        let mut verdict = run(&shared, seed, report.n_orders);
        for (kind, details) in &verdict.violations {
            println!("seed {seed}: {kind}: {details}");
        }
        for (gap, details) in &verdict.gaps {
            println!("seed {seed}: known gap {}: {details}", gap.name());
        }
        if !verdict.violations.is_empty() {
            n_bad += 1;
            println!("{}", verdict.tail);
        }
        let now = cpu_ms();
        verdict.counts.cpu_ms = now - measured;
        measured = now;
        report.counts.add(verdict.counts);
        report.seeds[0].1 = seed + 1;
        if let Some(file) = file.as_deref().filter(|_| (seed + 1) % RUNS_PER_WRITE == 0 || seed + 1 == end) {
            report.write(file);
        }
    }
    assert!(report.counts.n_published > 0 && report.counts.n_shares > 0, "the runs did nothing: {report:?}");
    assert_eq!(n_bad, 0, "runs with violations, replayed by SVC_SIMULATION_SEEDS=<seed>..<seed + 1>");
}

#[test]
fn same_seed_gives_the_same_trace() {
    let shared = Shared::new();
    for seed in [1, 4] {
        let (first, second) = (run(&shared, seed, ORDERS), run(&shared, seed, ORDERS));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!(first.counts.violations, second.counts.violations);
    }
    let other = run(&shared, 2, ORDERS);
    assert_ne!(run(&shared, 3, ORDERS).trace_hash, other.trace_hash, "the seed changes nothing");
}

/// With `SVC_SIMULATION_SUM`, the folder of counts, first writes their sum and the page.
#[test]
fn page_has_the_form_that_the_generator_gives() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (counts, page) = (here.join("simulation/counts.json"), here.join("../host/docs/faults.md"));
    if let Some(folder) = env::var_os("SVC_SIMULATION_SUM") {
        Report::sum(Path::new(&folder)).write(&counts);
        std::fs::write(&page, Report::read(&counts).unwrap().page()).unwrap();
    }
    let report = Report::read(&counts).unwrap();
    assert!(std::fs::read_to_string(page).unwrap() == report.page(), "generate it: `scripts/torture page`");
    assert!(report.counts.violations.is_empty(), "{:?}", report.counts.violations);
}
