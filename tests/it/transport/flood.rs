//! Many connections at once: numbers are kept, and who is within them is served.

use crate::harness::process::{Process, request, text};
use crate::harness::wire::{Came, ask, came, connect_from, eventually};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const GIVEN: [(&str, &str); 3] =
    [("connections_max", "8"), ("connections_per_address_max", "4"), ("header_within_ms", "60000")];

/// A connection that is kept, and was answered on: it has its slot.
fn kept(last: u8, address: &str) -> TcpStream {
    let mut stream = connect_from(last, address).unwrap();
    assert_eq!(ask(&mut stream, "/healthz").unwrap().0, 200);
    stream
}

/// Whether a new connection is closed without a word.
fn is_refused(last: u8, address: &str) -> bool {
    let Ok(mut stream) = connect_from(last, address) else { return true };
    ask(&mut stream, "/healthz").is_err()
}

#[test]
fn one_address_has_its_share_and_the_whole_is_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &GIVEN);
    let address = process.address.clone();
    let mut of_one: Vec<_> = (0..4).map(|_| kept(2, &address)).collect();
    assert!(is_refused(2, &address) && is_refused(2, &address));
    let of_other: Vec<_> = (0..3).map(|_| kept(3, &address)).collect();
    // Reads its own refusals: the eighth.
    let mut watching = kept(1, &address);
    assert!(is_refused(4, &address));
    // Those that have a slot are served, and a slot that is given back is another's.
    for stream in &mut of_one {
        assert_eq!(ask(stream, "/healthz").unwrap().0, 200);
    }
    drop(of_one.pop());
    eventually("a slot that is free is another's", || !is_refused(4, &address));
    drop(of_other);
    assert_eq!(ask(&mut watching, "/healthz").unwrap().0, 200);
    drop(watching);
    let metrics = text(&address, "/metrics");
    for reason in ["connections", "address"] {
        let counted = format!("operation_gateway_connections_refused_total{{reason=\"{reason}\"}} ");
        assert!(metrics.contains(&counted), "{metrics}");
    }
}

#[test]
fn a_flood_from_one_address_does_not_keep_another_out() {
    let folder = tempfile::tempdir().unwrap();
    let given =
        [("connections_max", "64"), ("connections_per_address_max", "32"), ("header_within_ms", "60000")];
    let process = Process::start(folder.path(), None, &given);
    let (address, is_over) = (process.address.clone(), Arc::new(AtomicBool::new(false)));
    let flooding: Vec<_> = (0..4)
        .map(|_| {
            let (address, is_over) = (address.clone(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let mut held = Vec::new();
                let mut n_refused = 0_u32;
                while !is_over.load(Ordering::SeqCst) {
                    let Ok(mut stream) = connect_from(2, &address) else { continue };
                    match came(&mut stream, Duration::from_millis(20)) {
                        Came::End => n_refused += 1,
                        Came::Nothing | Came::Bytes(_) => held.push(stream),
                    }
                }
                (held, n_refused)
            })
        })
        .collect();
    for _ in 0..200 {
        assert_eq!(request(&address, "GET", "/healthz", None).unwrap().0, 200);
    }
    eventually("the flood must have met its limit", || {
        text(&address, "/metrics").contains("connections_refused_total{reason=\"address\"}")
    });
    is_over.store(true, Ordering::SeqCst);
    let (mut held, mut n_refused) = (Vec::new(), 0);
    for flood in flooding {
        let (streams, n_more) = flood.join().unwrap();
        held.extend(streams);
        n_refused += n_more;
    }
    // On a busy machine a connection that was refused may have looked open for a while.
    eventually("the flood holds its share and no more", || {
        held.retain_mut(|stream| came(stream, Duration::from_millis(1)) != Came::End);
        held.len() <= 32
    });
    assert!(held.len() == 32 && n_refused > 0, "{} held, {n_refused} refused", held.len());
}
