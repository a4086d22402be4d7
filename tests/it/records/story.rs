//! A folder with every kind of decision in it, all by the real component.

use crate::harness::custody::{self, key, on_key};
use crate::harness::process::{Process, request, tool};
use crate::harness::samples::{approval, path, payment, publication, with};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Credential identifiers that must not be in any export.
pub(crate) const CREDENTIALS: [&str; 2] = ["canary-jti-91b2", "canary-certificate-4d0e"];

const RULES: [(&str, &str); 3] = [
    ("auto_provision_keys", "false"),
    ("separation_of_duties", "true"),
    ("permitted_recipients", "acct-supplier-0042"),
];

/// The same bundle without the one permitted account.
const STRICTER: [(&str, &str); 4] =
    [RULES[0], RULES[1], ("permitted_recipients", "acct-payroll"), ("reconcile_every_ms", "50")];

pub(crate) struct Story {
    pub(crate) folder: TempDir,
    /// Still running.
    pub(crate) process: Process,
    /// A published payment.
    pub(crate) paid: String,
    /// A payment that was approved, and denied at admission.
    pub(crate) denied: String,
}

/// Identity headers of a caller with a token and a certificate.
fn with_credentials(body: Value) -> Value {
    let body = with(body, "/client/token_jti", json!(CREDENTIALS[0]));
    with(body, "/client/cert_sha256", json!(CREDENTIALS[1]))
}

/// A payment with this idempotency key, on a key.
fn payment_on(key_ref: &str, idempotency_key: &str) -> Value {
    with_credentials(with(payment(idempotency_key), "/key_ref", json!(key_ref)))
}

fn post(process: &Process, path: &str, body: &Value, expected: u16) -> Value {
    let (status, answer) = request(&process.address, "POST", path, Some(body)).unwrap();
    assert_eq!(status, expected, "{path}: {answer}");
    answer
}

fn id(operation: &Value) -> String {
    operation["operation_id"].as_str().unwrap().to_owned()
}

fn approved(process: &Process, path: &str, last: u16) {
    for (subject, expected) in [("alice", 200), ("bob", last)] {
        post(process, path, &approval(subject), expected);
    }
}

fn made(process: &Process, create: &Value) {
    approved(process, &custody::path(create, "/approve"), 200);
    post(process, &custody::path(create, "/execute"), &json!({}), 200);
}

impl Story {
    /// Payment, custody signature, key creations, refusal, approval that does not count, previews, admission denial.
    pub(crate) fn recorded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start(folder.path(), None, &RULES);
        let create = |key_ref: &str| {
            post(&process, "/v1/custody/keys", &with_credentials(key(key_ref)), 200)["operation"].clone()
        };
        made(&process, &create("treasury-1"));
        made(&process, &create("vault-1"));
        let late = create("late-1");
        // The recipient is permitted at submission; the payment waits for the key, and then the recipient no longer is.
        let denied = post(&process, "/v1/operations/sign", &payment_on("late-1", "late"), 200);
        approved(&process, &path(&denied["operation"], "/approve"), 200);
        let paid = post(&process, "/v1/operations/sign", &payment_on("treasury-1", "paid"), 200);
        // The submitter's own approval does not count.
        post(&process, &path(&paid["operation"], "/approve"), &approval("carol"), 403);
        approved(&process, &path(&paid["operation"], "/approve"), 200);
        post(&process, &path(&paid["operation"], "/execute"), &json!({}), 200);
        post(&process, &path(&paid["operation"], "/publish"), &publication(), 200);
        let signed =
            post(&process, &on_key("vault-1", "/sign"), &with_credentials(custody::sign("sign")), 200);
        approved(&process, &custody::path(&signed["operation"], "/approve"), 200);
        let refused = with(payment_on("treasury-1", "refused"), "/payment/to_account", json!("acct-else"));
        post(&process, "/v1/operations/sign", &refused, 403);
        for approvals in [json!([]), json!([approval("alice")])] {
            let preview = json!({ "intent": payment_on("treasury-1", "p"), "approvals": approvals });
            post(&process, "/v1/policy/preview", &preview, 200);
        }
        process.terminate();
        let process = Process::start(folder.path(), None, &STRICTER);
        made(&process, &late);
        let story = Self { folder, process, paid: id(&paid["operation"]), denied: id(&denied["operation"]) };
        story.await_failure(&path(&denied["operation"], ""));
        story
    }

    /// The reconciler finds the operation once its key exists: within a minute, its longest interval.
    fn await_failure(&self, path: &str) {
        let deadline = Instant::now() + Duration::from_secs(150);
        while request(&self.process.address, "GET", path, None).unwrap().1["state"] != "failed" {
            assert!(Instant::now() < deadline, "the payment was not decided");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs another command on the same data while the gateway runs.
    pub(crate) fn tool(&self, arguments: &[&str]) -> (i32, String, String) {
        tool(self.folder.path(), &STRICTER, arguments)
    }

    /// The exported lines.
    pub(crate) fn export(&self, arguments: &[&str]) -> Vec<Value> {
        let (code, out, err) = self.tool(&[&["decisions", "export"], arguments].concat());
        assert_eq!((code, err.as_str()), (0, ""));
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
