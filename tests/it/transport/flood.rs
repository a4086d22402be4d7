//! Connection limits: above them, unused connections are evicted for new ones.

use crate::harness::certificates::Authority;
use crate::harness::process::{Process, command, limited, request, text};
use crate::harness::tls::{Files, Trust, connect};
use crate::harness::wire::{Received, TIMEOUT, connect_from, eventually, get_on, get_request, receive};
use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Deadlines that no connection reaches, however slowly a test runs.
const NO_DEADLINE: [(&str, &str); 5] = [
    ("header_within_ms", "600000"),
    ("idle_within_ms", "600000"),
    ("body_within_ms", "600000"),
    ("write_within_ms", "600000"),
    ("request_within_ms", "600001"),
];

fn start(folder: &Path, connections_max: &str, per_address_max: &str) -> Process {
    let numbers = [("connections_max", connections_max), ("connections_per_address_max", per_address_max)];
    Process::start(folder, None, &[&numbers[..], &NO_DEADLINE].concat())
}

/// An open connection on which one request was answered; `None` if it was closed before the answer.
fn try_connect(last: u8, address: &str) -> Option<TcpStream> {
    let mut stream = connect_from(last, address).ok()?;
    let (status, _) = get_on(&mut stream, "/healthz").ok()?;
    assert_eq!(status, 200);
    Some(stream)
}

/// As [`try_connect`]; the request must be answered.
fn connect_and_keep(last: u8, address: &str) -> TcpStream {
    try_connect(last, address).unwrap()
}

/// The number of closed connections. No data may be expected on any of them.
fn n_closed(streams: &mut [TcpStream]) -> usize {
    let is_closed = |stream: &mut TcpStream| {
        let is_closed = receive(stream, Duration::from_millis(5)) == Received::End;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        is_closed
    };
    streams.iter_mut().map(is_closed).filter(|is_closed| *is_closed).count()
}

/// The number of evicted connections that waited for this, by the metrics.
fn n_evicted(address: &str, waiting_for: &str) -> u32 {
    let name = "operation_gateway_connections_evicted_total";
    let line = format!("{name}{{listener=\"api\",waiting_for=\"{waiting_for}\"}} ");
    let metrics = text(address, "/metrics");
    metrics.lines().find_map(|counted| counted.strip_prefix(&line)?.parse().ok()).unwrap_or_default()
}

/// A connection on which only this text is sent.
fn connect_and_send(last: u8, address: &str, sent: &str) -> TcpStream {
    let mut stream = connect_from(last, address).unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    stream
}

/// A connection on which requests are sent, and none of their answers read, until the buffers of both ends are full.
fn connect_and_read_nothing(last: u8, address: &str) -> TcpStream {
    connect_and_send(last, address, &get_request("/v1/openapi.json").repeat(64))
}

const HALF_A_HEADER: &str = "GET /healthz HTTP/1.1\r\nx-slow: ";
const HALF_A_BODY: &str = "POST /v1/operations/sign HTTP/1.1\r\nhost: gateway\r\ncontent-length: 9\r\n\r\n{";

/// Four addresses take all connections and let them wait, in each of the ways that the gateway distinguishes.
#[test]
fn four_addresses_with_all_connections_do_not_lock_out_a_fifth() {
    type Occupy = fn(u8, &str) -> TcpStream;
    let ways: [(&str, Occupy); 5] = [
        ("request", connect_and_keep),
        ("request", |last, address| connect_and_send(last, address, "")),
        ("header", |last, address| connect_and_send(last, address, HALF_A_HEADER)),
        ("body", |last, address| connect_and_send(last, address, HALF_A_BODY)),
        ("answer_read", connect_and_read_nothing),
    ];
    for (waiting_for, occupy) in ways {
        let folder = tempfile::tempdir().unwrap();
        let process = start(folder.path(), "8", "2");
        let mut held: Vec<_> =
            (2..6).flat_map(|last| [last; 2]).map(|last| occupy(last, &process.address)).collect();
        if waiting_for == "answer_read" {
            eventually("buffers must fill", || try_connect(6, &process.address).is_some());
        }
        let mut fifth = connect_and_keep(6, &process.address);
        for _ in 0..20 {
            assert_eq!(request(&process.address, "GET", "/healthz", None).unwrap().0, 200, "{waiting_for}");
            assert_eq!(get_on(&mut fifth, "/healthz").unwrap().0, 200, "{waiting_for}");
        }
        assert!(n_evicted(&process.address, waiting_for) > 0, "{}", text(&process.address, "/metrics"));
        eventually("the evicted connection must be closed", || n_closed(&mut held) > 0);
    }
}

