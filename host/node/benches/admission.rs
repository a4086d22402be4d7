//! Measures what a node's checks cost: an admission, and round one of a signature, of a payment with two signed approvals. Set
//! `TMPDIR` to a folder in memory, so that the disk's syncs do not hide it:
//!
//! ```sh
//! TMPDIR=/dev/shm cargo bench -p gateway-node --bench admission
//! ```
#![expect(clippy::print_stdout, reason = "it prints a table")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails may panic")]

use gateway_domain::operation::EffectStep;
use gateway_domain::policy::Recorded;
use gateway_node::testing::Case;
use gateway_node::testing::holders::{approved_payment, nodes_with_key};
use std::time::{Duration, Instant};

/// Operations of one round; all rounds together have fewer than a node may have open signing sessions.
const N: u16 = 500;
const ROUNDS: u16 = 7;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let (nodes, epoch, keys) = nodes_with_key(folder.path()).await;
    let node = nodes.first().unwrap();
    let (mut admissions, mut commitments, mut runs) = (vec![], vec![], vec![]);
    for round in 0..ROUNDS {
        let cases: Vec<_> = (0..N).map(|index| approved_payment(&epoch, &keys, round * N + index)).collect();
        let requests: Vec<_> = cases.iter().map(Case::request).collect();
        let started = Instant::now();
        for request in &requests {
            node.admit(request).await.unwrap();
        }
        admissions.push(started.elapsed());
        for case in &cases {
            node.policy_receipt(&case.call(0, EffectStep::PolicyReceipt, 1, 1)).await.unwrap();
        }
        let calls: Vec<_> = cases.iter().map(|case| case.call(0, EffectStep::Execute, 2, 1)).collect();
        let started = Instant::now();
        for call in &calls {
            node.signing_commit(call, &[]).await.unwrap();
        }
        commitments.push(started.elapsed());
        let recorded: Vec<_> = cases.iter().map(|case| Recorded::from(&case.outcome())).collect();
        let started = Instant::now();
        for (case, recorded) in cases.iter().zip(&recorded) {
            let repeated = case.bundle.evaluator().repeat_inline(&case.policy_request(), recorded);
            assert!(repeated.unwrap().unwrap().is_allowed());
        }
        runs.push(started.elapsed());
    }
    print("admit", admissions);
    print("signing_commit", commitments);
    print("the policy alone", runs);
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let each = |time: Option<&Duration>| time.unwrap().as_micros() / u128::from(N);
    let (least, median, most) = (times.first(), times.get(times.len() / 2), times.last());
    println!("{what}: {} us ({} to {})", each(median), each(least), each(most));
}
