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

/// Whatever a runtime says: without the word of everybody who had a part, nothing is executed.
#[test]
fn a_result_without_every_word_for_it_moves_nothing() {
    use super::{Ask, Command, Outcome, Phase, Step, decide, next};
    for kind in [Kind::Payment, Kind::Refresh] {
        let mut machine = life::begun(kind);
        let Step::Perform(effect) = next(&machine.operation) else { panic!() };
        let answer = machine.world.perform(&mut machine.random, &machine.operation, &effect).unwrap();
        let settle = |change: fn(&mut Vec<crate::receipt::NodeReceipt>)| {
            let mut outcome = answer.clone();
            match &mut outcome {
                Outcome::Signed { receipts, .. } | Outcome::Staged { receipts, .. } => change(receipts),
                other => panic!("{other:?}"),
            }
            let result_root = outcome.result_root().unwrap();
            let ask = Ask::Settle { effect: effect.id, outcome, result_root };
            decide(&machine.operation, &Command { at: machine.now, ask }).unwrap()
        };
        assert_eq!(settle(|receipts| drop(receipts.pop())), []);
        assert_eq!(settle(Vec::clear), []);
        assert_eq!(settle(|receipts| receipts[0].participant.0 = 63), []);
        assert!(!settle(|_| {}).is_empty());
        assert!(matches!(machine.operation.phase, Phase::Preparing { .. }));
    }
}
