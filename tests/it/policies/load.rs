//! Bundles swapped back and forth under load: nobody fails, and each decision is one bundle's.

use crate::harness::bundles::{Site, hash, key, release, until_active};
use crate::harness::process::request;
use crate::harness::samples::{approval, payment};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const N_CLIENTS: usize = 4;
/// Each is a preview, a submission and two approvals: 1,000 requests in all.
const N_OPERATIONS: usize = 250;

fn call(address: &str, path: &str, body: &Value) -> Value {
    let (status, answer) = request(address, "POST", path, Some(body)).unwrap();
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// One operation to its admission: the hash that the preview named, and the operation's path.
fn operate(address: &str, name: &str) -> (String, String) {
    let preview = call(address, "/v1/policy/preview", &json!({ "intent": payment(name) }));
    let submitted = call(address, "/v1/operations/sign", &payment(name));
    let path = format!("/v1/operations/{}", submitted["operation"]["operation_id"].as_str().unwrap());
    call(address, &format!("{path}/approve"), &approval("alice"));
    let admitted = call(address, &format!("{path}/approve"), &approval("bob"));
    assert_eq!(admitted["state"], "admitted", "{admitted}");
    (preview["bundle_hash"].as_str().unwrap().to_owned(), path)
}

/// The hash in the policy outcome that the admission was signed for, and the one in the signed decision.
fn admitted_under(address: &str, path: &str) -> [String; 2] {
    let (_, audit) = request(address, "GET", &format!("{path}/audit-replay"), None).unwrap();
    let events: Vec<_> = audit["events"].as_array().unwrap().iter().map(|entry| &entry["event"]).collect();
    let signed = events.iter().find(|event| event["change"]["type"] == "decision_signed").unwrap();
    let found = |pointer: &str| {
        let value = signed.pointer(pointer).unwrap_or_else(|| panic!("no `{pointer}` in {signed:#}"));
        value.as_str().unwrap().to_owned()
    };
    [found("/change/policy/bundle_hash"), found("/change/admission/decision/bundle_hash")]
}

#[test]
fn a_thousand_requests_while_two_bundles_are_swapped_back_and_forth() {
    let site = Site::new();
    let (one, two) = (release(1, &key(1)), release(2, &key(1)));
    site.offer(&one);
    let process = site.start(10, None);
    site.offer(&two);
    until_active(&process.address, &two);
    // The key is made now, not by all of them at once.
    operate(&process.address, "load-first");
    let done = AtomicBool::new(false);
    let address = process.address.as_str();
    let mut n_swaps = 0;
    let operations: Vec<(String, String)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..N_CLIENTS)
            .map(|client| {
                let operations = (client..N_OPERATIONS).step_by(N_CLIENTS);
                scope.spawn(move || {
                    operations.map(|n| operate(address, &format!("load-{n}"))).collect::<Vec<_>>()
                })
            })
            .collect();
        let swapper = scope.spawn(|| {
            let mut sequence = 2;
            while !done.load(Ordering::SeqCst) {
                sequence += 1;
                let next = if sequence % 2 == 1 { &one } else { &two };
                site.record(sequence, next);
                until_active(address, next);
            }
            sequence - 2
        });
        let operations = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        done.store(true, Ordering::SeqCst);
        n_swaps = swapper.join().unwrap();
        operations
    });
    assert_eq!(operations.len(), N_OPERATIONS);
    assert!(n_swaps >= 4, "{n_swaps} swaps are no back and forth");
    let mut admissions: BTreeMap<String, usize> = BTreeMap::new();
    for (previewed, path) in &operations {
        assert!([hash(&one), hash(&two)].contains(previewed), "{previewed} is neither of the two");
        let [judged, signed] = admitted_under(address, path);
        assert_eq!(judged, signed, "{path}: one decision, one bundle");
        *admissions.entry(judged).or_default() += 1;
    }
    let both = [hash(&one), hash(&two)].iter().all(|hash| admissions.contains_key(hash));
    assert!(both && admissions.len() == 2, "{admissions:?}");
}
