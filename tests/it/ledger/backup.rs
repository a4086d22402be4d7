//! The real process: a backup beside it, and an older copy that takes the place of its database.

use crate::harness::consumer::{Consumer, write_file};
use crate::harness::process::{EXECUTE, Process, SIGN, drive, error_line, publish_step, run, stdout};
use crate::harness::samples::{approval, path, payment};
use crate::harness::verify;
use crate::harness::wire::poll;
use gateway_client::{Error, Event, Filter, Gateway, Start};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

fn pay(process: &Process, idempotency_key: &str) -> Value {
    let view = drive(&process.address, SIGN, &payment(idempotency_key), &[EXECUTE, publish_step()]).unwrap();
    assert_eq!(view["state"], "published", "{view}");
    view
}

#[test]
fn older_copy_is_noticed_and_not_continued_until_the_loss_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup.db");
    let backup = backup.to_str().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let before = pay(&process, "before");
    let out = stdout(run(folder.path(), &[], &["backup", backup]));
    assert!(
        out.contains("nothing is wrong") && out.ends_with(&format!("the backup is `{backup}`\n")),
        "{out}"
    );
    let lost = pay(&process, "lost");
    let (code, _, busy) = run(folder.path(), &[], &["restore", backup]);
    assert!(code == 2 && busy.contains("is already open in another process"), "{busy}");
    process.terminate();
    let out = stdout(run(folder.path(), &[], &["restore", backup]));
    assert!(out.contains(&format!("restored `{backup}`\nthe database that was there is kept as ")), "{out}");

    let process = Process::start(folder.path(), None, &[]);
    let (status, readiness) = process.readiness();
    let id = lost["operation_id"].as_str().unwrap();
    let detail = readiness["checks"]["store"]["detail"].as_str().unwrap();
    assert_eq!(status, 503, "{readiness}");
    assert!(
        detail.contains("older copy") && detail.contains(&format!("lost_operations={id}")),
        "{readiness}"
    );
    assert_eq!(process.get(&path(&before, ""))["state"], "published");
    let (status, refused) = process.call("POST", SIGN, Some(&payment("after")));
    assert_eq!((status, &refused["error"]), (503, &json!("store_unavailable")), "{refused}");
    let (_, log) = process.terminate();
    assert!(log.iter().any(|line| line.contains("older copy") && line.contains("\"ERROR\"")), "{log:?}");

    let process = Process::start(folder.path(), None, &[("lost_operations", id)]);
    assert_eq!(process.readiness().0, 200);
    verify::bip340(&pay(&process, "after"));
    process.terminate();
    // The nodes' newest operation is one that the database has again.
    let process = Process::start(folder.path(), None, &[]);
    assert_eq!(process.readiness().0, 200);
    pay(&process, "and on");
}

/// A reader who goes on after an event that the older copy lacks would miss what happens instead.
#[test]
fn reader_of_events_learns_that_an_older_copy_was_restored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let backup = folder.join("backup.db");
    let backup = backup.to_str().unwrap();
    let mut consumer = Consumer::start(1);
    let file = write_file(folder, &[consumer.entry(folder, "books", &[1])]);
    let webhooks = ("webhooks_file", file.to_str().unwrap());
    let process = Process::start(folder, None, &[webhooks]);
    poll(|| process.get("/v1/webhooks"), |all| all["webhooks"][0]["is_sent_to"] == true);
    pay(&process, "before");
    let accepted =
        |consumer: &Consumer| consumer.state().accepted.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    let position =
        |process: &Process| process.get("/v1/webhooks")["webhooks"][0]["position"].as_u64().unwrap();
    let kept = last_id(&process, "before");
    poll(|| position(&process), |position| *position > index(&kept));
    stdout(run(folder, &[], &["backup", backup]));
    let lost = pay(&process, "lost");
    let unknown = last_id(&process, "lost");
    poll(|| position(&process), |position| *position > index(&unknown));
    let exported = stdout(run(folder, &[], &["decisions", "export"]));
    let last: Value = serde_json::from_str(exported.lines().last().unwrap()).unwrap();
    let cursor = last["cursor"].as_str().unwrap();
    assert_eq!(stdout(run(folder, &[], &["decisions", "export", "--after", cursor])), "");
    process.terminate();
    consumer.down();
    stdout(run(folder, &[], &["restore", backup]));
    let accept = ("lost_operations", lost["operation_id"].as_str().unwrap());
    let process = Process::start(folder, None, &[webhooks, accept]);

    // The log is shorter; then it has the index again, with another event.
    for is_again in [false, true] {
        let refused = error_line(run(folder, &[], &["decisions", "export", "--after", cursor]), 1);
        assert!(refused.contains("restored from an older copy"), "{refused}");
        for start in [Start::After(unknown.clone()), Start::At(index(&unknown) + 1)] {
            if matches!(start, Start::At(_)) && is_again {
                continue;
            }
            let refused = next_event(&process, start.clone()).unwrap_err();
            assert_eq!(refused.code(), Some("event_not_in_log"), "{start:?}: {refused}");
        }
        if !is_again {
            pay(&process, "after");
            pay(&process, "and on");
            assert!(index(&last_id(&process, "and on")) > index(&unknown));
        }
    }
    let first = next_event(&process, Start::After(kept.clone())).unwrap();
    assert!(index(&first.id) > index(&kept));
    let after = operation(&process, "after");
    assert_eq!((first.operation_id.as_str(), first.seq), (after.as_str(), 1), "nothing of it is missed");

    // The place of a webhook is a part of the copy.
    let before = accepted(&consumer);
    assert!(position(&process) <= index(&first.id));
    consumer.up();
    let expected: Vec<_> = process.get(&format!("/v1/operations/{after}/audit-replay"))["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["event_hash"].as_str().unwrap().to_owned())
        .collect();
    poll(
        || accepted(&consumer),
        |all| expected.iter().all(|hash| all.contains(hash) && !before.contains(hash)),
    );
}

