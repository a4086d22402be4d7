//! What the hot paths cost, in counts that hardly depend on how busy the machine is: allocations of the program, how often its threads
//! wait, and instructions as valgrind counts them. One request after another, in this process, with embedded nodes. `counts.json` has what they cost, of each
//! request, in the build of all tests, since the crate in which a generic function is compiled decides how well it is optimised;
//! `UPDATE_COUNTS=1` writes it. Instructions are compared on machines like the one of the table only.

use crate::harness::samples::{approval, payment, publication};
use crate::harness::world::World;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use gateway_domain::operation::EffectStep;
use gateway_domain::policy::Moment;
use gateway_node::testing::holders::{approved_payment, nodes_with_key};
use gateway_node::{Call, Node, RoundOne};
use gateway_policy::{Evaluator, PolicyEngine, testing};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs};
use tower::ServiceExt as _;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How often each piece of work is done, after [`N_WARM_UP`] times uncounted.
const N: u64 = 20;
const N_WARM_UP: u64 = 5;

/// A difference that is no change, in percent.
const TOLERANCE: u64 = 3;

/// The same for waits: on a busy machine, another thread seldom answers before one has to wait for it.
const TOLERANCE_OF_WAITS: u64 = 100;

/// The same for the instructions of round two: the key, another each time, decides on one or two multiplications of points.
const TOLERANCE_OF_ROUND_TWO: u64 = 20;

/// The same for the instructions of an execution, of which two nodes' round two is a part.
const TOLERANCE_OF_EXECUTION: u64 = 5;

/// Set where valgrind runs this process.
const IS_UNDER_VALGRIND: &str = "IS_UNDER_VALGRIND";

/// The waits before the work that is counted.
static WAITS: AtomicU64 = AtomicU64::new(0);

/// Between pieces of work, what is not counted.
const UNCOUNTED: &str = "uncounted";

/// By the work, and by what is counted.
type Costs = BTreeMap<String, BTreeMap<String, u64>>;

/// What instructions depend on: programs choose others for other processors, and valgrind has a processor of its own.
fn machine() -> String {
    let version = Command::new("valgrind").arg("--version").output().unwrap();
    #[cfg(target_arch = "x86_64")]
    let has_avx2 = std::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    let has_avx2 = false;
    let version = String::from_utf8(version.stdout).unwrap();
    format!("{} with {}{}", env::consts::ARCH, if has_avx2 { "AVX2, " } else { "" }, version.trim())
}

/// Prints the allocations of the work since the last time, or has valgrind write its instructions.
#[expect(clippy::print_stdout, reason = "its parent reads it")]
fn end_of(work: &str, counted: &mut Region<'_, System>) {
    if env::var_os(IS_UNDER_VALGRIND).is_some() {
        note_instructions(work);
    } else {
        let cost = counted.change();
        let allocations = cost.allocations + cost.reallocations;
        let waits = waits_so_far();
        // The waits of a thread end with it.
        let n_waits = waits.saturating_sub(WAITS.swap(waits, Ordering::Relaxed));
        println!("cost {work} {allocations} {} {n_waits}", cost.bytes_allocated);
    }
    counted.reset();
}

/// How often threads of this process have waited: for another thread, or for the disk.
fn waits_so_far() -> u64 {
    let of = |thread: std::io::Result<fs::DirEntry>| {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        waits.trim().parse::<u64>().unwrap()
    };
    fs::read_dir("/proc/self/task").unwrap().map(of).sum()
}

/// Has valgrind write the instructions since the last time into a file, under this name.
fn note_instructions(work: &str) {
    let me = format!("--pid={}", std::process::id());
    let output = Command::new("vgdb").args([&me, "dump", work]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Without the checks of each answer that [`World::post`] makes, so that the gateway alone is counted.
async fn post(world: &World, path: &str, body: Option<&Value>) -> Vec<u8> {
    let request = Request::post(path).header("host", "gateway").header("content-type", "application/json");
    let body = body.map_or(Body::empty(), |body| Body::from(body.to_string()));
    let response = world.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let status = response.status();
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&bytes));
    bytes
}

