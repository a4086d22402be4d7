//! Webhooks of the real process: what a consumer gets while the gateway and it are killed, and consumers that misbehave.

use crate::harness::consumer::{Consumer, Mode, write_file};
use crate::harness::payer::{Address, Payer};
use crate::harness::process::{EXECUTE, Process, SIGN, drive, publish_step};
use crate::harness::samples::{payment, with};
use crate::harness::wire::{eventually, poll};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

fn start(folder: &Path, webhooks: &[Value]) -> Process {
    let file = write_file(folder, webhooks);
    Process::start(folder, None, &[("webhooks_file", file.to_str().unwrap())])
}

fn pay(process: &Process, idempotency_key: &str) -> String {
    let steps = [EXECUTE, publish_step()];
    let view = drive(&process.address, SIGN, &payment(idempotency_key), &steps).unwrap();
    view["operation_id"].as_str().unwrap().to_owned()
}

/// Hash and type of each of an operation's events, by its own audit log.
fn audited(process: &Process, operation: &str) -> Vec<(String, String)> {
    let audit = process.get(&format!("/v1/operations/{operation}/audit-replay"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = audit["events"].as_array().unwrap().iter();
    entries.map(|entry| (text(&entry["event_hash"]), text(&entry["event"]["change"]["type"]))).collect()
}

/// The first arrival of each event that the consumer accepted, by operation: ids and types in the order of these arrivals.
fn first_arrivals(consumer: &Consumer) -> BTreeMap<String, Vec<(String, String)>> {
    let (mut known, mut arrivals) = (BTreeSet::new(), BTreeMap::<_, Vec<_>>::new());
    for (id, body) in &consumer.state().accepted {
        let text = |pointer: &str| body.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let operation = text("/data/operation_id");
        assert_eq!(text("/type"), format!("operation.{}", text("/data/type")));
        if known.insert(id.clone()) {
            let of_one = arrivals.entry(operation).or_default();
            of_one.push((id.clone(), text("/data/type")));
            assert_eq!(body["data"]["seq"], of_one.len(), "{id} is out of order");
        }
    }
    arrivals
}

/// Waits until the consumer has every event of these operations.
fn expect_all(process: &Process, consumer: &Consumer, operations: &[String]) {
    let expected: BTreeMap<_, _> =
        operations.iter().map(|one| (one.clone(), audited(process, one))).collect();
    let received = || {
        let mut arrivals = first_arrivals(consumer);
        // Keys that are made on first use have operations of their own.
        arrivals.retain(|operation, _| expected.contains_key(operation));
        arrivals
    };
    poll(received, |received| *received == expected);
}

fn webhook(process: &Process, name: &str) -> Value {
    let all = process.get("/v1/webhooks");
    all["webhooks"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone()
}

#[test]
fn consumer_gets_every_event_in_order_while_it_and_the_gateway_are_killed() {
    const N_KILLS: u64 = 4;
    let folder = tempfile::tempdir().unwrap();
    let mut consumer = Consumer::start(1);
    let entry = consumer.entry(folder.path(), "books", &[1]);
    let mut process = start(folder.path(), std::slice::from_ref(&entry));
    let address = Address::new(&process.address);
    // The place in the log from which events are sent.
    poll(|| process.get("/v1/webhooks"), |all| all["webhooks"][0]["is_sent_to"] == true);
    let payer = Payer::start(&address);
    for nth in 0..N_KILLS {
        payer.pays(nth);
        if nth % 2 == 0 {
            consumer.down();
        }
        process.kill();
        process = start(folder.path(), std::slice::from_ref(&entry));
        address.set(&process.address);
        if nth % 2 == 0 {
            poll(|| webhook(&process, "books"), |state| state["failure"].is_object());
            consumer.up();
        }
    }
    let n_paid = payer.finish();
    let operation = |number: u64| {
        let answer = process.post(SIGN, Some(&payment(&format!("pay-{number}"))));
        answer["operation"]["operation_id"].as_str().unwrap().to_owned()
    };
    let operations: Vec<_> = (0..n_paid).map(operation).collect();
    expect_all(&process, &consumer, &operations);
    let state = poll(
        || webhook(&process, "books"),
        |state| state["position"] == process.get("/v1/webhooks")["log_position"],
    );
    assert_eq!((&state["failure"], &state["dead_letters"]), (&Value::Null, &json!([])), "{state}");
}

#[test]
fn consumer_that_never_answers_delays_neither_requests_nor_other_webhooks() {
    let folder = tempfile::tempdir().unwrap();
    let [silent, other] = [1, 2].map(Consumer::start);
    silent.state().mode = Mode::Silent;
    let entries = [silent.entry(folder.path(), "silent", &[1]), other.entry(folder.path(), "other", &[2])];
    let process = start(folder.path(), &entries);
    let operations: Vec<_> = (0..5).map(|number| pay(&process, &format!("{number}"))).collect();
    expect_all(&process, &other, &operations);
    assert!(silent.state().n_requests > 0 && silent.state().accepted.is_empty());
    let state = poll(|| webhook(&process, "silent"), |state| state["failure"].is_object());
    assert_eq!(state["failure"]["message"], "did not answer within 15 s");
    silent.state().mode = Mode::Accept;
    expect_all(&process, &silent, &operations);
    poll(|| webhook(&process, "silent"), |state| state["failure"].is_null());
}

#[test]
fn redirect_is_not_followed_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let consumer = Consumer::start(1);
    consumer.state().mode = Mode::Redirect;
    let mut process = start(folder.path(), &[consumer.entry(folder.path(), "books", &[1])]);
    let operation = pay(&process, "one");
    process.wait_for_line("a webhook gives no usable answer");
    let state = poll(|| webhook(&process, "books"), |state| state["failure"].is_object());
    assert_eq!(state["failure"]["message"], "answers with status 307: a redirect, which is not followed");
    assert_eq!(consumer.state().n_redirected, 0);
    consumer.state().mode = Mode::Accept;
    expect_all(&process, &consumer, &[operation]);
    assert_eq!(consumer.state().n_redirected, 0);
}

#[test]
fn refused_events_are_passed_over_and_sent_again_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let consumer = Consumer::start(1);
    let process = start(folder.path(), &[consumer.entry(folder.path(), "books", &[1])]);
    let accepted = pay(&process, "accepted");
    expect_all(&process, &consumer, &[accepted]);
    consumer.state().mode = Mode::Status(422);
    let refused = process.post(SIGN, Some(&payment("refused")))["operation"].clone();
    let refused = refused["operation_id"].as_str().unwrap().to_owned();
    let n_events = audited(&process, &refused).len();
    let state = poll(|| webhook(&process, "books"), |state| state["dead_letters_total"] == n_events);
    let letters = state["dead_letters"].as_array().unwrap();
    assert!(letters.len() == n_events && letters[0]["message"] == "answers with status 422", "{state}");
    consumer.state().mode = Mode::Accept;
    let after = pay(&process, "after");
    expect_all(&process, &consumer, &[after]);
    assert!(!first_arrivals(&consumer).contains_key(&refused));
    let resend =
        |from: &Value| process.call("POST", "/v1/webhooks/books/resend", Some(&json!({ "from": from })));
    let (status, state) = resend(&letters[0]["index"]);
    assert_eq!(status, 200, "{state}");
    assert_eq!((&state["dead_letters_total"], &state["position"]), (&json!(0), &letters[0]["index"]));
    expect_all(&process, &consumer, &[refused]);
    let (status, error) = resend(&json!(1_000_000));
    assert_eq!((status, &error["error"]), (400, &json!("invalid_request")), "{error}");
    let (status, _) = process.call("POST", "/v1/webhooks/other/resend", Some(&json!({"from": 0})));
    assert_eq!(status, 404);
}

#[test]
fn secrets_are_changed_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = [1, 2].map(Consumer::start);
    let entries =
        |secrets: &[u8]| [old.entry(folder.path(), "old", secrets), new.entry(folder.path(), "new", secrets)];
    let mut process = start(folder.path(), &entries(&[1]));
    let first = pay(&process, "first");
    expect_all(&process, &old, std::slice::from_ref(&first));
    eventually("the other secret does not verify", || webhook(&process, "new")["failure"].is_object());
    let file = write_file(folder.path(), &entries(&[2, 1]));
    process.sighup();
    process.wait_for_line("reloaded the webhooks");
    // Both secrets sign now; the consumer that knows only the new one gets what it missed.
    expect_all(&process, &new, std::slice::from_ref(&first));
    let second = pay(&process, "second");
    for consumer in [&old, &new] {
        expect_all(&process, consumer, std::slice::from_ref(&second));
    }
    std::fs::write(file, "{").unwrap();
    process.sighup();
    process.wait_for_line("could not reload the webhooks");
    let third = pay(&process, "third");
    expect_all(&process, &new, &[third]);
}

