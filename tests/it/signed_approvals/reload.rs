//! A registry of approvers that changes while the process runs.

use crate::harness::approvers::Signers;
use crate::harness::bundles::{Site, key, replace};
use crate::harness::cluster::Cluster;
use crate::harness::custody;
use crate::harness::process::{Process, SIGN, post, request, text};
use crate::harness::samples::{path, payment};
use crate::harness::wire::poll;
use gateway_domain::testing::approvers::registry;
use gateway_policy::testing::grouped_bundle;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The log line for a registry that cannot be read.
const UNUSABLE: &str = "the registry of approvers cannot be used";

/// A running gateway that requires signed approvals, and its approvers.
struct Desk {
    process: Process,
    signers: Signers,
    watch_ms: &'static str,
}

impl Desk {
    /// The gateway reads the registry again only on SIGHUP.
    fn start() -> (tempfile::TempDir, Self) {
        Self::with_watch("0")
    }

    /// The gateway reads the registry again every `watch_ms` milliseconds.
    fn with_watch(watch_ms: &'static str) -> (tempfile::TempDir, Self) {
        let (folder, signers) = (tempfile::tempdir().unwrap(), Signers::new());
        let process = Self::start_process(folder.path(), &signers, watch_ms);
        (folder, Self { process, signers, watch_ms })
    }

    fn start_process(folder: &Path, signers: &Signers, watch_ms: &str) -> Process {
        let overrides = [&signers.settings("required")[..], &[("policy_watch_ms", watch_ms)]].concat();
        Process::start(folder, None, &overrides)
    }

    /// Kills the gateway and starts it again.
    fn restart(&mut self, folder: &Path) {
        self.process.kill();
        self.process = Self::start_process(folder, &self.signers, self.watch_ms);
    }

    /// Submits a key creation; returns its view.
    fn submit_key(&self) -> Value {
        self.submit("/v1/custody/keys", &custody::key("treasury-1"))
    }

    /// Status and body of the answer to an approval of a key creation.
    fn approve_key(&self, view: &Value, subject: &str) -> (u16, Value) {
        self.process.call("POST", &custody::path(view, "/approve"), Some(&self.signers.body(view, subject)))
    }

    #[track_caller]
    fn submit(&self, path: &str, body: &Value) -> Value {
        self.process.post(path, Some(body))["operation"].clone()
    }

    fn submit_payment(&self, name: &str) -> Value {
        self.submit("/v1/operations/sign", &payment(name))
    }

    /// The status of the answer to an approval of a payment, and the operation's state or the error message.
    fn approve_payment(&self, view: &Value, subject: &str) -> (u16, String) {
        let body = self.signers.body(view, subject);
        let (status, answer) = self.process.call("POST", &path(view, "/approve"), Some(&body));
        let outcome = answer["state"].as_str().or(answer["message"].as_str());
        (status, outcome.unwrap_or_default().to_owned())
    }

    /// Writes the registry, sends SIGHUP, and waits for this line of the log.
    fn reload(&mut self, text: &str, line: &str) {
        fs::write(self.signers.path(), text).unwrap();
        self.process.sighup();
        self.process.wait_for_line(line);
    }
}

#[test]
fn revoked_approver_is_rejected_by_gateway_and_authority() {
    let (_folder, mut desk) = Desk::start();
    let create = desk.submit_key();
    for subject in ["alice", "bob"] {
        assert_eq!(desk.approve_key(&create, subject).0, 200);
    }
    assert_eq!(desk.process.call("POST", &custody::path(&create, "/execute"), None).0, 200);
    let (approved, fresh) = (desk.submit_payment("approved before"), desk.submit_payment("fresh"));
    assert_eq!(desk.approve_payment(&approved, "alice"), (200, "pending_approval".to_owned()));

    let mut entries = desk.signers.entries();
    let original = registry(&entries);
    entries[0]["keys"][0]["revoked_at_ms"] = json!(1);
    desk.reload(&registry(&entries), "reloaded approvers");
    let (status, message) = desk.approve_payment(&fresh, "alice");
    assert!(status == 403 && message.contains("`key_revoked`"), "{status} {message}");
    // Her approval that counted earlier no longer does, which is shown at once, and others take her place.
    let shown = || desk.process.get(&path(&approved, ""))["approvals"].clone();
    let lapsed = json!([{ "subject_id": "alice", "reason": "key_revoked" }]);
    assert_eq!((&shown()["approved"], &shown()["lapsed"]), (&json!(0), &lapsed));
    assert_eq!(desk.approve_payment(&approved, "bob"), (200, "pending_approval".to_owned()));
    assert_eq!((&shown()["subjects"], &shown()["lapsed"]), (&json!(["bob"]), &lapsed));
    assert_eq!(desk.approve_payment(&approved, "tina"), (200, "admitted".to_owned()));
    assert_eq!((&shown()["subjects"], &shown()["lapsed"]), (&json!(["bob", "tina"]), &lapsed));

    // With an invalid registry, the previous one does not stay in use.
    desk.reload("{", UNUSABLE);
    assert_eq!(desk.approve_payment(&fresh, "tina").0, 503);
    desk.reload(&original, "reloaded approvers");
    assert_eq!(desk.approve_payment(&fresh, "tina"), (200, "pending_approval".to_owned()));
    assert_eq!(desk.approve_payment(&fresh, "alice"), (200, "admitted".to_owned()));
}

