//! `kill -9` of the real process while an operation waits for the time before which the policy does not admit it, and when that is
//! reached.

use crate::harness::bundles::{Site, key, obliging_bundle};
use crate::harness::process::{Process, SIGN, drive, publish_step};
use crate::harness::samples::{path, payment};
use crate::harness::verify;
use crate::harness::wire::poll;
use gateway_engine::ports::ReadClock as _;
use operation_gateway::SystemClock;
use serde_json::{Value, json};

/// How long operations wait: longer than a start of the process takes on a slow machine.
const WAIT_MS: u64 = 20_000;

/// A site whose policy admits nothing before the time that is returned.
fn waiting_site() -> (Site, u64) {
    let (site, until) = (Site::new(), SystemClock.now().0 + WAIT_MS);
    site.offer(&obliging_bundle(("admit_not_before", "at_ms", until), 1, &key(1)));
    (site, until)
}

fn submitted(address: &str) -> std::io::Result<Value> {
    drive(address, SIGN, &payment("waits"), &[])
}

/// Waits until the operation is admitted, without any request but reads, and checks that it was at its time and once.
fn assert_admitted_at(process: &Process, view: &Value, until: u64) {
    let admitted = poll(|| process.get(&path(view, "")), |view| view["state"] == "admitted");
    assert!(SystemClock.now().0 >= until, "before its time");
    assert_eq!(admitted["approvals"]["admit_not_before_ms"], Value::Null);
    let audit = process.get(&path(view, "/audit-replay"));
    let events: Vec<_> = audit["events"].as_array().unwrap().iter().map(|entry| &entry["event"]).collect();
    for once in ["quorum_reached", "admission_postponed", "admission_resumed", "decision_signed"] {
        let times: Vec<_> = events
            .iter()
            .filter(|event| event["change"]["type"] == once)
            .map(|event| event["at_ms"].as_u64().unwrap())
            .collect();
        assert_eq!(times.len(), 1, "`{once}` {audit}");
        let is_after = ["admission_resumed", "decision_signed"].contains(&once);
        assert_eq!(times[0] >= until, is_after, "`{once}` {audit}");
    }
    process.post(&path(view, "/execute"), None);
    let (publish, body) = publish_step();
    verify::bip340(&process.post(&path(view, publish), body.as_ref()));
}

#[test]
fn kill_while_an_operation_waits_loses_neither_the_wait_nor_its_end() {
    let (site, until) = waiting_site();
    let mut process = site.start(0, None);
    let view = submitted(&process.address).unwrap();
    let waits = (&view["state"], &view["approvals"]["admit_not_before_ms"]);
    assert_eq!(waits, (&json!("pending_approval"), &json!(until)));
    process.kill();
    let process = site.start(0, None);
    assert_eq!(process.get(&path(&view, ""))["approvals"], view["approvals"], "it still waits");
    assert_admitted_at(&process, &view, until);
}

#[test]
fn kill_when_the_time_is_reached_loses_nothing() {
    // The reconciler's commit of the event that ends the wait, and the decision: the creation of the key passes it first.
    for point in ["performed-decision:2", "performed-admission:2"] {
        let (site, until) = waiting_site();
        let mut process = site.start(0, Some(point));
        let view = submitted(&process.address).unwrap();
        process.wait_for_line("failpoint ");
        assert!(SystemClock.now().0 >= until, "{point}: before its time");
        process.kill();
        assert_admitted_at(&site.start(0, None), &view, until);
    }
}