#[test]
fn consumer_that_was_down_gets_everything_soon_after_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut consumer = Consumer::start(1);
    let process = start(folder.path(), &[consumer.entry(folder.path(), "books", &[1])]);
    let before = pay(&process, "before");
    expect_all(&process, &consumer, &[before]);
    consumer.down();
    let operations: Vec<_> = (0..60).map(|number| pay(&process, &format!("{number}"))).collect();
    let n_events: usize = operations.iter().map(|operation| audited(&process, operation).len()).sum();
    // More than one page of the log.
    assert!(n_events > 256, "{n_events}");
    poll(|| webhook(&process, "books"), |state| state["failure"].is_object());
    consumer.up();
    let back = Instant::now();
    expect_all(&process, &consumer, &operations);
    println!("{n_events} events within {:?}", back.elapsed());
}

#[test]
fn webhook_gets_the_events_of_its_tenant_and_states() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other, ended] = [1, 2, 3].map(Consumer::start);
    let entry = |consumer: &Consumer, name, secret, tenant, states: &[&str]| {
        let mut entry = consumer.entry(folder.path(), name, &[secret]);
        entry["tenant"] = json!(tenant);
        entry["states"] = json!(states);
        entry
    };
    let process = start(
        folder.path(),
        &[
            entry(&one, "one", 1, "one", &[]),
            entry(&other, "other", 2, "other", &[]),
            entry(&ended, "ended", 3, "*", &["published", "failed"]),
        ],
    );
    let operations = ["one", "other", "third"].map(|tenant| {
        let body = with(payment("pay"), "/client/tenant", json!(tenant));
        let view = drive(&process.address, SIGN, &body, &[EXECUTE, publish_step()]).unwrap();
        view["operation_id"].as_str().unwrap().to_owned()
    });
    expect_all(&process, &one, &operations[..1]);
    expect_all(&process, &other, &operations[1..2]);
    let states = || {
        let state = ended.state();
        let of_payments = state.accepted.iter().map(|(_, body)| &body["data"]);
        let of_payments = of_payments.filter(|data| data["operation_type"] == "sign");
        of_payments.map(|data| data["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    poll(states, |states| *states == ["published"; 3]);
    for (consumer, own) in [(&one, &operations[0]), (&other, &operations[1])] {
        let arrivals = first_arrivals(consumer);
        let others: Vec<_> =
            operations.iter().filter(|id| *id != own && arrivals.contains_key(*id)).collect();
        assert_eq!(others, Vec::<&String>::new());
    }
}