/// The first event that fits, of a stream that begins there.
fn find_event(process: &Process, start: Start, fits: impl Fn(&Event) -> bool) -> Result<Event, Error> {
    let gateway = Gateway::builder(&format!("http://{}", process.address)).unwrap().build().unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut events = gateway.events(&Filter::default(), start);
        loop {
            let event = tokio::time::timeout(Duration::from_secs(30), events.next()).await.unwrap()?;
            if fits(&event) {
                return Ok(event);
            }
        }
    })
}

fn next_event(process: &Process, start: Start) -> Result<Event, Error> {
    find_event(process, start, |_| true)
}

fn index(id: &str) -> u64 {
    id.split_once('-').unwrap().0.parse().unwrap()
}

fn operation(process: &Process, idempotency_key: &str) -> String {
    let again = process.post(SIGN, Some(&payment(idempotency_key)));
    again["operation"]["operation_id"].as_str().unwrap().to_owned()
}

/// The id of the last event of a published payment.
fn last_id(process: &Process, idempotency_key: &str) -> String {
    let operation = operation(process, idempotency_key);
    let is_last = |event: &Event| event.operation_id == operation && event.kind == "published";
    find_event(process, Start::At(0), is_last).unwrap().id
}

/// The nodes keep what they signed: the gateway's loss does not make them sign it once more.
#[test]
fn payment_that_was_signed_and_lost_is_not_signed_again() {
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup.db");
    let process = Process::start(folder.path(), None, &[]);
    pay(&process, "before");
    stdout(run(folder.path(), &[], &["backup", backup.to_str().unwrap()]));
    let lost = pay(&process, "lost");
    process.terminate();
    stdout(run(folder.path(), &[], &["restore", backup.to_str().unwrap()]));
    let id = lost["operation_id"].as_str().unwrap();
    let process = Process::start(folder.path(), None, &[("lost_operations", id)]);
    let again = process.post(SIGN, Some(&payment("lost")));
    assert_eq!(again["operation"]["operation_id"], id);
    process.post(&path(&lost, "/approve"), Some(&approval("alice")));
    let (status, refused) = process.call("POST", &path(&lost, "/approve"), Some(&approval("bob")));
    let message = refused["message"].as_str().unwrap();
    assert!(status == 503 && message.contains("the operation was admitted by another decision"), "{refused}");
    let view = process.get(&path(&lost, ""));
    assert_eq!(
        (&view["failure"]["code"], &view["result"]),
        (&json!("admission_conflict"), &json!({})),
        "{view}"
    );
}

#[test]
fn only_decisions_of_the_pinned_authority_show_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    pay(&process, "before");
    process.terminate();
    let start_without = |names: &[&str]| {
        names.iter().for_each(|name| fs::remove_file(folder.path().join(name)).unwrap());
        let process = Process::start(folder.path(), None, &[]);
        let (status, readiness) = process.readiness();
        process.terminate();
        (status, readiness["checks"]["store"]["status"].clone())
    };
    assert_eq!(start_without(&["gateway.db"]), (503, json!("failed")));
    assert_eq!(start_without(&["gateway.db", "authority.key"]).1, "ok");
}

#[test]
fn damaged_backup_is_refused_and_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup.db");
    let process = Process::start(folder.path(), None, &[]);
    let before = pay(&process, "before");
    process.terminate();
    stdout(run(folder.path(), &[], &["backup", backup.to_str().unwrap()]));
    let damage = "UPDATE operations SET state = 'failed' WHERE state = 'published'";
    tokio::runtime::Runtime::new().unwrap().block_on(super::history::run_sql(&backup, damage));
    let (code, out, err) = run(folder.path(), &[], &["restore", backup.to_str().unwrap()]);
    assert!(code == 2 && out.contains("operations, operation_id"), "{out}");
    assert!(err.contains("the backup is damaged, and nothing was changed"), "{err}");
    let process = Process::start(folder.path(), None, &[]);
    assert_eq!(process.get(&path(&before, ""))["state"], "published");
    let exists = error_line(run(folder.path(), &[], &["backup", backup.to_str().unwrap()]), 2);
    assert!(exists.ends_with("exists already\n"), "{exists}");
    let missing = error_line(run(folder.path(), &[], &["restore", "missing.db"]), 2);
    assert!(missing.contains("does not exist"), "{missing}");
    assert!(fs::metadata(&backup).is_ok());
}