/// Each step for all operations, before the next step.
async fn flows(world: &World, name: &str, n: u64, mut after: impl FnMut(&str)) {
    let mut operations = vec![];
    for number in 0..n {
        let submitted = post(world, "/v1/operations/sign", Some(&payment(&format!("{name}-{number}")))).await;
        operations.push(submitted);
    }
    after("submit");
    let path = |submitted: &Vec<u8>| {
        let view: Value = serde_json::from_slice(submitted).unwrap();
        format!("/v1/operations/{}", view["operation"]["operation_id"].as_str().unwrap())
    };
    let operations: Vec<_> = operations.iter().map(path).collect();
    after(UNCOUNTED);
    let steps = [
        ("first-approval", "approve", Some(approval("alice"))),
        ("last-approval", "approve", Some(approval("bob"))),
        ("execute", "execute", None),
        ("publish", "publish", Some(publication())),
    ];
    for (work, step, body) in steps {
        for operation in &operations {
            post(world, &format!("{operation}/{step}"), body.as_ref()).await;
        }
        after(work);
    }
}

/// The commitments of an attempt that has not signed.
async fn round_one(node: &Node, call: &Call) -> Vec<u8> {
    match node.signing_commit(call, &[]).await.unwrap() {
        RoundOne::Committed(commitments) => commitments,
        signed @ RoundOne::Consumed { .. } => panic!("{signed:?}"),
    }
}

/// The steps of one of two nodes that sign a payment, each for all payments.
async fn steps_of_a_node(n: u16, mut after: impl FnMut(&str)) {
    let folder = tempfile::tempdir().unwrap();
    let (nodes, epoch, keys) = nodes_with_key(folder.path()).await;
    let [node, other] = nodes.as_slice() else { panic!("two nodes") };
    let cases: Vec<_> = (0..n).map(|id| approved_payment(&epoch, &keys, id)).collect();
    let mut packages = vec![];
    for case in &cases {
        other.admit(&case.request()).await.unwrap();
        other.policy_receipt(&case.call(1, EffectStep::PolicyReceipt, 1, 1)).await.unwrap();
        let commitments = round_one(other, &case.call(1, EffectStep::Execute, 2, 1)).await;
        packages.push(BTreeMap::from([(1, commitments)]));
    }
    after(UNCOUNTED);
    for case in &cases {
        node.admit(&case.request()).await.unwrap();
    }
    after("node-admission");
    for case in &cases {
        node.policy_receipt(&case.call(0, EffectStep::PolicyReceipt, 1, 1)).await.unwrap();
    }
    after("node-receipt");
    for (case, commitments) in cases.iter().zip(&mut packages) {
        let call = case.call(0, EffectStep::Execute, 2, 1);
        commitments.insert(0, round_one(node, &call).await);
    }
    after("node-round-one");
    for (case, commitments) in cases.iter().zip(packages) {
        let call = case.call(0, EffectStep::Execute, 2, 1);
        node.signing_share(&call, &case.package(commitments)).await.unwrap();
    }
    after("node-round-two");
}

#[tokio::test]
async fn hot_paths_run_one_after_another() {
    let world = World::patient().await;
    flows(&world, "warm-up", N_WARM_UP, |_| ()).await;
    let mut counted = Region::new(ALLOCATOR);
    end_of(UNCOUNTED, &mut counted);
    flows(&world, "counted", N, |work| end_of(work, &mut counted)).await;
    steps_of_a_node(u16::try_from(N).unwrap(), |work| end_of(work, &mut counted)).await;
    let preview = json!({ "intent": payment("preview"), "approvals": [approval("alice")] });
    for (work, n) in [(UNCOUNTED, N_WARM_UP), ("preview", N)] {
        for _ in 0..n {
            post(&world, "/v1/policy/preview", Some(&preview)).await;
        }
        end_of(work, &mut counted);
    }
    let bundle =
        testing::verify(testing::committed_bundle("payment-guard"), &testing::committed_trust()).unwrap();
    let evaluator = Evaluator::load(&PolicyEngine::new().unwrap(), &bundle).unwrap();
    let facts = testing::facts_with_spending("2");
    let sample = testing::payment("acct-2", &["bob", "carol"]);
    for (work, n) in [(UNCOUNTED, N_WARM_UP), ("ten-evaluations", N * 10)] {
        for _ in 0..n {
            let judged = evaluator.evaluate(&sample.request(Moment::Admission), &facts, u64::MAX);
            assert!(judged.is_allowed());
        }
        end_of(work, &mut counted);
    }
}

