//! The Rust client with the real process.

use crate::harness::custody;
use crate::harness::modes::{TestCaller, test_caller};
use crate::harness::process::Process;
use crate::harness::samples::payment;
use gateway_client::{
    Approval, Client, Error, Filter, Gateway, Operation, Payment, Rejection, Retries, Start,
};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn client(address: &str) -> Gateway {
    Gateway::builder(&format!("http://{address}")).unwrap().build().unwrap()
}

fn approval(subject: &str) -> Approval {
    let roles = vec!["approver".to_owned()];
    Approval { subject_id: subject.to_owned(), roles, approved_at_ms: 1, signature: None }
}

async fn submit(gateway: &Gateway, idempotency_key: &str) -> Operation {
    gateway.submit_to("/v1/operations/sign", &payment(idempotency_key)).await.unwrap()
}

/// With `operations.approve` alone, an operation cannot be read under the path of payments, and is not under that of custody.
#[tokio::test(flavor = "multi_thread")]
async fn missing_scope_is_not_reported_as_a_missing_operation() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [("auth_mode", "trusted_headers"), ("trusted_proxies", "127.0.0.1")];
    let process = Process::start(folder.path(), None, &settings);
    let with = |scopes| {
        let caller = TestCaller { client: "treasury-desk", ..test_caller("carol", scopes) };
        let builder = Gateway::builder(&format!("http://{}", process.address)).unwrap();
        let headers = caller.headers().into_iter();
        headers.fold(builder, |builder, (name, value)| builder.header(name, value).unwrap()).build().unwrap()
    };
    let operation = submit(&with("operations.sign"), "one").await;
    let error = with("operations.approve custody.approve").find(&operation.operation_id).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(refusal) if refusal.status == 403), "{error}");
    let unknown = with("operations.* custody.*").find(&"0".repeat(64)).await.unwrap_err();
    assert!(matches!(&unknown, Error::Refused(refusal) if refusal.status == 404), "{unknown}");
}

