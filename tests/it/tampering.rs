//! A gateway whose database another program changed while it was stopped: it names the changed record, refuses requests for it,
//! and serves the others.

use crate::harness::bundles::{Site, key, release};
use crate::harness::process::{EXECUTE, Process, SIGN, drive, publish_step};
use crate::harness::samples::{approval, payment, publication, with};
use crate::harness::wire::poll;
use crate::ledger::history::run_sql;
use serde_json::{Value, json};
use std::path::Path;

/// Runs SQL on the database of a stopped gateway.
#[tokio::main(flavor = "current_thread")]
async fn tamper(database: &Path, sql: &str) {
    run_sql(database, sql).await;
}

fn payment_on(key_ref: &str, idempotency_key: &str) -> Value {
    with(payment(idempotency_key), "/key_ref", json!(key_ref))
}

/// Submits a payment; returns its id.
fn submit(process: &Process, body: &Value) -> String {
    let view = process.post(SIGN, Some(body));
    view["operation"]["operation_id"].as_str().unwrap().to_owned()
}

fn path(id: &str, action: &str) -> String {
    format!("/v1/operations/{id}{action}")
}

/// Publishes a payment; returns its id.
fn pay(process: &Process, body: &Value) -> String {
    let view = drive(&process.address, SIGN, body, &[EXECUTE, publish_step()]).unwrap();
    view["operation_id"].as_str().unwrap().to_owned()
}

/// Waits until readiness reports this status of the records; returns the answer.
fn wait_for_records(process: &Process, status: &str) -> Value {
    poll(|| process.readiness().1, |readiness| readiness["checks"]["records"]["status"] == status)
}

/// The attack writes approvals and the phase after them into the operation's row, so that the gateway would go on to admit it.
#[test]
fn approvals_written_into_the_database_give_no_signature() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("gateway.db");
    let mut process = Process::start(folder.path(), None, &[]);
    let untouched = pay(&process, &payment_on("treasury-1", "untouched"));
    let victim = submit(&process, &payment_on("treasury-1", "victim"));
    let waiting = submit(&process, &payment_on("treasury-1", "waiting"));
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
    // The reconciler finds the operation and refuses to continue it.
    let readiness = wait_for_records(&process, "failed");
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
    let (status, _) = process.call("POST", SIGN, Some(&payment_on("treasury-1", "victim")));
    assert_eq!(status, 500, "a repeated submission is the same operation");
    // Other operations are unaffected.
    assert_eq!(process.call("GET", &path(&untouched, ""), None).1["state"], "published");
    assert_eq!(process.call("GET", &path(&waiting, ""), None).1["state"], "pending_approval");
    pay(&process, &payment_on("treasury-1", "later"));
    // With its row restored, the operation continues from its real phase.
    let restored = format!(
        "UPDATE operations SET owes = 0, awaits_approvals = 1, body = (SELECT body FROM saved)
         WHERE operation_id = x'{victim}'; DROP TABLE saved"
    );
    tamper(&database, &restored);
    assert_eq!(process.call("GET", &path(&victim, ""), None).1["state"], "pending_approval");
    assert_eq!(wait_for_records(&process, "ok")["status"], "ready");
}

/// Callers send assets to the address of this public key.
#[test]
fn public_key_written_into_the_database_is_never_returned() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path(), None, &[]);
    pay(&process, &payment_on("treasury-1", "one"));
    pay(&process, &payment_on("treasury-2", "two"));
    process.kill();
    let attack = "UPDATE custody_keys SET body = json_set(body, '$.public.public_key_hex',
        '0000000000000000000000000000000000000000000000000000000000000001') WHERE key_ref = 'treasury-1'";
    tamper(&folder.path().join("gateway.db"), attack);
    let process = Process::start(folder.path(), None, &[]);
    let (status, answer) = process.call("GET", "/v1/custody/keys/treasury-1", None);
    assert_eq!((status, &answer["error"]), (500, &json!("internal_error")), "{answer}");
    let (status, answer) = process.call("POST", SIGN, Some(&payment_on("treasury-1", "three")));
    assert_eq!((status, &answer["error"]), (500, &json!("internal_error")), "{answer}");
    assert_eq!(process.call("GET", "/v1/custody/keys/treasury-2", None).1["state"], "active");
    pay(&process, &payment_on("treasury-2", "four"));
}

/// The activation is also an entry of the log, so the gateway notices that it is missing.
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
    let line = site.start_error();
    assert!(
        line.contains("the log of events is damaged: an event or a policy activation is missing"),
        "{line}"
    );
}
