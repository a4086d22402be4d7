//! The stream of events of the real process: what a listener gets while the gateway is killed again and again, and what listeners cost.

use crate::harness::payer::{Address, Payer};
use crate::harness::process::{EXECUTE, Process, SIGN, drive, publish_step, text};
use crate::harness::samples::{payment, with};
use crate::harness::wire::{poll, poll_within};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Result, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A stream that began after the event `last`, or from now on.
fn listen(address: &str, last: Option<&str>) -> Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let last = last.map(|last| format!("last-event-id: {last}\r\n")).unwrap_or_default();
    write!(stream, "GET /v1/events HTTP/1.1\r\nhost: gateway\r\n{last}\r\n")?;
    let mut stream = BufReader::new(stream);
    // The gateway answers once it has chosen where the stream begins.
    stream.read_line(&mut String::new())?;
    Ok(stream)
}

/// Reads events into `events` until the connection ends. hyper sends each block as a chunk of its own.
fn receive(mut stream: BufReader<TcpStream>, last: &mut Option<String>, events: &Received) -> Result<()> {
    let (mut line, mut id) = (String::new(), None::<String>);
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some(found) = line.strip_prefix("id: ") {
            id = Some(found.trim().to_owned());
        } else if let (Some(data), Some(id)) = (line.strip_prefix("data: "), &id) {
            let index = id.split_once('-').unwrap().0.parse().unwrap();
            events.lock().unwrap().push((index, serde_json::from_str(data)?));
            *last = Some(id.clone());
        } else if line.trim().is_empty() && id.is_some() {
            last.clone_from(&id);
        }
    }
}

type Received = Mutex<Vec<(u64, Value)>>;

/// Connects again whenever the connection ends, as browsers do, until `ends`. Returns the number of connections.
fn listen_again(first: BufReader<TcpStream>, address: &Address, events: &Received, ends: &AtomicBool) -> u64 {
    let (mut last, mut n_connections) = (None, 1);
    drop(receive(first, &mut last, events));
    while !ends.load(Ordering::Relaxed) {
        let at = address.get();
        match listen(&at, last.as_deref()) {
            Ok(stream) => {
                n_connections += 1;
                drop(receive(stream, &mut last, events));
            }
            Err(_) => address.wait_for_another(&at),
        }
    }
    n_connections
}

/// What the operation's own audit log has: number and type of each event.
fn audited(process: &Process, operation: &str) -> Vec<(u64, String)> {
    let audit = process.get(&format!("/v1/operations/{operation}/audit-replay"));
    let entries = audit["events"].as_array().unwrap().iter();
    let one = |entry: &Value| {
        let name = entry["event"]["change"]["type"].as_str().unwrap();
        (entry["seq"].as_u64().unwrap(), name.to_owned())
    };
    entries.map(one).collect()
}

const N_KILLS: u64 = 4;

#[test]
fn listener_gets_every_event_once_and_in_order_while_the_gateway_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path(), None, &[]);
    let address = Address::new(&process.address);
    let events: Arc<Received> = Arc::default();
    let ends = Arc::new(AtomicBool::new(false));
    // Heard before the first payment begins, so that nothing comes before the listener.
    let first = listen(&process.address, None).unwrap();
    let listener = {
        let (address, events, ends) = (address.clone(), events.clone(), ends.clone());
        std::thread::spawn(move || listen_again(first, &address, &events, &ends))
    };
    let payer = Payer::start(&address);
    for nth in 0..N_KILLS {
        payer.pays(nth);
        process.kill();
        process = Process::start(folder.path(), None, &[]);
        address.set(&process.address);
    }
    let n_paid = payer.finish();
    let operations: BTreeSet<_> = (0..n_paid)
        .map(|number| process.post(SIGN, Some(&payment(&format!("pay-{number}"))))["operation"].clone())
        .map(|operation| operation["operation_id"].as_str().unwrap().to_owned())
        .collect();
    let expected: BTreeMap<_, _> =
        operations.iter().map(|operation| (operation.clone(), audited(&process, operation))).collect();
    let received = || {
        let mut received: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
        for (_, event) in events.lock().unwrap().iter() {
            let text = |name: &str| event[name].as_str().unwrap().to_owned();
            let of_one = received.entry(text("operation_id")).or_default();
            of_one.push((event["seq"].as_u64().unwrap(), text("type")));
        }
        // Keys that are made on first use have operations of their own.
        received.retain(|operation, _| operations.contains(operation));
        received
    };
    poll(received, |received| *received == expected);
    let ids: Vec<_> = events.lock().unwrap().iter().map(|(id, _)| *id).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    ends.store(true, Ordering::Relaxed);
    process.terminate();
    assert!(listener.join().unwrap() > N_KILLS, "the listener connected again after each kill");
}

/// Resident memory of a process, KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn thousand_listeners_cost_little_and_get_everything() {
    const N_LISTENERS: u64 = 1_000;
    let folder = tempfile::tempdir().unwrap();
    let limits = [("connections_max", "1200"), ("connections_per_address_max", "1200")];
    let process = Process::start(folder.path(), None, &limits);
    // The first payment makes a key, and fills caches.
    let pay = |name: &str| drive(&process.address, SIGN, &payment(name), &[EXECUTE, publish_step()]).unwrap();
    pay("before");
    let before = resident_kib(process.pid());
    let mut listeners: Vec<_> = (0..N_LISTENERS).map(|_| listen(&process.address, None).unwrap()).collect();
    for listener in &mut listeners {
        let mut line = String::new();
        while !line.starts_with("id: ") {
            line.clear();
            assert!(listener.read_line(&mut line).unwrap() > 0);
        }
    }
    let operation = pay("heard");
    let n_events = audited(&process, operation["operation_id"].as_str().unwrap()).len();
    for listener in &mut listeners {
        let (mut line, mut n_received) = (String::new(), 0);
        while n_received < n_events {
            line.clear();
            assert!(listener.read_line(&mut line).unwrap() > 0);
            n_received += usize::from(line.starts_with("data: "));
        }
    }
    let of_one = resident_kib(process.pid()).saturating_sub(before) / N_LISTENERS;
    println!("{of_one} KiB for each of {N_LISTENERS} listeners");
    assert!(of_one < 64, "{of_one} KiB for each listener");
}

#[test]
fn listener_that_never_reads_delays_no_one_and_is_disconnected() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[("write_within_ms", "1000")]);
    // Each event has the name of the key, and together they have more than the buffers of a connection, which Linux lets grow to 4 MB.
    let key_ref = "k".repeat(1000);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (address, key_ref) = (&process.address, &key_ref);
            scope.spawn(move || {
                for number in 0..80 {
                    let body = with(payment(&format!("{thread}-{number}")), "/key_ref", json!(key_ref));
                    drive(address, SIGN, &body, &[]).unwrap();
                }
            });
        }
    });
    let cut = || {
        let metrics = text(&process.address, "/metrics");
        let line =
            metrics.lines().find(|line| line.contains("connections_cut_total") && line.contains("write"));
        line.map(|line| line.rsplit(' ').next().unwrap().to_owned())
    };
    assert_eq!(cut(), None);
    let mut silent = TcpStream::connect(&process.address).unwrap();
    write!(silent, "GET /v1/events?from=0 HTTP/1.1\r\nhost: gateway\r\n\r\n").unwrap();
    let started = Instant::now();
    drive(&process.address, SIGN, &payment("meanwhile"), &[EXECUTE, publish_step()]).unwrap();
    assert!(started.elapsed() < Duration::from_secs(15));
    poll_within(Duration::from_secs(120), cut, |n_cut| n_cut.as_deref() == Some("1"));
}
