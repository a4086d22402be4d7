//! Crash simulation: thousands of random lives, each interrupted at random, with the invariants checked after
//! every event. A failing run prints its seed; [`life::live`] replays it.

mod invariants;
mod life;
mod machine;
pub(crate) mod samples;
mod world;

use life::live;
use samples::Kind;

/// 7 kinds x 7,000 seeds.
const SEEDS: std::ops::Range<u64> = 0..7_000;

fn simulate(kind: Kind) {
    let mut totals = life::Totals::default();
    for seed in SEEDS {
        totals.add(&live(kind, seed));
    }
    println!("{kind:?}: {totals:?}");
    assert!(totals.n_crashes > 2 * SEEDS.end, "the simulation must really crash: {totals:?}");
    assert!(totals.n_published > SEEDS.end / 4, "most lives end well: {totals:?}");
    assert!(totals.n_failed > 0, "some lives end badly: {totals:?}");
}

#[test]
fn payments_survive_crashes() {
    simulate(Kind::Payment);
}

#[test]
fn asset_actions_survive_crashes() {
    simulate(Kind::AssetAction);
}

#[test]
fn key_creations_survive_crashes() {
    simulate(Kind::KeyCreate);
}

#[test]
fn refreshes_survive_crashes() {
    simulate(Kind::Refresh);
}

#[test]
fn reshares_survive_crashes() {
    simulate(Kind::Reshare);
}

#[test]
fn rotations_survive_crashes() {
    simulate(Kind::Rotate);
}

#[test]
fn recoveries_survive_crashes() {
    simulate(Kind::Recover);
}
