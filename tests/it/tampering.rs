//! Changes by another program to the database of a stopped gateway: the affected record is frozen and named, nothing is
//! signed, and other records are unaffected.

use crate::harness::bundles::{Site, key, release};
use crate::harness::process::{EXECUTE, Process, SIGN, drive, publish};
use crate::harness::samples::{approval, payment, publication, with};
use crate::ledger::history::execute;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

#[tokio::main(flavor = "current_thread")]
async fn tamper(database: &Path, sql: &str) {
    execute(database, sql).await;
}

fn on(key_ref: &str, idempotency_key: &str) -> Value {
    with(payment(idempotency_key), "/key_ref", json!(key_ref))
}

fn submit(process: &Process, body: &Value) -> String {
    let view = process.post(SIGN, Some(body));
    view["operation"]["operation_id"].as_str().unwrap().to_owned()
}

fn path(id: &str, action: &str) -> String {
    format!("/v1/operations/{id}{action}")
}

/// Drives it from submission to publication.
fn pay(process: &Process, body: &Value) -> String {
    let view = drive(&process.address, SIGN, body, &[EXECUTE, publish()]).unwrap();
    view["operation_id"].as_str().unwrap().to_owned()
}

/// The readiness detail on records, once `holds`.
fn records(process: &Process, holds: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let (_, readiness) = process.call("GET", "/readyz", None);
        if holds(&readiness["checks"]["records"]) {
            return readiness;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{readiness:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An attack that once worked: with approvals and phase written into the row, the gateway admitted, executed and published.
#[test]
fn approvals_written_into_the_database_give_no_signature() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("gateway.db");
    let mut process = Process::start(folder.path(), None, &[]);
    let sound = pay(&process, &on("treasury-1", "sound"));
    let victim = submit(&process, &on("treasury-1", "victim"));
    let waiting = submit(&process, &on("treasury-1", "waiting"));
    process.kill();
    let approvals = json!([
        { "subject_id": "mallory", "roles": ["approver"], "claimed_at_ms": 1, "approved_at_ms": 1 },
        { "subject_id": "oscar", "roles": ["approver"], "claimed_at_ms": 1, "approved_at_ms": 1 }
    ]);
    let attack = format!(
        "CREATE TABLE saved AS SELECT body FROM operations WHERE operation_id = x'{victim}';
         UPDATE operations SET owes = 1, awaits_approvals = 0,
         body = json_set(body, '$.approvals', json('{approvals}'), '$.phase', json('{{\"name\":\"deciding\"}}'))
         WHERE operation_id = x'{victim}'"
    );
    tamper(&database, &attack);

    let process = Process::start(folder.path(), None, &[]);
    // The reconciler would drive it, but cannot.
    let readiness = records(&process, |records| records["status"] == "failed");
    assert_eq!(readiness["status"], "not_ready");
    let detail = readiness["checks"]["records"]["detail"].as_str().unwrap();
    assert!(
        detail.contains(&victim) && detail.contains("operations") && !detail.contains(&waiting),
        "{detail}"
    );
    for (method, action, body) in [
        ("GET", "", None),
        ("GET", "/audit-replay", None),
        ("GET", "/evidence", None),
        ("POST", "/approve", Some(approval("alice"))),
        ("POST", "/execute", None),
        ("POST", "/publish", Some(publication())),
    ] {
        let (status, answer) = process.call(method, &path(&victim, action), body.as_ref());
        assert_eq!((status, &answer["error"]), (500, &json!("internal_error")), "{action}: {answer}");
    }
    let (status, _) = process.call("POST", "/v1/operations/sign", Some(&on("treasury-1", "victim")));
    assert_eq!(status, 500, "a repeated submission is the same operation");
    // Other operations are unaffected.
    assert_eq!(process.call("GET", &path(&sound, ""), None).1["state"], "published");
    assert_eq!(process.call("GET", &path(&waiting, ""), None).1["state"], "pending_approval");
    pay(&process, &on("treasury-1", "later"));
    // Restored, it continues from its real phase.
    let restored = format!(
        "UPDATE operations SET owes = 0, awaits_approvals = 1, body = (SELECT body FROM saved)
         WHERE operation_id = x'{victim}'; DROP TABLE saved"
    );
    tamper(&database, &restored);
    assert_eq!(process.call("GET", &path(&victim, ""), None).1["state"], "pending_approval");
    assert_eq!(records(&process, |records| records["status"] == "ok")["status"], "ready");
}

/// Payments go to the address that a reader gets from the gateway.
#[test]
fn public_key_written_into_the_database_is_never_returned() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path(), None, &[]);
    pay(&process, &on("treasury-1", "one"));
    pay(&process, &on("treasury-2", "two"));
    process.kill();
    let attack = "UPDATE custody_keys SET body = json_set(body, '$.public.public_key_hex',
        '0000000000000000000000000000000000000000000000000000000000000001') WHERE key_ref = 'treasury-1'";
    tamper(&folder.path().join("gateway.db"), attack);
    let process = Process::start(folder.path(), None, &[]);
    let (status, answer) = process.call("GET", "/v1/custody/keys/treasury-1", None);
    assert_eq!((status, &answer["error"]), (500, &json!("internal_error")), "{answer}");
    let (status, answer) = process.call("POST", "/v1/operations/sign", Some(&on("treasury-1", "three")));
    assert_eq!((status, &answer["error"]), (500, &json!("internal_error")), "{answer}");
    assert_eq!(process.call("GET", "/v1/custody/keys/treasury-2", None).1["state"], "active");
    pay(&process, &on("treasury-2", "four"));
}

/// The high-water mark is an entry of the log: without it, an older bundle would be accepted again.
#[test]
fn deleting_the_newest_activation_does_not_restore_the_older_bundle() {
    let site = Site::new();
    let (old, new) = (release(5, &key(1)), release(6, &key(1)));
    site.offer(&old);
    site.start(0, None).kill();
    site.offer(&new);
    let mut process = site.start(0, None);
    submit(&process, &payment("decided-under-the-new-one"));
    process.kill();
    site.offer(&old);
    let attack =
        "DROP TRIGGER policy_activations_are_not_removed; DELETE FROM policy_activations WHERE sequence = 6;
        UPDATE sqlite_sequence SET seq = 5 WHERE name = 'policy_activations'";
    tamper(&site.path("gateway.db"), attack);
    let line = site.refused();
    assert!(
        line.contains("the log of events is damaged: an event or a policy activation is missing"),
        "{line}"
    );
}
