//! `kill -9` of the real process around a payment's admission, under a policy with a daily limit: the amount is counted exactly
//! once.

use crate::harness::process::{Process, SIGN, drive, kill_at, post, run, stdout};
use crate::harness::samples::{approval, payment, with};
use serde_json::{Value, json};
use std::path::Path;

/// A policy under which 100 `XTS` may leave an account per day.
const STRICT: [(&str, &str); 1] =
    [("policy_bundle", concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard-strict"))];

const DAY_MAX: i64 = 100;
const PAID: i64 = 60;

/// The number of the commit with the payment's decision; [`assert_counted_once`] checks it.
const DECISION_COMMIT: u32 = 11;

/// Whether the killed process had committed the payment's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Committed {
    Undecided,
    Decided,
}

fn payment_of(idempotency_key: &str, amount_minor: i64) -> Value {
    let body = with(payment(idempotency_key), "/payment/currency", json!("XTS"));
    with(body, "/payment/amount_minor", json!(amount_minor))
}

/// Submits the payment and approves it twice, which also creates its key. Returns an error if the process dies meanwhile.
fn admit(address: &str) -> std::io::Result<Value> {
    drive(address, SIGN, &payment_of("velocity-1", PAID), &[])
}

/// Whether the policy would admit a further payment of this amount now.
fn would_admit(address: &str, amount_minor: i64) -> bool {
    let approvals = [approval("alice"), approval("bob")];
    let preview = json!({ "intent": payment_of("further", amount_minor), "approvals": approvals });
    let answer = post(address, "/v1/policy/preview", Some(&preview)).unwrap();
    let denied = answer["reasons"].to_string().contains("velocity_exceeded");
    assert_eq!(answer["decision"], if denied { "DENY" } else { "ALLOW" }, "{answer}");
    !denied
}

/// Whether the store has a record of a payment's admission.
fn committed_decision(folder: &Path) -> Committed {
    let lines = stdout(run(folder, &STRICT, &["decisions", "export"]));
    let is_decided = lines.lines().any(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        (&line["input"]["moment"], &line["input"]["intent"]["kind"])
            == (&json!("admission"), &json!("payment"))
    });
    if is_decided { Committed::Decided } else { Committed::Undecided }
}

/// Kills the process at the failpoint and checks what it had committed. After a restart, the payment is admitted, and counted
/// once even if its requests are repeated.
fn assert_counted_once(point: &str, expected: Committed) {
    let folder = tempfile::tempdir().unwrap();
    kill_at(folder.path(), point, &STRICT, admit);
    assert_eq!(committed_decision(folder.path()), expected, "{point}");

    let process = Process::start(folder.path(), None, &STRICT);
    for _ in 0..2 {
        assert_eq!(admit(&process.address).unwrap()["state"], "admitted", "{point}");
        let room = DAY_MAX - PAID;
        assert!(would_admit(&process.address, room), "{point}: the amount was counted twice");
        assert!(!would_admit(&process.address, room + 1), "{point}: the amount was not counted");
    }
}

/// The first decision is that of the key creation.
#[test]
fn amount_of_an_uncommitted_admission_is_counted_once() {
    assert_counted_once("performed-decision:2", Committed::Undecided);
    assert_counted_once(&format!("before-commit:{DECISION_COMMIT}"), Committed::Undecided);
}

#[test]
fn amount_of_an_unapplied_admission_is_counted_once() {
    assert_counted_once(&format!("after-commit:{DECISION_COMMIT}"), Committed::Decided);
    assert_counted_once("performed-admission:2", Committed::Decided);
}
