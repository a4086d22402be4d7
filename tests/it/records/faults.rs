//! A policy that fails in the middle of an operation. Its fault is a denial, recorded once, and no request is to be sent again.

use crate::harness::bundles::{
    FUEL_STARVED, Site, key, release, starved_release, undeclaring_release, wait_until_active,
};
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
            ["/place", "/outcome/decision", "/outcome/fault/kind", "/outcome/bundle_hash"]
                .map(|pointer| text(&line, pointer))
        })
        .collect()
    }
}

/// A record as [`Gateway::exported`] returns it.
fn record(place: &str, decision: &str, fault: &str, bundle: &BundleFiles) -> [String; 4] {
    [place, decision, fault, &bundle.bundle_hash().unwrap().to_string()].map(str::to_owned)
}

/// A refusal by a starved policy, with what its author needs to mend it.
#[track_caller]
fn assert_starved(refused: &Value) {
    assert_eq!(refused["error"], "policy_rejected", "{refused}");
    let fault = format!("{FUEL_STARVED} fuel, all that is allowed");
    let operands = json!([{ "name": "fault", "value": fault }]);
    assert_eq!(
        refused["reasons"],
        json!([{ "code": "policy_fault:out_of_fuel", "operands": operands, "text": "", "remedy": "" }])
    );
    assert!(!refused["message"].as_str().unwrap().contains("again"), "{refused}");
}

#[test]
fn policy_fault_refuses_an_approval_and_ends_an_operation_at_its_admission() {
    let [good, starved_at_approval, good_again, starved_at_admission] =
        [release(1, &key(1)), starved_release(2, &key(1)), release(3, &key(1)), starved_release(4, &key(1))];
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
    assert_starved(&gateway.approve("alice", 403));
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
    assert_starved(&gateway.approve("bob", 403));
    let view = gateway.view();
    assert_eq!(
        (&view["state"], &view["failure"]["code"]),
        (&json!("failed"), &json!("policy_rejected")),
        "{view}"
    );
    let at_admission = record("operation", "DENY", "out_of_fuel", &starved_at_admission);
    assert_eq!(gateway.exported("admission"), [at_admission]);
}

#[test]
fn fact_that_the_manifest_does_not_declare_is_named_to_client_and_operator() {
    let site = Site::new();
    site.offer(&undeclaring_release(1, &key(1)));
    let mut process = site.start(0, None);
    let (status, refused) = process.call("POST", "/v1/operations/sign", Some(&payment("undeclared")));
    assert_eq!((status, &refused["error"]), (403, &json!("policy_rejected")), "{refused}");
    let (kind, fact) = ("undeclared_fact", "`deployment.permitted_recipients`");
    assert!(
        refused["message"].as_str().unwrap().ends_with(&format!("policy_fault:{kind}: fault {fact}")),
        "{refused}"
    );
    let line = process.wait_for_line("policy evaluation failed");
    assert!(line.contains(kind) && line.contains(fact), "{line}");
}
