//! The test vectors of transparency-dev.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::canonical::digest_bytes;
use gateway_domain::ids::Hex32;
use gateway_domain::log::{verify_consistency, verify_inclusion};
use serde_json::Value;

fn cases(kind: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("../vectors/transparency-dev-merkle.json")).unwrap();
    all[kind].as_array().unwrap().clone()
}

/// Some cases have hashes of other lengths, which `Hex32` cannot hold: another hash replaces each of them. `role` makes an
/// invalid leaf differ from an invalid root.
fn hash(role: &str, value: &Value) -> Hex32 {
    let bytes = STANDARD.decode(value.as_str().unwrap()).unwrap();
    bytes.try_into().map_or_else(|bytes: Vec<u8>| digest_bytes(role, &bytes), Hex32::new)
}

fn proof(case: &Value) -> Vec<Hex32> {
    case["proof"].as_array().into_iter().flatten().map(|value| hash("proof", value)).collect()
}

/// The number of rejected and of accepted cases, each as expected.
fn tally(kind: &str, holds: impl Fn(&Value) -> bool) -> (usize, usize) {
    let cases = cases(kind);
    let refused = cases.iter().filter(|case| {
        let is_refused = !holds(case);
        assert_eq!(case["wantErr"], is_refused, "{}", case["file"]);
        is_refused
    });
    let n_refused = refused.count();
    (n_refused, cases.len() - n_refused)
}

#[test]
fn inclusion_proofs_are_verified_as_published() {
    let number = |case: &Value, name: &str| case[name].as_u64().unwrap();
    let tally = tally("inclusion", |case| {
        let (leaf, root) = (hash("leaf", &case["leafHash"]), hash("root", &case["root"]));
        verify_inclusion(leaf, number(case, "leafIdx"), number(case, "treeSize"), &proof(case), root).is_ok()
    });
    assert_eq!(tally, (92, 6));
}

#[test]
fn consistency_proofs_are_verified_as_published() {
    let number = |case: &Value, name: &str| case[name].as_u64().unwrap();
    let tally = tally("consistency", |case| {
        let (first, second) = (hash("root", &case["root1"]), hash("root", &case["root2"]));
        verify_consistency(number(case, "size1"), number(case, "size2"), &proof(case), first, second).is_ok()
    });
    assert_eq!(tally, (92, 6));
}
