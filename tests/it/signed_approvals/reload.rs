//! A changed registry while the process runs: a revoked approver's approvals no longer count anywhere.

use crate::harness::approvers::Signers;
use crate::harness::bundles::replace;
use crate::harness::custody;
use crate::harness::process::{Process, text};
use crate::harness::samples::payment;
use gateway_domain::testing::approvers::registry;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The log line for an invalid registry.
const UNUSABLE: &str = "the registry of approvers cannot be used";

struct Desk {
    process: Process,
    signers: Signers,
    watch_ms: &'static str,
}

impl Desk {
    /// Reads the registry again on SIGHUP only.
    fn start() -> (tempfile::TempDir, Self) {
        Self::with_watch("0")
    }

    fn with_watch(watch_ms: &'static str) -> (tempfile::TempDir, Self) {
        let (folder, signers) = (tempfile::tempdir().unwrap(), Signers::new());
        let process = Self::process(folder.path(), &signers, watch_ms);
        (folder, Self { process, signers, watch_ms })
    }

    fn process(folder: &Path, signers: &Signers, watch_ms: &str) -> Process {
        let given = [&signers.given("required")[..], &[("policy_watch_ms", watch_ms)]].concat();
        Process::start(folder, None, &given)
    }

    /// Starts again after a kill.
    fn restart(&mut self, folder: &Path) {
        self.process.kill();
        self.process = Self::process(folder, &self.signers, self.watch_ms);
    }

    fn custody_key(&self) -> Value {
        self.submitted("/v1/custody/keys", &custody::key("treasury-1"))
    }

    fn approve(&self, view: &Value, subject: &str) -> (u16, Value) {
        self.process.call("POST", &custody::path(view, "/approve"), Some(&self.signers.body(view, subject)))
    }

    #[track_caller]
    fn submitted(&self, path: &str, body: &Value) -> Value {
        self.process.post(path, Some(body))["operation"].clone()
    }

    fn payment(&self, name: &str) -> Value {
        self.submitted("/v1/operations/sign", &payment(name))
    }

    /// The answer to an approval of the payment: the status, and the state or the message.
    fn approves(&self, view: &Value, subject: &str) -> (u16, String) {
        let path = format!("/v1/operations/{}/approve", view["operation_id"].as_str().unwrap());
        let (status, answer) = self.process.call("POST", &path, Some(&self.signers.body(view, subject)));
        let outcome = answer["state"].as_str().or(answer["message"].as_str());
        (status, outcome.unwrap_or_default().to_owned())
    }

    fn read_again(&mut self, text: &str, line: &str) {
        fs::write(self.signers.path(), text).unwrap();
        self.process.sighup();
        self.process.wait_for_line(line);
    }
}

#[test]
fn revoked_approver_is_rejected_by_gateway_and_nodes() {
    let (_folder, mut desk) = Desk::start();
    let create = desk.custody_key();
    for subject in ["alice", "bob"] {
        let body = desk.signers.body(&create, subject);
        assert_eq!(desk.process.call("POST", &custody::path(&create, "/approve"), Some(&body)).0, 200);
    }
    assert_eq!(desk.process.call("POST", &custody::path(&create, "/execute"), None).0, 200);
    let (approved, fresh) = (desk.payment("approved before"), desk.payment("fresh"));
    assert_eq!(desk.approves(&approved, "alice"), (200, "pending_approval".to_owned()));

    let mut entries = desk.signers.entries();
    let everybody = registry(&entries);
    entries[0]["keys"][0]["revoked_at_ms"] = json!(1);
    desk.read_again(&registry(&entries), "reloaded approvers");
    let (status, message) = desk.approves(&fresh, "alice");
    assert!(status == 403 && message.contains("`key_revoked`"), "{status} {message}");
    // The gateway counted her approval earlier; the nodes check it now.
    let (status, message) = desk.approves(&approved, "bob");
    assert!(
        status == 409 && message.contains("refuses: approval of `alice`: `key_revoked`"),
        "{status} {message}"
    );

    // With an invalid registry, the previous one does not stay in use.
    desk.read_again("{", UNUSABLE);
    assert_eq!(desk.approves(&fresh, "tina").0, 503);
    desk.read_again(&everybody, "reloaded approvers");
    assert_eq!(desk.approves(&fresh, "tina"), (200, "pending_approval".to_owned()));
    assert_eq!(desk.approves(&fresh, "alice"), (200, "admitted".to_owned()));
}

/// Waits until the probe reports this for the registry.
#[track_caller]
fn until(desk: &Desk, status: &str) -> (u16, Value) {
    let begun = Instant::now();
    loop {
        let (code, ready) = desk.process.call("GET", "/readyz", None);
        if ready["checks"]["approvers"]["status"] == status {
            return (code, ready);
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{ready:#}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn unreadable_registry_rejects_all_approvals_and_recovers() {
    let (folder, mut desk) = Desk::with_watch("20");
    let registry = fs::read_to_string(desk.signers.path()).unwrap();
    let operation = desk.custody_key();
    for damaged in [Some(""), Some("{"), Some(r#"{"format":"svc/approvers/v2","approvers":[]}"#), None] {
        match damaged {
            Some(text) => replace(desk.signers.path().as_ref(), text.as_bytes()),
            None => fs::remove_file(desk.signers.path()).unwrap(),
        }
        let (code, ready) = until(&desk, "failed");
        assert_eq!((code, &ready["status"]), (503, &json!("not_ready")), "{ready}");
        let detail = ready["checks"]["approvers"]["detail"].as_str().unwrap();
        assert!(detail.contains("no approval counts until it is right"), "{detail}");
        assert!(text(&desk.process.address, "/metrics").contains("operation_gateway_approvers_verifiable 0"));
        let (status, answer) = desk.approve(&operation, "alice");
        assert_eq!((status, &answer["error"]), (503, &json!("policy_unavailable")), "{answer}");
        let view = desk.process.call("GET", &custody::path(&operation, ""), None).1;
        assert_eq!(view["approvals"], operation["approvals"], "nothing was stored");
        // The same at a start with an invalid registry, which comes up and reports it.
        desk.restart(folder.path());
        until(&desk, "failed");
        assert_eq!(desk.approve(&operation, "alice").0, 503);
        replace(desk.signers.path().as_ref(), registry.as_bytes());
        assert_eq!(until(&desk, "ok").0, 200);
    }
    assert_eq!(desk.approve(&operation, "alice").0, 200);
    assert_eq!(desk.approve(&operation, "bob").1["state"], "admitted");
}
