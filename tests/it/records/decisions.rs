//! A gateway's folder with policy decisions of every moment and outcome.

use crate::harness::custody::{self, key, key_path};
use crate::harness::process::{Process, SIGN, run, stdout};
use crate::harness::samples::{approval, path, payment, publication, with};
use crate::harness::wire::poll_within;
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;

/// Credential identifiers that must not be in any export.
pub(crate) const CREDENTIALS: [&str; 2] = ["canary-jti-91b2", "canary-certificate-4d0e"];

const RULES: [(&str, &str); 3] = [
    ("auto_provision_keys", "false"),
    ("separation_of_duties", "true"),
    ("permitted_recipients", "acct-supplier-0042"),
];

/// As [`RULES`], without the recipient that they permit.
const STRICTER: [(&str, &str); 4] =
    [RULES[0], RULES[1], ("permitted_recipients", "acct-payroll"), ("reconcile_every_ms", "50")];

pub(crate) struct RecordedDecisions {
    pub(crate) folder: TempDir,
    /// The running gateway.
    pub(crate) process: Process,
    /// The id of a published payment.
    pub(crate) paid: String,
    /// The id of a payment that was approved, and denied at admission.
    pub(crate) denied: String,
}

/// The body with the credential identifiers [`CREDENTIALS`] in its `client`.
fn with_credentials(body: Value) -> Value {
    let body = with(body, "/client/token_jti", json!(CREDENTIALS[0]));
    with(body, "/client/cert_sha256", json!(CREDENTIALS[1]))
}

/// A payment on this key, with credential identifiers.
fn payment_on(key_ref: &str, idempotency_key: &str) -> Value {
    with_credentials(with(payment(idempotency_key), "/key_ref", json!(key_ref)))
}

/// The answer of a POST that must have this status.
fn post(process: &Process, path: &str, body: &Value, expected: u16) -> Value {
    let (status, answer) = process.call("POST", path, Some(body));
    assert_eq!(status, expected, "{path}: {answer}");
    answer
}

fn id(operation: &Value) -> String {
    operation["operation_id"].as_str().unwrap().to_owned()
}

/// Approves as Alice and as Bob.
fn approve(process: &Process, path: &str) {
    for subject in ["alice", "bob"] {
        post(process, path, &approval(subject), 200);
    }
}

/// Approves and executes a key creation.
fn make_key(process: &Process, creation: &Value) {
    approve(process, &custody::path(creation, "/approve"));
    post(process, &custody::path(creation, "/execute"), &json!({}), 200);
}

impl RecordedDecisions {
    /// Records decisions on key creations, payments, a custody signature, a refused submission, a rejected approval and previews.
    pub(crate) fn record() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start(folder.path(), None, &RULES);
        let submit_key = |key_ref: &str| {
            post(&process, "/v1/custody/keys", &with_credentials(key(key_ref)), 200)["operation"].clone()
        };
        make_key(&process, &submit_key("treasury-1"));
        make_key(&process, &submit_key("vault-1"));
        let late = submit_key("late-1");
        // This payment waits for its key. The recipient is permitted at submission, and no longer when the key exists.
        let denied = post(&process, SIGN, &payment_on("late-1", "late"), 200);
        approve(&process, &path(&denied["operation"], "/approve"));
        let paid = post(&process, SIGN, &payment_on("treasury-1", "paid"), 200);
        // The submitter's own approval does not count.
        post(&process, &path(&paid["operation"], "/approve"), &approval("carol"), 403);
        approve(&process, &path(&paid["operation"], "/approve"));
        post(&process, &path(&paid["operation"], "/execute"), &json!({}), 200);
        post(&process, &path(&paid["operation"], "/publish"), &publication(), 200);
        let signed =
            post(&process, &key_path("vault-1", "/sign"), &with_credentials(custody::sign("sign")), 200);
        approve(&process, &custody::path(&signed["operation"], "/approve"));
        let refused = with(payment_on("treasury-1", "refused"), "/payment/to_account", json!("acct-else"));
        post(&process, SIGN, &refused, 403);
        for approvals in [json!([]), json!([approval("alice")])] {
            let preview = json!({ "intent": payment_on("treasury-1", "p"), "approvals": approvals });
            post(&process, "/v1/policy/preview", &preview, 200);
        }
        process.terminate();
        let process = Process::start(folder.path(), None, &STRICTER);
        make_key(&process, &late);
        let recorded =
            Self { folder, process, paid: id(&paid["operation"]), denied: id(&denied["operation"]) };
        recorded.wait_for_failure(&path(&denied["operation"], ""));
        recorded
    }

    /// Waits until the operation failed. Once its key exists, the reconciler finds it within a minute.
    fn wait_for_failure(&self, path: &str) {
        poll_within(Duration::from_secs(150), || self.process.get(path), |view| view["state"] == "failed");
    }

    /// Runs a subcommand on the same data while the gateway runs.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        run(self.folder.path(), &STRICTER, arguments)
    }

    /// The lines of `decisions export`.
    pub(crate) fn export(&self, arguments: &[&str]) -> Vec<Value> {
        let out = stdout(self.run(&[&["decisions", "export"], arguments].concat()));
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
