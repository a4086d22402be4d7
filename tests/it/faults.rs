//! Disks that fail under a runtime node and under the gateway, and links that lose answers. After each fault nothing is lost, no node
//! has released a second share, the process has said what happened, and it works again.

use crate::harness::cluster::Cluster;
use crate::harness::link::{Direction, Link};
use crate::harness::process::{EXECUTE, Process, SIGN, drive, post, publish_step, request};
use crate::harness::samples::{approval, payment};
use crate::harness::strace::Faults;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a call is repeated after its fault has ended.
const RECOVERY_MAX: Duration = Duration::from_secs(60);

/// Attempts at a signature while and after a node fails: some in the call, and in a repetition by the gateway itself.
const ATTEMPTS_MAX: usize = 12;

/// The calls of a payment after its submission, each with the states of which one follows.
fn steps() -> [(&'static str, Option<Value>, &'static [&'static str]); 4] {
    let (publish, publication) = publish_step();
    [
        ("/approve", Some(approval("alice")), &["pending_approval", "admitted", "executed", "published"]),
        ("/approve", Some(approval("bob")), &["admitted", "executed", "published"]),
        ("/execute", None, &["executed", "published"]),
        (publish, publication, &["published"]),
    ]
}

/// Submits a payment; returns the path and the id of its operation. Repeated until it is answered with 200.
fn submit(address: &str, key: &str) -> (String, String) {
    let submitted = until_200(address, SIGN, Some(&payment(key)));
    let id = submitted["operation"]["operation_id"].as_str().unwrap().to_owned();
    (format!("/v1/operations/{id}"), id)
}

#[track_caller]
fn until_200(address: &str, path: &str, body: Option<&Value>) -> Value {
    let began = Instant::now();
    loop {
        match request(address, "POST", path, body) {
            Ok((200, answer)) => return answer,
            other => assert!(began.elapsed() < RECOVERY_MAX, "{path}: {other:?}"),
        }
    }
}

/// Makes each call once, up to the first one that does not bring the operation as far as it should. Returns that call.
fn try_all(address: &str, path: &str) -> Option<&'static str> {
    let has_failed = |(action, body, states): &(&'static str, Option<Value>, &[&str])| match request(
        address,
        "POST",
        &format!("{path}{action}"),
        body.as_ref(),
    ) {
        Ok((200, view)) => !states.contains(&state(&view)),
        Ok(_) | Err(_) => true,
    };
    steps().into_iter().find(has_failed).map(|(action, ..)| action)
}

/// The state in an answer to a submission, an approval or a later call.
fn state(view: &Value) -> &str {
    view["operation"]["state"].as_str().or(view["state"].as_str()).unwrap_or_default()
}

/// Makes each call until it is answered with 200 and the operation has come as far.
#[track_caller]
fn complete(address: &str, path: &str) {
    for (action, body, states) in steps() {
        let began = Instant::now();
        loop {
            let view = until_200(address, &format!("{path}{action}"), body.as_ref());
            if states.contains(&state(&view)) {
                break;
            }
            assert!(began.elapsed() < RECOVERY_MAX, "{action}: {view}");
        }
    }
}

/// The lines that a command of a process prints; it must end with success.
#[track_caller]
fn lines(mut command: Command, arguments: &[&str]) -> Vec<String> {
    let output = command.args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

/// How many shares a node has released for the operation, by its own log.
#[track_caller]
fn n_shares(cluster: &Cluster, node: u16, operation: &str) -> usize {
    let log = lines(cluster.node_command(node), &["log"]);
    let entries = log.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries
        .filter(|entry| !entry["share"].is_null() && entry["statement"]["operation_id"] == operation)
        .count()
}

/// Checks that node 0 has released exactly one share for the operation, and that its database is sound.
#[track_caller]
fn assert_signed_once(cluster: &Cluster, operation: &str) {
    assert_eq!(n_shares(cluster, 0, operation), 1, "{operation}");
    assert_eq!(lines(cluster.node_command(0), &["check"]), ["ok"]);
}

#[track_caller]
fn pay(cluster: &Cluster, key: &str) {
    let paid = drive(cluster.address(), SIGN, &payment(key), &[EXECUTE, publish_step()]).unwrap();
    assert_eq!(paid["state"], "published", "{paid}");
}

/// The system calls that make writes durable, or write, with their fault, and the first call of the payment that fails, or none. A node's
/// four steps of a payment sync once each: admission (at the last approval), policy receipt, share, publication; and once more if the log
/// starts over.
const NODE_FAULTS: [(&str, &str, &[Option<&str>]); 7] = [
    ("fdatasync,fsync", "error=EIO:when=1+", &[Some("/approve")]),
    ("fdatasync,fsync", "error=EIO:when=2+", &[Some("/approve"), Some("/execute")]),
    ("fdatasync,fsync", "error=EIO:when=3+", &[Some("/execute")]),
    ("fdatasync,fsync", "error=EIO:when=4+", &[Some("/execute"), Some("/publish")]),
    ("fdatasync,fsync", "error=EIO:when=3", &[None, Some("/execute")]),
    ("pwrite64", "error=ENOSPC:when=1+", &[Some("/approve")]),
    ("pwrite64", "error=EIO:when=4+", &[Some("/approve")]),
];

#[test]
fn node_whose_disk_fails_at_any_step_signs_once_and_works_again() {
    let mut cluster = Cluster::start(3);
    pay(&cluster, "before");
    // Two of three nodes sign, so that from here on each payment needs node 0.
    cluster.node(2).kill();
    for (index, (calls, fault, expected)) in NODE_FAULTS.into_iter().enumerate() {
        let (path, id) = submit(cluster.address(), &format!("fault-{index}"));
        let faults = Faults::begin(cluster.node(0).pid(), calls, fault);
        let failed = try_all(cluster.address(), &path);
        assert!(expected.contains(&failed), "{calls} {fault}: {failed:?}");
        cluster.node(0).wait_for_line("the node's store failed");
        faults.end();
        complete(cluster.address(), &path);
        assert_signed_once(&cluster, &id);
        // A share of the other signer for each attempt that node 0 lost, and their number is limited.
        let n_released = n_shares(&cluster, 1, &id);
        assert!((1..=ATTEMPTS_MAX).contains(&n_released), "{calls} {fault}: {n_released}");
    }
    // Killed while its disk fails, and started again.
    let (path, id) = submit(cluster.address(), "killed");
    let faults = Faults::begin(cluster.node(0).pid(), "fdatasync,fsync", "error=EIO:when=2+");
    assert!(try_all(cluster.address(), &path).is_some());
    cluster.node(0).kill();
    faults.end();
    cluster.start_node(0);
    complete(cluster.address(), &path);
    assert_signed_once(&cluster, &id);
    pay(&cluster, "after");
}

/// As above, of the gateway, which commits seven times in a payment.
#[test]
fn gateway_whose_disk_fails_at_any_commit_loses_nothing_and_works_again() {
    let mut cluster = Cluster::start(3);
    pay(&cluster, "before");
    let mut paid = vec![];
    let faults = (1..=6).map(|n| ("fdatasync,fsync", format!("error=EIO:when={n}+")));
    let full = [1, 4].map(|n| ("pwrite64", format!("error=ENOSPC:when={n}+")));
    for (index, (calls, fault)) in faults.chain(full).enumerate() {
        let (path, id) = submit(cluster.address(), &format!("fault-{index}"));
        let pid = cluster.gateway.as_ref().unwrap().pid();
        let faults = Faults::begin(pid, calls, &fault);
        assert!(try_all(cluster.address(), &path).is_some(), "{calls} {fault}");
        let logged = cluster.gateway.as_mut().unwrap().wait_for_line("store");
        assert!(!logged.contains("panicked"), "{logged}");
        faults.end();
        complete(cluster.address(), &path);
        paid.push((path, id));
    }
    // Killed while its disk fails, and started again.
    let (path, id) = submit(cluster.address(), "killed");
    let faults =
        Faults::begin(cluster.gateway.as_ref().unwrap().pid(), "fdatasync,fsync", "error=EIO:when=3+");
    assert!(try_all(cluster.address(), &path).is_some());
    cluster.gateway.take().as_mut().map(Process::kill).unwrap();
    faults.end();
    cluster.start_gateway();
    complete(cluster.address(), &path);
    paid.push((path, id));
    for (path, id) in &paid {
        let (status, view) = request(cluster.address(), "GET", path, None).unwrap();
        assert_eq!((status, view["state"].as_str()), (200, Some("published")), "{view}");
        // Any two of the three nodes have signed.
        let n_signed: usize = (0..3).map(|node| n_shares(&cluster, node, id)).sum();
        assert_eq!(n_signed, 2, "{path}");
    }
    pay(&cluster, "after");
    let (status, log) = cluster.gateway.take().unwrap().terminate();
    assert!(status.success(), "{log:#?}");
    lines(cluster.gateway_command(), &["ledger", "fsck"]);
}

/// The node makes each step, and its answer is lost: the gateway asks again and gets the same answer.
#[test]
fn lost_answer_of_a_node_costs_time_and_no_second_share() {
    let mut links = vec![];
    let mut cluster = Cluster::prepare(3, |port| {
        let (link, own) = Link::open(port);
        links.push(link);
        own
    });
    (0..3).for_each(|index| cluster.start_node(index));
    cluster.start_gateway();
    pay(&cluster, "before");
    cluster.node(2).kill();
    // The calls before the one that fails. Each costs the gateway's deadline of a call to a node.
    for (direction, n_before) in [
        (Direction::ToServer, 2),
        (Direction::ToClient, 1),
        (Direction::ToClient, 2),
        (Direction::ToClient, 3),
    ] {
        let (path, id) = submit(cluster.address(), &format!("lost-{n_before}-{}", direction as u8));
        for (action, body, _) in steps().into_iter().take(n_before) {
            post(cluster.address(), &format!("{path}{action}"), body.as_ref()).unwrap();
        }
        let (action, body, _) = steps().into_iter().nth(n_before).unwrap();
        links[0].cut(direction);
        let answer = request(cluster.address(), "POST", &format!("{path}{action}"), body.as_ref());
        assert_eq!(answer.as_ref().unwrap().0, 503, "{answer:?}");
        links[0].up();
        complete(cluster.address(), &path);
        assert_signed_once(&cluster, &id);
    }
}
