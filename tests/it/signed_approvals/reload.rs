//! Another registry while the process runs: whoever is revoked approves nothing any more, anywhere.

use crate::harness::approvers::Signers;
use crate::harness::custody;
use crate::harness::process::{Process, request};
use crate::harness::samples::payment;
use gateway_domain::approval::testing::registry;
use serde_json::{Value, json};
use std::fs;

struct Desk {
    process: Process,
    signers: Signers,
}

impl Desk {
    fn start() -> (tempfile::TempDir, Self) {
        let (folder, signers) = (tempfile::tempdir().unwrap(), Signers::new());
        let process = Process::start(folder.path(), None, &signers.given("required"));
        (folder, Self { process, signers })
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        request(&self.process.address, method, path, body).unwrap()
    }

    #[track_caller]
    fn submitted(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call("POST", path, Some(body));
        assert_eq!(status, 200, "{answer}");
        answer["operation"].clone()
    }

    fn payment(&self, name: &str) -> Value {
        self.submitted("/v1/operations/sign", &payment(name))
    }

    /// What an approval of the payment is answered: the status, and the state or the message.
    fn approves(&self, view: &Value, subject: &str) -> (u16, String) {
        let path = format!("/v1/operations/{}/approve", view["operation_id"].as_str().unwrap());
        let (status, answer) = self.call("POST", &path, Some(&self.signers.body(view, subject)));
        let told = answer["state"].as_str().or(answer["message"].as_str());
        (status, told.unwrap_or_default().to_owned())
    }

    fn read_again(&mut self, text: &str, line: &str) {
        fs::write(self.signers.path(), text).unwrap();
        self.process.hang_up();
        self.process.wait_for_line(line);
    }
}

#[test]
fn whoever_is_revoked_approves_nothing_any_more_at_the_gateway_and_at_the_nodes() {
    let (_folder, mut desk) = Desk::start();
    let create = desk.submitted("/v1/custody/keys", &custody::key("treasury-1"));
    for subject in ["alice", "bob"] {
        let body = desk.signers.body(&create, subject);
        assert_eq!(desk.call("POST", &custody::path(&create, "/approve"), Some(&body)).0, 200);
    }
    assert_eq!(desk.call("POST", &custody::path(&create, "/execute"), None).0, 200);
    let (approved, fresh) = (desk.payment("approved before"), desk.payment("fresh"));
    assert_eq!(desk.approves(&approved, "alice"), (200, "pending_approval".to_owned()));

    let mut entries = desk.signers.entries();
    let everybody = registry(&entries);
    entries[0]["keys"][0]["revoked_at_ms"] = json!(1);
    desk.read_again(&registry(&entries), "approvers were read again");
    let (status, message) = desk.approves(&fresh, "alice");
    assert!(status == 403 && message.contains("`key_revoked`"), "{status} {message}");
    // The gateway has counted her approval before; the nodes count it now.
    let (status, message) = desk.approves(&approved, "bob");
    assert!(
        status == 409 && message.contains("refuses: approval of `alice`: `key_revoked`"),
        "{status} {message}"
    );

    // What is no registry leaves the one in force.
    desk.read_again("{", "approvers could not be read again");
    assert_eq!(desk.approves(&fresh, "tina"), (200, "pending_approval".to_owned()));
    assert_eq!(desk.approves(&fresh, "alice").0, 403);
    desk.read_again(&everybody, "approvers were read again");
    assert_eq!(desk.approves(&fresh, "alice"), (200, "admitted".to_owned()));
}