#[test]
fn the_address_with_most_unused_connections_loses_them_first() {
    let folder = tempfile::tempdir().unwrap();
    let process = start(folder.path(), "12", "6");
    let address = process.address.clone();
    let mut greedy: Vec<_> = (0..6).map(|_| connect_and_keep(2, &address)).collect();
    let mut modest: Vec<_> = (0..3).map(|_| connect_and_keep(3, &address)).collect();
    let mut single =
        vec![connect_and_keep(4, &address), connect_and_keep(5, &address), connect_and_keep(6, &address)];
    // The address with 6 loses 3 of them; then it has as many as another address.
    let mut newcomers: Vec<_> = (7..10).map(|last| connect_and_keep(last, &address)).collect();
    eventually("three are closed", || n_closed(&mut greedy) == 3);
    assert_eq!([n_closed(&mut modest), n_closed(&mut single), n_closed(&mut newcomers)], [0; 3]);
    // Which ones are closed is tested in unit tests, since a client can have its answer before the gateway records that.
    let answered = greedy.iter_mut().filter_map(|stream| get_on(stream, "/healthz").ok()).count();
    assert_eq!(answered, 3);
    assert_eq!(n_evicted(&address, "request"), 4, "plus one for the metrics request");
}

#[test]
fn an_address_at_its_limit_evicts_only_its_own_idle_connections() {
    let folder = tempfile::tempdir().unwrap();
    let process = start(folder.path(), "8", "4");
    let address = process.address.clone();
    let mut other_addresses = vec![connect_and_keep(3, &address), connect_and_keep(4, &address)];
    let mut one_address: Vec<_> = (0..9).map(|_| connect_and_keep(2, &address)).collect();
    eventually("four are left", || n_closed(&mut one_address) == 5);
    assert_eq!(n_closed(&mut other_addresses), 0);
    // The server notes the end of an answer after the client has it, so it may close a connection instead of the one before it.
    let answered = one_address.iter_mut().filter_map(|stream| get_on(stream, "/healthz").ok()).count();
    assert_eq!(answered, 4);
}

#[test]
fn unfinished_tls_handshakes_are_evicted_for_new_connections() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let files = Files::write(folder.path(), &ours.server(), &ours);
    let numbers = [
        ("connections_max", "4"),
        ("connections_per_address_max", "2"),
        ("tls_handshake_within_ms", "600000"),
    ];
    let process = Process::start(folder.path(), None, &[files.settings("off"), numbers.to_vec()].concat());
    for sent in ["", "\x16\x03\x01\x02\x00\x01\x00"] {
        let mut held: Vec<_> = [2, 2, 3, 3].map(|last| connect_and_send(last, &process.address, sent)).into();
        for _ in 0..4 {
            let mut stream = connect(&process.address, &Trust::new(&ours, None)).unwrap();
            assert_eq!(get_on(&mut stream, "/healthz").unwrap().0, 200);
        }
        eventually("the evicted connection must be closed", || n_closed(&mut held) > 0);
    }
}

#[test]
fn start_fails_when_the_open_file_limit_is_below_connections_max() {
    let folder = tempfile::tempdir().unwrap();
    let command = command(folder.path(), &[("connections_max", "500")]);
    let output = limited(&command, "-n 600").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("setting `connections_max`: needs 1012 open files") && !output.status.success(),
        "{text}"
    );
    assert!(text.contains("the system allows 600"), "{text}");
    // The process raises its soft limit by itself.
    Process::spawn(limited(&command, "-Sn 100")).wait_for_line("operation-gateway listens");
}

#[test]
fn flood_from_one_address_does_not_lock_out_another() {
    let folder = tempfile::tempdir().unwrap();
    let process = start(folder.path(), "64", "32");
    let (address, is_over) = (process.address.clone(), Arc::new(AtomicBool::new(false)));
    let mut other = connect_and_keep(3, &address);
    let flooding: Vec<_> = (0..4)
        .map(|_| {
            let (address, is_over) = (address.clone(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let mut held = VecDeque::new();
                while !is_over.load(Ordering::SeqCst) {
                    held.extend(try_connect(2, &address));
                    held.drain(..held.len().saturating_sub(64));
                }
            })
        })
        .collect();
    eventually("the flood must have met its limit", || n_evicted(&address, "request") > 0);
    for _ in 0..200 {
        assert_eq!(request(&address, "GET", "/healthz", None).unwrap().0, 200);
    }
    assert_eq!(get_on(&mut other, "/healthz").unwrap().0, 200, "a connection in use is kept");
    is_over.store(true, Ordering::SeqCst);
    flooding.into_iter().for_each(|flood| flood.join().unwrap());
}
