//! Many connections at once: numbers are kept, and who is within them is served.

use crate::harness::process::{Process, request, text};
use crate::harness::wire::{ask, connect_from, eventually, rest};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nobody's slot is taken from him, however slowly a test runs.
const PATIENT: [(&str, &str); 2] = [("header_within_ms", "600000"), ("idle_within_ms", "600000")];

fn start(folder: &Path, connections_max: &str, per_address_max: &str) -> Process {
    let numbers = [("connections_max", connections_max), ("connections_per_address_max", per_address_max)];
    Process::start(folder, None, &[numbers, PATIENT].concat())
}

/// A connection that is kept and was answered on, which has its slot; or nothing, when it is closed without a word.
fn tried(last: u8, address: &str) -> Option<TcpStream> {
    let mut stream = connect_from(last, address).ok()?;
    let (status, _) = ask(&mut stream, "/healthz").ok()?;
    assert_eq!(status, 200);
    Some(stream)
}

fn kept(last: u8, address: &str) -> TcpStream {
    tried(last, address).unwrap()
}

fn is_refused(last: u8, address: &str) -> bool {
    tried(last, address).is_none()
}

#[test]
fn one_address_has_its_share_and_the_whole_is_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let process = start(folder.path(), "8", "4");
    let address = process.address.clone();
    let mut of_one: Vec<_> = (0..4).map(|_| kept(2, &address)).collect();
    assert!(is_refused(2, &address) && is_refused(2, &address));
    let _of_other: Vec<_> = (0..3).map(|_| kept(3, &address)).collect();
    // Reads its own refusals: the eighth.
    let mut watching = kept(1, &address);
    assert!(is_refused(4, &address));
    // Those that have a slot are served, and a slot that is given back is another's.
    for stream in &mut of_one {
        assert_eq!(ask(stream, "/healthz").unwrap().0, 200);
    }
    drop(of_one.pop());
    eventually("a slot that is free is another's", || !is_refused(4, &address));
    // On the one that has its slot: others are given back only some time after they have ended.
    watching.write_all(b"GET /metrics HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n").unwrap();
    let metrics = rest(&mut watching);
    for reason in ["connections", "address"] {
        let counted = format!("operation_gateway_connections_refused_total{{reason=\"{reason}\"}} ");
        assert!(metrics.contains(&counted), "{metrics}");
    }
}

#[test]
fn a_flood_from_one_address_does_not_keep_another_out() {
    let folder = tempfile::tempdir().unwrap();
    let process = start(folder.path(), "64", "32");
    let (address, is_over) = (process.address.clone(), Arc::new(AtomicBool::new(false)));
    let flooding: Vec<_> = (0..4)
        .map(|_| {
            let (address, is_over) = (address.clone(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let (mut held, mut n_refused) = (Vec::new(), 0_u32);
                while !is_over.load(Ordering::SeqCst) {
                    match tried(2, &address) {
                        Some(stream) => held.push(stream),
                        None => n_refused += 1,
                    }
                }
                (held, n_refused)
            })
        })
        .collect();
    eventually("the flood must have met its limit", || {
        text(&address, "/metrics").contains("connections_refused_total{reason=\"address\"}")
    });
    for _ in 0..200 {
        assert_eq!(request(&address, "GET", "/healthz", None).unwrap().0, 200);
    }
    is_over.store(true, Ordering::SeqCst);
    let (mut n_held, mut n_refused) = (0, 0);
    for flood in flooding {
        let (held, n_more) = flood.join().unwrap();
        n_held += held.len();
        n_refused += n_more;
    }
    assert!(n_held == 32 && n_refused > 0, "{n_held} held, {n_refused} refused");
}
