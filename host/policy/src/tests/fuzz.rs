//! Ten thousand malformed components: each is refused with its reason, or evaluated within the limits.

use crate::testing::{Signed, engine, facts, guest, payment};
use crate::{BundleError, Evaluator, PolicyEngine};
use gateway_domain::policy::{Decision, FaultKind, Moment};
use std::collections::BTreeMap;

const N_MUTANTS: u64 = 10_000;

/// splitmix64: the same mutants in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }
}

/// Changes the component in one to three places: changes a byte, deletes or repeats bytes, inserts random ones, or truncates it.
fn mutant(wasm: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = wasm.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(16)).min(bytes.len());
        match random.below(12) {
            0..=6 => bytes[at] ^= 1 << random.below(8),
            7 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            8 => drop(bytes.drain(at..end)),
            9 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            10 => {
                let noise: Vec<u8> = (at..end).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
                bytes.splice(at..at, noise);
            }
            _ if bytes.len() > 8 => bytes.truncate(at.max(8)),
            _ => {}
        }
        if bytes.is_empty() {
            return bytes;
        }
    }
    bytes
}

/// The result for one mutant, as a category to count.
fn result_of(engine: &PolicyEngine, signed: &Signed, wasm: &[u8]) -> String {
    let bundle = signed.with_component(wasm);
    match Evaluator::link(engine, &bundle) {
        Err(BundleError::Component(_)) => "not a component".to_owned(),
        Err(BundleError::Describe(fault)) => format!("describe: {}", fault.kind.as_str()),
        Err(other) => {
            assert!(!other.to_string().contains('\n'), "{other}");
            "imports".to_owned()
        }
        Ok(evaluator) => {
            let sample = payment("acct-2", &["bob"]);
            let evaluation = evaluator.evaluate(&sample.request(Moment::Admission), &facts("2"), 100_000);
            let denied = evaluation.decision == Decision::Deny;
            assert!(evaluation.fault_kind().is_none() || denied, "{evaluation:?}");
            evaluation.fault_kind().map_or("verdict", FaultKind::as_str).to_owned()
        }
    }
}

#[test]
fn ten_thousand_malformed_components_are_refused_or_evaluated_within_limits() {
    let engine = engine();
    let extra = r#"(table 2 funcref) (elem (i32.const 0) $twice)
        (func $twice (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2)))
        (data (i32.const 256) "time.now_ms")"#;
    let body = "(call $get (i32.const 256) (i32.const 11) (i32.const 512))
        (drop (call $twice (i32.load (i32.const 512))))
        (loop $l
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $i) (i32.const 10))))
        i32.const 0";
    let wasm = guest(1, extra, body);
    let signed = Signed::of(&engine, &wasm, &["time.now_ms"]);
    let mut random = Random(20_261_121);
    let mut results = BTreeMap::<String, u64>::new();
    for _ in 0..N_MUTANTS {
        *results.entry(result_of(&engine, &signed, &mutant(&wasm, &mut random))).or_default() += 1;
    }
    assert_eq!(results.values().sum::<u64>(), N_MUTANTS);
    // Mutants reach each of these stages.
    for reached in ["not a component", "imports", "verdict", "undeclared_fact"] {
        assert!(results.get(reached).is_some_and(|n| *n > 10), "{reached}: {results:?}");
    }
    // The engine still evaluates a valid component.
    assert_eq!(result_of(&engine, &signed, &wasm), "verdict");
}
