//! A deterministic simulation of the whole system: two gateway replicas over one store, the authority, and five nodes, with faults,
//! driven by one seed. Only the network, the disks, the clocks and the crashes are simulated. See `host/docs/faults.md`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod chance;
mod delivery;
mod end;
mod faults;
mod gaps;
mod judge;
mod machines;
mod network;
mod nodes;
mod orders;
mod parts;
mod ports;
mod replicas;
mod trace;
mod world;

use end::Verdict;
use parts::Shared;
use std::ops::Range;
use world::World;

/// Orders of one run.
fn orders() -> usize { std::env::var("SVC_SIMULATION_ORDERS").map_or(40, |n| n.parse().unwrap()) }

fn run(shared: &Shared, seed: u64) -> Verdict {
    let mut world = World::start(shared, seed);
    world.work(orders());
    world.finish()
}

/// The seeds to run: `SVC_SIMULATION_SEEDS=from..to`, or the short form.
fn seeds() -> Range<u64> {
    let Ok(setting) = std::env::var("SVC_SIMULATION_SEEDS") else { return 0..8 };
    let (from, to) = setting.split_once("..").unwrap();
    from.parse().unwrap()..to.parse().unwrap()
}

#[test]
fn seeds_hold_every_invariant() {
    let shared = Shared::new();
    let mut counts = faults::Counts::default();
    let mut n_bad = 0;
    for seed in seeds() {
        let verdict = run(&shared, seed);
        for (kind, details) in &verdict.violations {
            println!("seed {seed}: {kind}: {details}");
        }
        for (gap, details) in &verdict.gaps {
            println!("seed {seed}: known gap {}: {details}", gap.name());
        }
        if !verdict.violations.is_empty() {
            n_bad += 1;
            if std::env::var_os("SVC_SIMULATION_TAIL").is_some() {
                println!("{}", verdict.tail);
            }
        }
        counts.add(verdict.counts);
    }
    println!("{counts:#?}");
    assert_eq!(n_bad, 0);
}

#[test]
fn same_seed_gives_the_same_trace() {
    let shared = Shared::new();
    for seed in seeds() {
        let (first, second) = (run(&shared, seed), run(&shared, seed));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
    }
}