async fn publish(gateway: &Gateway, operation: &Operation) -> Operation {
    for subject in ["alice", "bob"] {
        gateway.approve(operation, &approval(subject)).await.unwrap();
    }
    gateway.execute(operation).await.unwrap();
    gateway.publish(operation, "signature", 1).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn client_takes_operations_of_both_families_to_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let gateway = client(&process.address);
    assert_eq!(gateway.whoami().await.unwrap().signed_approvals, "off");
    let mut events = gateway.events(&Filter::default(), Start::At(0));
    let caller = Client::new("desk", "carol");
    let terms = Payment::new("one", "acct-operating", "acct-supplier", 12_500, "EUR", &[0, 1, 2], caller);
    let operation =
        gateway.submit(&Payment { key_ref: Some("treasury-1".to_owned()), ..terms }).await.unwrap();
    assert_eq!((operation.state.as_str(), operation.approvals.required), ("pending_approval", 2));
    let waiting = {
        let (gateway, operation) = (gateway.clone(), operation.clone());
        tokio::spawn(async move {
            gateway.wait_until(&operation, Duration::from_secs(60), Operation::has_ended).await
        })
    };
    let published = publish(&gateway, &operation).await;
    assert_eq!(published.state, "published");
    assert_eq!(waiting.await.unwrap().unwrap().operation_id, operation.operation_id);
    let mut told = Vec::new();
    while told.last().is_none_or(|kind| kind != "published") {
        let event = tokio::time::timeout(Duration::from_secs(30), events.next()).await.unwrap().unwrap();
        if event.operation_id == operation.operation_id {
            told.push(event.kind);
        }
    }
    let evidence = gateway.evidence(&published).await.unwrap();
    let document: Value = serde_json::from_str(&evidence[0]).unwrap();
    let recorded = document["events"].as_array().unwrap().iter();
    let recorded: Vec<_> = recorded.map(|entry| entry["event"]["change"]["type"].as_str().unwrap()).collect();
    assert_eq!(told, recorded);
    let found = gateway.find(&operation.operation_id).await.unwrap();
    assert_eq!(json!(found), json!(gateway.refresh(&operation).await.unwrap()));

    let creation = gateway.submit_to("/v1/custody/keys", &custody::key("cold")).await.unwrap();
    for subject in ["alice", "bob"] {
        gateway.approve(&creation, &approval(subject)).await.unwrap();
    }
    gateway.execute(&creation).await.unwrap();
    assert_eq!(gateway.key("cold").await.unwrap().state, "active");
    let signing = gateway.submit_on_key("cold", "sign", &custody::sign("s-1")).await.unwrap();
    assert_eq!(publish(&gateway, &signing).await.state, "published");
    assert_eq!(gateway.find(&signing.operation_id).await.unwrap().operation_id, signing.operation_id);
    let keys = gateway.keys(&Filter::default(), 10, None).await.unwrap();
    let names: Vec<_> = keys.items.iter().map(|key| key.key_ref.as_str()).collect();
    assert_eq!(names, ["cold", "treasury-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_read_to_their_end_and_errors_have_codes() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let gateway = client(&process.address);
    let mut submitted = Vec::new();
    for number in 0..7 {
        submitted.push(submit(&gateway, &format!("{number}")).await);
    }
    let pending = Filter { state: Some("pending_approval".to_owned()), ..Filter::default() };
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = gateway.operations(false, &pending, 3, cursor.as_deref()).await.unwrap();
        found.extend(page.items.into_iter().map(|operation| operation.operation_id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<_> = submitted.iter().rev().map(|operation| operation.operation_id.clone()).collect();
    assert_eq!(found, expected);
    let rejection = Rejection {
        subject_id: "alice".to_owned(),
        roles: vec!["approver".to_owned()],
        reason: "not ours".to_owned(),
        rejected_at_ms: 1,
        signature: None,
    };
    let rejected = gateway.reject(&submitted[0], &rejection).await.unwrap();
    assert_eq!(rejected.failure.unwrap().code, "rejected");
    let refused = gateway.approve(&submitted[0], &approval("bob")).await.unwrap_err();
    assert_eq!(refused.code(), Some("operation_failed"), "{refused}");
    assert_eq!(gateway.cancel(&submitted[1], "twice").await.unwrap().failure.unwrap().code, "cancelled");
    let unknown = gateway.find(&"0".repeat(64)).await.unwrap_err();
    assert_eq!(unknown.code(), Some("operation_not_found"));
    let still = gateway.wait_while(&submitted[2], "pending_approval", Duration::from_millis(200)).await;
    assert!(matches!(still, Err(Error::StillWaiting { state }) if state == "pending_approval"));
    let wrong = Filter { state: Some("done".to_owned()), ..Filter::default() };
    let refused = gateway.events(&wrong, Start::Now).next().await.unwrap_err();
    assert_eq!(refused.code(), Some("invalid_request"));
}

/// A way to the gateway that loses the answers of the first requests, after the gateway has acted.
fn lossy(to: String, n_lost: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, n_asked) = (listener.local_addr().unwrap().to_string(), Arc::<AtomicUsize>::default());
    let counted = n_asked.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, to) = (client.unwrap(), to.clone());
            let nth = counted.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let mut gateway = TcpStream::connect(to).unwrap();
                let mut from_client = client.try_clone().unwrap();
                let mut to_gateway = gateway.try_clone().unwrap();
                std::thread::spawn(move || {
                    let _ended = std::io::copy(&mut from_client, &mut to_gateway);
                });
                let mut answer = [0; 4096];
                while let Ok(n_bytes @ 1..) = gateway.read(&mut answer) {
                    if nth < n_lost || client.write_all(&answer[..n_bytes]).is_err() {
                        break;
                    }
                }
                let _closed = client.shutdown(Shutdown::Both);
            });
        }
    });
    (address, n_asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_lost_are_asked_for_again_and_nothing_happens_twice() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let direct = client(&process.address);
    let once = Retries { during: Duration::ZERO, ..Retries::default() };
    let operation = submit(&direct, "one").await;
    let log_before = direct.whoami().await.is_ok();
    assert!(log_before);
    let n_events = async |operation: &Operation| {
        let document: Value = serde_json::from_str(&direct.evidence(operation).await.unwrap()[0]).unwrap();
        document["total_events"].as_u64().unwrap()
    };
    // Without repeats the answer is lost, although the gateway has acted.
    let (address, n_asked) = lossy(process.address.clone(), 1);
    let gateway = Gateway::builder(&format!("http://{address}")).unwrap().retries(once).build().unwrap();
    let lost = gateway.approve(&operation, &approval("alice")).await.unwrap_err();
    assert!(matches!(lost, Error::NoAnswer(_)), "{lost}");
    assert_eq!(n_asked.load(Ordering::SeqCst), 1);
    let after_one = n_events(&operation).await;
    assert_eq!(direct.refresh(&operation).await.unwrap().approvals.approved, 1);
    // The same approval again, lost twice more, changes nothing; and so does every further step, each lost twice.
    for (step, expected) in [("approve", 1), ("approve-bob", 2)] {
        let (address, n_asked) = lossy(process.address.clone(), 2);
        let subject = if step == "approve" { "alice" } else { "bob" };
        let view = client(&address).approve(&operation, &approval(subject)).await.unwrap();
        assert_eq!((view.approvals.approved, n_asked.load(Ordering::SeqCst)), (expected, 3));
        if step == "approve" {
            assert_eq!(n_events(&operation).await, after_one);
        }
    }
    let (address, _) = lossy(process.address.clone(), 2);
    client(&address).execute(&operation).await.unwrap();
    let (address, _) = lossy(process.address.clone(), 2);
    let published = client(&address).publish(&operation, "signature", 1).await.unwrap();
    let (address, _) = lossy(process.address.clone(), 2);
    let again = client(&address).submit_to("/v1/operations/sign", &payment("one")).await.unwrap();
    assert_eq!((again.operation_id, again.state.as_str()), (published.operation_id.clone(), "published"));
    let document: Value = serde_json::from_str(&direct.evidence(&published).await.unwrap()[0]).unwrap();
    let kinds: Vec<_> = document["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["event"]["change"]["type"].clone())
        .collect();
    for once in ["submitted", "executed", "published"] {
        assert_eq!(kinds.iter().filter(|kind| *kind == once).count(), 1, "{kinds:?}");
    }
    assert_eq!(kinds.iter().filter(|kind| *kind == "approval_recorded").count(), 2);
}
