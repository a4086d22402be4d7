//! A policy that fails in the middle of an operation: the operation stays as it was, and the fault is recorded.

use crate::harness::bundles::{Site, key, release, starved_release, undeclaring_release, wait_until_active};
use crate::harness::custody;
use crate::harness::process::{Process, stdout};
use crate::harness::samples::{approval, path, payment};
use gateway_policy::BundleFiles;
use serde_json::{Value, json};

/// Neither first use nor the reconciler creates the payment's key or admits the payment, so the test decides when that happens.
const RULES: [(&str, &str); 3] =
    [("auto_provision_keys", "false"), ("policy_watch_ms", "10"), ("reconcile_every_ms", "3600000")];

/// A running gateway and one payment.
struct Gateway {
    site: Site,
    process: Process,
    payment: Value,
}

impl Gateway {
    /// The answer of a POST that must have this status.
    fn post(&self, path: &str, body: &Value, expected: u16) -> Value {
        let (status, answer) = self.process.call("POST", path, Some(body));
        assert_eq!(status, expected, "{path}: {answer}");
        answer
    }

    fn activate(&self, bundle: &BundleFiles) {
        self.site.offer(bundle);
        wait_until_active(&self.process.address, bundle);
    }

    fn approve(&self, subject: &str, expected: u16) -> Value {
        self.post(&path(&self.payment, "/approve"), &approval(subject), expected)
    }

    fn view(&self) -> Value {
        self.process.get(&path(&self.payment, ""))
    }

    /// Place, decision, fault and bundle hash of the payment's decisions at this moment, by `decisions export`. Each record must
    /// be intact.
    fn exported(&self, moment: &str) -> Vec<[String; 4]> {
        let out = stdout(self.site.run(&["decisions", "export"]));
        let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let ours = lines.filter(|line| {
            line["operation_id"] == self.payment["operation_id"] && line["input"]["moment"] == moment
        });
        let text = |line: &Value, pointer: &str| {
            line.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        ours.map(|line| {
            assert_eq!(line["intact"], true, "{line}");
            ["/place", "/outcome/decision", "/outcome/fault", "/outcome/bundle_hash"]
                .map(|pointer| text(&line, pointer))
        })
        .collect()
    }
}

/// A record as [`Gateway::exported`] returns it.
fn record(place: &str, decision: &str, fault: &str, bundle: &BundleFiles) -> [String; 4] {
    [place, decision, fault, &bundle.bundle_hash().unwrap().to_string()].map(str::to_owned)
}

#[test]
fn policy_fault_at_approval_or_admission_is_recorded_and_changes_nothing() {
    let [good, starved_at_approval, good_again, starved_at_admission, good_at_last] = [
        release(1, &key(1)),
        starved_release(2, &key(1)),
        release(3, &key(1)),
        starved_release(4, &key(1)),
        release(5, &key(1)),
    ];
    let site = Site::new();
    site.offer(&good);
    let process = site.start_with(&RULES, None);
    let mut gateway = Gateway { site, process, payment: Value::Null };
    let create = gateway.post("/v1/custody/keys", &custody::key("treasury-1"), 200)["operation"].clone();
    for subject in ["alice", "bob"] {
        gateway.post(&custody::path(&create, "/approve"), &approval(subject), 200);
    }
    gateway.payment = gateway.post("/v1/operations/sign", &payment("faulty"), 200)["operation"].clone();

    gateway.activate(&starved_at_approval);
    let refused = gateway.approve("alice", 503);
    assert_eq!(refused["error"], "policy_unavailable", "{refused}");
    assert_eq!(
        (&gateway.view()["state"], &gateway.view()["approvals"]["approved"]),
        (&json!("pending_approval"), &json!(0))
    );
    let at_approval = [record("refusal", "DENY", "out_of_fuel", &starved_at_approval)];
    assert_eq!(gateway.exported("approval"), at_approval);

    // The payment waits with its approvals until its key exists.
    gateway.activate(&good_again);
    for subject in ["alice", "bob"] {
        gateway.approve(subject, 200);
    }
    assert_eq!(gateway.exported("admission"), [] as [[String; 4]; 0]);
    gateway.activate(&starved_at_admission);
    gateway.post(&custody::path(&create, "/execute"), &json!({}), 200);
    for _ in 0..2 {
        let refused = gateway.approve("bob", 503);
        assert_eq!(refused["error"], "policy_unavailable", "{refused}");
    }
    assert_eq!(gateway.view()["state"], "pending_approval");
    let at_admission = record("refusal", "DENY", "out_of_fuel", &starved_at_admission);
    assert_eq!(
        gateway.exported("admission"),
        std::slice::from_ref(&at_admission),
        "evaluated twice, recorded once"
    );

    gateway.activate(&good_at_last);
    assert_eq!(gateway.approve("bob", 200)["state"], "admitted");
    let admitted = record("operation", "ALLOW", "", &good_at_last);
    let mut admissions = gateway.exported("admission");
    admissions.sort();
    assert_eq!(admissions, [admitted, at_admission]);
}

#[test]
fn fact_that_the_manifest_does_not_declare_is_named_to_client_and_operator() {
    let site = Site::new();
    site.offer(&undeclaring_release(1, &key(1)));
    let mut process = site.start(0, None);
    let (status, refused) = process.call("POST", "/v1/operations/sign", Some(&payment("undeclared")));
    assert_eq!((status, &refused["error"]), (503, &json!("policy_unavailable")), "{refused}");
    let undeclared = "undeclared_fact `deployment.permitted_recipients`";
    assert!(refused["message"].as_str().unwrap().contains(undeclared), "{refused}");
    let line = process.wait_for_line("policy evaluation failed");
    assert!(line.contains(undeclared), "{line}");
}
