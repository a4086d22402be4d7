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

/// Checks that each case is rejected or accepted as expected. Returns the numbers of rejected and accepted cases.
fn check_cases(kind: &str, verifies: impl Fn(&Value) -> bool) -> (usize, usize) {
    let cases = cases(kind);
    let rejected = cases.iter().filter(|case| {
        let is_rejected = !verifies(case);
        assert_eq!(case["wantErr"], is_rejected, "{}", case["file"]);
        is_rejected
    });
    let n_rejected = rejected.count();
    (n_rejected, cases.len() - n_rejected)
}

#[test]
fn inclusion_proofs_are_verified_as_published() {
    let number = |case: &Value, name: &str| case[name].as_u64().unwrap();
    let counts = check_cases("inclusion", |case| {
        let (leaf, root) = (hash("leaf", &case["leafHash"]), hash("root", &case["root"]));
        verify_inclusion(leaf, number(case, "leafIdx"), number(case, "treeSize"), &proof(case), root).is_ok()
    });
    assert_eq!(counts, (92, 6));
}

#[test]
fn consistency_proofs_are_verified_as_published() {
    let number = |case: &Value, name: &str| case[name].as_u64().unwrap();
    let counts = check_cases("consistency", |case| {
        let (first, second) = (hash("root", &case["root1"]), hash("root", &case["root2"]));
        verify_consistency(number(case, "size1"), number(case, "size2"), &proof(case), first, second).is_ok()
    });
    assert_eq!(counts, (92, 6));
}
