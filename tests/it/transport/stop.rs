//! Stopping the gateway: it answers requests in flight, and does not wait for unfinished ones without end.

use crate::harness::process::Process;
use crate::harness::samples::payment;
use crate::harness::wire::{Received, eventually, get_on, read_answer, read_to_end, receive};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn stop_answers_requests_in_flight_and_closes_idle_connections() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path(), None, &[]);
    let mut idle = TcpStream::connect(&process.address).unwrap();
    assert_eq!(get_on(&mut idle, "/healthz").unwrap().0, 200);
    let body = payment("in-flight").to_string();
    let mut sending = TcpStream::connect(&process.address).unwrap();
    let head = format!(
        "POST /v1/operations/sign HTTP/1.1\r\nhost: gateway\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    sending.write_all(head.as_bytes()).unwrap();
    // The handler reads the body, so the request is in flight.
    let Received::Bytes(interim) = receive(&mut sending, Duration::from_secs(60)) else {
        panic!("no answer")
    };
    assert!(interim.starts_with(b"HTTP/1.1 100 "));
    process.sigterm();
    assert_eq!(read_to_end(&mut idle), "", "the idle connection must be closed");
    eventually("new connections are refused", || TcpStream::connect(&process.address).is_err());
    sending.write_all(body.as_bytes()).unwrap();
    assert_eq!(read_answer(&mut sending).unwrap().0, 200);
    assert_eq!(read_to_end(&mut sending), "");
    process.wait_for_line("operation-gateway stopped");
}

#[test]
fn unfinished_request_does_not_delay_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let overrides =
        [("shutdown_within_ms", "500"), ("body_within_ms", "100000"), ("request_within_ms", "200000")];
    let process = Process::start(folder.path(), None, &overrides);
    let mut sending = TcpStream::connect(&process.address).unwrap();
    let head =
        "POST /v1/operations/sign HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    sending.write_all(head.as_bytes()).unwrap();
    assert!(matches!(receive(&mut sending, Duration::from_secs(60)), Received::Bytes(_)));
    let began = Instant::now();
    let (ended, log) = process.terminate();
    assert!(ended.success(), "{log:#?}");
    // Less than the body deadline.
    assert!(began.elapsed() < Duration::from_secs(90), "{:?}", began.elapsed());
}