/// Runs the hot paths in a process of their own.
fn run(command: &mut Command) -> String {
    command.args(["--exact", "counts::hot_paths_run_one_after_another", "--nocapture"]);
    let output = command
        .output()
        .unwrap_or_else(|why| panic!("{why}: install valgrind (Debian: apt-get install valgrind)"));
    let Output { status, stdout, stderr } = output;
    let text = String::from_utf8(stdout).unwrap();
    assert!(status.success(), "{text}{}", String::from_utf8_lossy(&stderr));
    text
}

fn allocations() -> Costs {
    let text = run(&mut Command::new(env::current_exe().unwrap()));
    let mut costs = Costs::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("cost ")) {
        let [work, allocations, bytes, waits] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let each = |total: &str| total.parse::<u64>().unwrap() / N;
        costs.insert(
            work.to_owned(),
            BTreeMap::from([
                ("allocations".to_owned(), each(allocations)),
                ("allocated_bytes".to_owned(), each(bytes)),
                ("waits".to_owned(), each(waits)),
            ]),
        );
    }
    costs
}

/// The work, and the instructions of each time.
fn instructions() -> BTreeMap<String, u64> {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("counts");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--quiet"]).env(IS_UNDER_VALGRIND, "true");
    valgrind.arg(format!("--callgrind-out-file={}", dumps.display())).arg(env::current_exe().unwrap());
    run(&mut valgrind);
    let read = |file: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let after = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let work = after("desc: Trigger: dump ")?.to_owned();
        Some((work, after("totals:").unwrap().parse::<u64>().unwrap() / N))
    };
    fs::read_dir(folder.path()).unwrap().filter_map(read).collect()
}

fn differ_by_more(before: u64, now: u64, percent: u64) -> bool {
    before.abs_diff(now) * 100 > before * percent
}

#[test]
fn hot_paths_cost_what_the_table_says() {
    let mut costs = allocations();
    for (work, n) in instructions() {
        costs.entry(work).or_default().insert("instructions".to_owned(), n);
    }
    costs.remove(UNCOUNTED);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/counts.json");
    let machine = machine();
    if env::var_os("UPDATE_COUNTS").is_some() {
        let table = json!({ "machine": machine, "costs": costs });
        fs::write(&path, serde_json::to_string_pretty(&table).unwrap() + "\n").unwrap();
    }
    let table: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let is_same_machine = table["machine"] == machine;
    let table: Costs = serde_json::from_value(table["costs"].clone()).unwrap();
    let is_change = |work: &str, counted: &str, before: u64, now: u64| match (work, counted) {
        // Where there are few, some more are chance.
        (_, "waits") => now.saturating_sub(before) * 100 > before.max(10) * TOLERANCE_OF_WAITS,
        ("node-round-two", "instructions") => differ_by_more(before, now, TOLERANCE_OF_ROUND_TWO),
        ("execute", "instructions") => differ_by_more(before, now, TOLERANCE_OF_EXECUTION),
        _ => differ_by_more(before, now, TOLERANCE),
    };
    let differs = |work: &String, counted: &String| {
        let [before, now] = [&table, &costs].map(|costs| costs.get(work)?.get(counted).copied());
        let line = format!("{work}: {} {counted}, {} in the table", now.unwrap_or(0), before.unwrap_or(0));
        is_change(work, counted, before.unwrap_or(0), now.unwrap_or(0)).then_some(line)
    };
    let lines = costs.iter().flat_map(|(work, counts)| counts.keys().map(move |counted| (work, counted)));
    let lines = lines.filter(|(_, counted)| is_same_machine || *counted != "instructions");
    let changes: Vec<_> = lines.filter_map(|(work, counted)| differs(work, counted)).collect();
    assert!(
        changes.is_empty() && table.keys().eq(costs.keys()),
        "if this is meant, update the table with UPDATE_COUNTS=1:\n{}",
        changes.join("\n")
    );
}
