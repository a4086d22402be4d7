//! `ledger fsck` finds nothing in an undamaged store, even while the gateway writes to it.

use super::checked;
use super::history::History;
use crate::harness::alarm::Alarm;
use crate::harness::process::{EXECUTE, Process, SIGN, drive, post, run};
use crate::harness::samples::payment;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test(flavor = "multi_thread")]
async fn store_with_rows_in_every_table_is_sound() {
    let history = History::written().await;
    let (findings, checked) = checked(&history.database()).await.unwrap();
    assert_eq!(findings, []);
    let head = checked.head.unwrap();
    assert_eq!(head.n_leaves, checked.n_events + checked.n_activations);
    // Five payments, three key creations (one of them for a payment), two refreshes, two rotations.
    assert_eq!((checked.n_operations, checked.n_keys), (12, 4));
    assert_eq!((checked.n_decisions, checked.n_previews, checked.n_activations), (2, 2, 3));

    let (code, out, err) = run(history.world.folder(), &[], &["ledger", "fsck", "--json"]);
    assert_eq!((code, err.as_str(), out.lines().count()), (0, "", 1));
    let summary: Value = serde_json::from_str(&out).unwrap();
    let expected = json!({ "n_leaves": head.n_leaves, "root": head.root });
    assert_eq!((&summary["n_findings"], &summary["head"]), (&json!(0), &expected));
    let (code, out, _) = run(history.world.folder(), &[], &["ledger", "fsck"]);
    assert_eq!((code, out.lines().last()), (0, Some("nothing is wrong")));
    assert!(out.contains(&format!("root {}", head.root)), "{out}");
}

/// Executes payments one after the other until `stop` is set; returns their number.
fn run_client(address: &str, lane: usize, stop: &AtomicBool) -> usize {
    let _alarm = Alarm(stop);
    let pay = |n: &usize| {
        drive(address, SIGN, &payment(&format!("{lane}-{n}")), &[EXECUTE]).unwrap();
        post(address, "/v1/policy/preview", Some(&json!({ "intent": payment("preview") }))).unwrap();
        !stop.load(Ordering::SeqCst)
    };
    (0..).take_while(pay).count()
}

/// The limits on the number of checks under load, and the number of events that must be written between the first and the last.
const N_CHECKS_MIN: usize = 5;
const N_CHECKS_MAX: usize = 200;
const N_EVENTS_MIN: u64 = 200;

/// Exit code, standard output and standard error.
type Answer = (i32, String, String);

/// The number of events that a check counted.
fn n_events((_, out, _): &Answer) -> Option<u64> {
    serde_json::from_str::<Value>(out).ok()?["n_events"].as_u64()
}

/// Whether the last check found something, or enough checks were made while enough events were written.
fn is_enough(answers: &[Answer]) -> bool {
    let sizes: Vec<_> = answers.iter().filter_map(n_events).collect();
    let n_written = sizes.last().zip(sizes.first()).map_or(0, |(last, first)| last.saturating_sub(*first));
    let is_wrong = answers.last().is_some_and(|(code, ..)| *code != 0);
    is_wrong || answers.len() >= N_CHECKS_MAX || answers.len() >= N_CHECKS_MIN && n_written >= N_EVENTS_MIN
}

#[test]
fn store_of_a_gateway_under_load_is_always_sound() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[("preview_records_max", "5")]);
    let stop = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        let _alarm = Alarm(&stop);
        let clients: Vec<_> = (0..2)
            .map(|lane| {
                let (address, stop) = (&process.address, &stop);
                scope.spawn(move || run_client(address, lane, stop))
            })
            .collect();
        let mut answers = Vec::new();
        while !is_enough(&answers) && !stop.load(Ordering::SeqCst) {
            answers.push(run(folder.path(), &[], &["ledger", "fsck", "--json"]));
        }
        stop.store(true, Ordering::SeqCst);
        let n_paid: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
        assert!(n_paid > 0);
        answers
    });
    for (code, out, err) in &answers {
        assert_eq!((*code, err.as_str()), (0, ""), "{out}");
    }
    let sizes: Vec<_> = answers.iter().filter_map(n_events).collect();
    assert!(sizes.is_sorted() && sizes.first() < sizes.last(), "nothing was written meanwhile: {sizes:?}");
}