/// The authority has a registry of its own, and knows of a revocation first.
#[test]
fn approval_that_only_the_authority_knows_to_be_revoked_lapses() {
    let signers = Signers::new();
    let mut entries = signers.entries();
    entries[0]["keys"][0]["revoked_at_ms"] = json!(1);
    let revoked = signers.folder().join("revoked.json");
    fs::write(&revoked, registry(&entries)).unwrap();
    let mut cluster = Cluster::prepare(5, |port| port);
    cluster.set_everywhere(&[("signed_approvals", "required"), ("approvers_file", signers.path())]);
    (0..5).for_each(|index| cluster.start_node(index));
    cluster.start_gateway();
    let address = cluster.address().to_owned();
    let submit = |path: &str, body: &Value| post(&address, path, Some(body)).unwrap()["operation"].clone();
    let approve = |path: &str, view: &Value, subject: &str| {
        let (status, answer) = request(&address, "POST", path, Some(&signers.body(view, subject))).unwrap();
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let create = submit(custody::KEYS, &custody::key("treasury-1"));
    for subject in ["alice", "bob"] {
        approve(&custody::path(&create, "/approve"), &create, subject);
    }
    post(&address, &custody::path(&create, "/execute"), None).unwrap();

    cluster.set_at_authority(0, "approvers_file", revoked.to_str().unwrap());
    let payment = submit(SIGN, &payment("revoked"));
    let approving = path(&payment, "/approve");
    approve(&approving, &payment, "alice");
    let view = approve(&approving, &payment, "bob");
    assert_eq!(view["state"], "pending_approval");
    assert_eq!(view["approvals"]["subjects"], json!(["bob"]));
    let lapsed = json!([{ "subject_id": "alice", "reason": "key_revoked" }]);
    assert_eq!(view["approvals"]["lapsed"], lapsed);
    assert_eq!(approve(&approving, &payment, "tina")["state"], "admitted");
    cluster.stop();
}

/// Waits until readiness reports this status of the registry; returns the answer.
#[track_caller]
fn wait_for_status(desk: &Desk, status: &str) -> (u16, Value) {
    poll(|| desk.process.readiness(), |(_, ready)| ready["checks"]["approvers"]["status"] == status)
}

#[test]
fn unreadable_registry_rejects_all_approvals_and_recovers() {
    let (folder, mut desk) = Desk::with_watch("20");
    let registry = fs::read_to_string(desk.signers.path()).unwrap();
    let operation = desk.submit_key();
    for damaged in [Some(""), Some("{"), Some(r#"{"format":"svc/approvers/v1","approvers":[]}"#), None] {
        match damaged {
            Some(text) => replace(desk.signers.path().as_ref(), text.as_bytes()),
            None => fs::remove_file(desk.signers.path()).unwrap(),
        }
        let (code, ready) = wait_for_status(&desk, "failed");
        assert_eq!((code, &ready["status"]), (503, &json!("not_ready")), "{ready}");
        let detail = ready["checks"]["approvers"]["detail"].as_str().unwrap();
        assert!(detail.contains("no approval counts until it is right"), "{detail}");
        assert!(text(&desk.process.address, "/metrics").contains("operation_gateway_approvers_verifiable 0"));
        let (status, answer) = desk.approve_key(&operation, "alice");
        assert_eq!((status, &answer["error"]), (503, &json!("policy_unavailable")), "{answer}");
        let view = desk.process.call("GET", &custody::path(&operation, ""), None).1;
        assert_eq!(view["approvals"], operation["approvals"], "something was stored");
        // A gateway that starts with an invalid registry serves requests, and reports it too.
        desk.restart(folder.path());
        wait_for_status(&desk, "failed");
        assert_eq!(desk.approve_key(&operation, "alice").0, 503);
        replace(desk.signers.path().as_ref(), registry.as_bytes());
        assert_eq!(wait_for_status(&desk, "ok").0, 200);
    }
    assert_eq!(desk.approve_key(&operation, "alice").0, 200);
    assert_eq!(desk.approve_key(&operation, "bob").1["state"], "admitted");
}

/// Everyone in the registry is a treasurer for the policy, and no one of another team.
#[test]
fn group_that_no_one_in_the_registry_can_fill_is_named_at_the_submission() {
    let (folder, site, signers) = (tempfile::tempdir().unwrap(), Site::new(), Signers::new());
    site.offer(&grouped_bundle(1, &key(1)));
    let at = |name: &str| site.path(name).display().to_string();
    let (bundle, trust) = (at("bundle"), at("trust.json"));
    let policy = [("policy_bundle", bundle.as_str()), ("policy_trust_roots", &trust)];
    let start = |rule| Process::start(folder.path(), None, &[&signers.settings(rule)[..], &policy].concat());
    let process = start("required");
    let create = process.post("/v1/custody/keys", Some(&custody::key("treasury-1")))["operation"].clone();
    for subject in ["alice", "bob"] {
        process.post(&custody::path(&create, "/approve"), Some(&signers.body(&create, subject)));
    }
    process.post(&custody::path(&create, "/execute"), None);
    process.terminate();
    for (rule, n_warnings) in [("required", 1), ("optional", 0)] {
        let process = start(rule);
        let operation = process.post("/v1/operations/sign", Some(&payment(rule)))["operation"].clone();
        let groups = operation["approvals"]["missing"].as_array().unwrap().iter().map(|it| &it["group"]);
        assert_eq!(groups.collect::<Vec<_>>(), [&json!(null), &json!("treasurer"), &json!("other_team")]);
        let warnings: Vec<_> = operation["warnings"].as_array().unwrap().iter().collect();
        let of_groups = warnings.iter().filter(|it| it["code"] == "group_cannot_be_filled");
        let of_groups: Vec<_> = of_groups.map(|it| it["message"].as_str().unwrap()).collect();
        assert_eq!(of_groups.len(), n_warnings, "{rule}: {operation}");
        assert!(of_groups.iter().all(|it| it.contains("lack 1 of other_team")), "{of_groups:?}");
        process.terminate();
    }
}
