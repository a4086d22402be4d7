//! `kill -9` of the real process between the signature of an admission and its commit, under a policy with a daily
//! limit: the payment's amount is counted exactly once.

use crate::harness::process::{Process, SIGN, drive, kill_at, post, tool};
use crate::harness::samples::{approval, payment, with};
use serde_json::{Value, json};
use std::path::Path;

/// A policy that permits 100 `XTS` a day to leave an account.
const STRICT: [(&str, &str); 1] =
    [("policy_bundle", concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard-strict"))];

const DAY_MAX: i64 = 100;
const PAID: i64 = 60;

/// The commit that holds the payment's decision. `Left` verifies it in each test.
const DECISION_COMMIT: u32 = 12;

/// The state that the killed process left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Undecided,
    Decided,
}

fn pays(idempotency_key: &str, amount_minor: i64) -> Value {
    let body = with(payment(idempotency_key), "/payment/currency", json!("XTS"));
    with(body, "/payment/amount_minor", json!(amount_minor))
}

/// Drives the payment to its admission and makes the key on the way; an error when the process dies meanwhile.
fn admit(address: &str) -> std::io::Result<Value> {
    drive(address, SIGN, &pays("velocity-1", PAID), &[])
}

/// Whether a further payment of this amount would be admitted now.
fn fits(address: &str, amount_minor: i64) -> bool {
    let approvals = [approval("alice"), approval("bob")];
    let preview = json!({ "intent": pays("further", amount_minor), "approvals": approvals });
    let answer = post(address, "/v1/policy/preview", Some(&preview)).unwrap();
    let denied = answer["reasons"].to_string().contains("velocity_exceeded");
    assert_eq!(answer["decision"], if denied { "DENY" } else { "ALLOW" }, "{answer}");
    !denied
}

/// Whether a payment's admission is on record.
fn left(folder: &Path) -> Left {
    let (code, lines, err) = tool(folder, &STRICT, &["decisions", "export"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let is_decided = lines.lines().any(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        (&line["input"]["moment"], &line["input"]["intent"]["kind"])
            == (&json!("admission"), &json!("payment"))
    });
    if is_decided { Left::Decided } else { Left::Undecided }
}

fn spends_once(point: &str, expected: Left) {
    let folder = tempfile::tempdir().unwrap();
    kill_at(folder.path(), point, &STRICT, admit);
    assert_eq!(left(folder.path()), expected, "{point}");

    let process = Process::start(folder.path(), None, &STRICT);
    for _ in 0..2 {
        assert_eq!(admit(&process.address).unwrap()["state"], "admitted", "{point}");
        let room = DAY_MAX - PAID;
        assert!(fits(&process.address, room), "{point}: it was counted twice");
        assert!(!fits(&process.address, room + 1), "{point}: it was lost");
    }
}

/// The first decision is the key creation's.
#[test]
fn amount_of_an_uncommitted_admission_is_counted_once() {
    spends_once("performed-decision:2", Left::Undecided);
    spends_once(&format!("before-commit:{DECISION_COMMIT}"), Left::Undecided);
}

#[test]
fn amount_of_an_unapplied_admission_is_counted_once() {
    spends_once(&format!("after-commit:{DECISION_COMMIT}"), Left::Decided);
    spends_once("performed-admission:2", Left::Decided);
}
