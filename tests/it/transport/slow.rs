//! Slow clients are cut off at the deadline of their current step, and not before it.

use crate::harness::process::{Process, request, text};
use crate::harness::wire::{
    Received, connect_from, eventually, get_on, get_request, read_answer, read_to_end, receive, write_slowly,
};
use gateway_api::ROUTES;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_millis(1500);

/// Settings with this deadline at [`DEADLINE`], and the usual ones for the other steps.
fn with_short_deadline(name: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![("reconcile_every_ms", "60000"), (name, "1500")]
}

/// Whether the metrics count a connection that was cut off for this reason.
fn has_cut(process: &Process, reason: &str) -> bool {
    let line = format!("operation_gateway_connections_cut_total{{reason=\"{reason}\"}}");
    text(&process.address, "/metrics").contains(&line)
}

#[test]
fn slow_headers_are_cut_off_while_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &with_short_deadline("header_within_ms"));
    for sent in ["", "GET /healthz HTTP/1.1\r\nx-slow: ", "POST /v1/operations/sign HTTP/1.1\r\n"] {
        let (began, mut slow) = (Instant::now(), TcpStream::connect(&process.address).unwrap());
        slow.write_all(sent.as_bytes()).unwrap();
        let received = write_slowly(&mut slow, b"a", Duration::from_millis(100));
        assert!(began.elapsed() >= DEADLINE, "{sent:?} was cut off after {:?}", began.elapsed());
        assert!(!received.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&received));
        assert_eq!(request(&process.address, "GET", "/healthz", None).unwrap().0, 200);
    }
    assert!(has_cut(&process, "header"));
}

#[test]
fn client_that_sends_nothing_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &with_short_deadline("header_within_ms"));
    let (began, mut stream) = (Instant::now(), TcpStream::connect(&process.address).unwrap());
    assert_eq!(read_to_end(&mut stream), "");
    assert!(began.elapsed() >= DEADLINE);
}

#[test]
fn slow_body_is_cut_off_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &with_short_deadline("body_within_ms"));
    for (path, framing) in
        [("/v1/operations/sign", "content-length: 4096"), ("/v1/custody/keys", "transfer-encoding: chunked")]
    {
        let (began, mut slow) = (Instant::now(), TcpStream::connect(&process.address).unwrap());
        slow.write_all(head(path, framing).as_bytes()).unwrap();
        // White space, as the body itself or in chunks of one byte.
        let received = match framing {
            "content-length: 4096" => write_slowly(&mut slow, b" ", Duration::from_millis(100)),
            _ => write_slowly(&mut slow, b"1\r\n \r\n", Duration::from_millis(40)),
        };
        assert_request_timeout(path, &String::from_utf8(received).unwrap());
        assert!(began.elapsed() >= DEADLINE, "{path} was cut off after {:?}", began.elapsed());
    }
}

/// The head of a POST.
fn head(path: &str, framing: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: gateway\r\n{framing}\r\n\r\n")
}

#[track_caller]
fn assert_request_timeout(path: &str, received: &str) {
    assert!(received.starts_with("HTTP/1.1 408 "), "{path}: {received:?}");
    assert!(
        received.contains("\r\nconnection: close\r\n") && received.contains("\r\nx-request-id: "),
        "{received}"
    );
    assert!(received.contains(r#"{"error":"request_timeout","message":"#), "{received}");
}

#[test]
fn missing_body_is_cut_off_on_every_route() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &with_short_deadline("body_within_ms"));
    let posts = ROUTES.iter().filter(|(method, ..)| *method == "POST");
    let waiting = posts.map(|(_, path, _)| {
        let path = path.replace("{operationId}", &"0".repeat(64)).replace("{keyRef}", "k");
        let mut stream = TcpStream::connect(&process.address).unwrap();
        stream.write_all(head(&path, "content-length: 9").as_bytes()).unwrap();
        (path, stream)
    });
    for (path, mut stream) in waiting.collect::<Vec<_>>() {
        assert_request_timeout(&path, &read_to_end(&mut stream));
    }
}

#[test]
fn idle_connection_is_closed_at_its_own_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let overrides = [("header_within_ms", "1500"), ("idle_within_ms", "600000")];
    let process = Process::start(folder.path(), None, &overrides);
    let mut stream = TcpStream::connect(&process.address).unwrap();
    for _ in 0..2 {
        assert_eq!(get_on(&mut stream, "/healthz").unwrap().0, 200);
        // Longer than the header deadline and shorter than the idle deadline.
        assert_eq!(receive(&mut stream, Duration::from_millis(2500)), Received::Nothing);
    }
    // Once the next request has begun, it has the header deadline.
    write_slowly(&mut stream, b"G", Duration::from_millis(50));
    assert!(has_cut(&process, "header") && !has_cut(&process, "idle"));
    drop(process);

    let folder = tempfile::tempdir().unwrap();
    let overrides = [("header_within_ms", "600000"), ("idle_within_ms", "1500")];
    let process = Process::start(folder.path(), None, &overrides);
    let mut stream = TcpStream::connect(&process.address).unwrap();
    let idle = Instant::now();
    assert_eq!(get_on(&mut stream, "/healthz").unwrap().0, 200);
    assert_eq!(read_to_end(&mut stream), "");
    assert!(idle.elapsed() >= DEADLINE, "{:?}", idle.elapsed());
    assert!(has_cut(&process, "idle") && !has_cut(&process, "header"));
}

#[test]
fn unread_answer_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &with_short_deadline("write_within_ms"));
    // Pipelines requests until the buffers of both ends are full.
    let mut unread = TcpStream::connect(&process.address).unwrap();
    unread.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let requests = get_request("/v1/openapi.json").repeat(64);
    let mut is_full = false;
    eventually("buffers must fill", || {
        is_full = is_full || unread.write_all(requests.as_bytes()).is_err();
        is_full
    });
    eventually("a client that does not read must be cut off", || has_cut(&process, "write"));
    // A client that reads its answers gets all of them.
    let mut reading = TcpStream::connect(&process.address).unwrap();
    reading.write_all(get_request("/v1/openapi.json").repeat(3).as_bytes()).unwrap();
    for _ in 0..3 {
        assert_eq!(read_answer(&mut reading).unwrap().0, 200);
    }
}

#[test]
fn oversized_headers_and_targets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let overrides = [("header_bytes_max", "16384"), ("headers_max", "20")];
    let process = Process::start(folder.path(), None, &overrides);
    let received = |head: String| {
        let mut stream = TcpStream::connect(&process.address).unwrap();
        // The gateway may refuse it before all of it is sent.
        let _refused = stream.write_all(head.as_bytes());
        read_to_end(&mut stream)
    };
    let with = |headers: &str| {
        format!("GET /healthz HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n{headers}\r\n")
    };
    let long = |n_bytes| with(&format!("x: {}\r\n", "y".repeat(n_bytes)));
    let many = |n_headers| with(&"x: y\r\n".repeat(n_headers));
    let status = |answer: String| answer.get(9..12).map(str::to_owned);
    assert_eq!(status(received(long(15_000))).as_deref(), Some("200"));
    assert_eq!(status(received(long(17_000))).as_deref(), Some("431"));
    assert_eq!(status(received(many(18))).as_deref(), Some("200"));
    assert_eq!(status(received(many(19))).as_deref(), Some("431"));
    // The router refuses an overlong target with its own error body.
    let target = |n_bytes: usize| {
        let query = "q".repeat(n_bytes - "/healthz?".len());
        format!("GET /healthz?{query} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n")
    };
    assert_eq!(status(received(target(8192))).as_deref(), Some("200"));
    let answer = received(target(8193));
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("invalid_request"), "{answer}");
    // A server of HTTP/1.1 must be told for which host a request is, once.
    for (version, hosts, expected) in [
        ("1.1", "", "400"),
        ("1.1", "host: gateway\r\nhost: evil.example\r\n", "400"),
        ("1.0", "host: gateway\r\nhost: gateway\r\n", "400"),
        ("1.1", "host: gateway\r\n", "200"),
        ("1.0", "", "200"),
    ] {
        let head = format!("GET /healthz HTTP/{version}\r\nconnection: close\r\n{hosts}\r\n");
        assert_eq!(status(received(head)).as_deref(), Some(expected), "{version} {hosts:?}");
    }
}

#[test]
fn malformed_http_is_refused_while_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let hostile: [&[u8]; 6] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/operations/sign HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/operations/sign HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx",
    ];
    for bytes in hostile {
        let mut stream = connect_from(1, &process.address).unwrap();
        stream.write_all(bytes).unwrap();
        let received = read_to_end(&mut stream);
        assert!(!received.contains(" 200 ") && !received.contains(" 500 "), "{received}");
        assert_eq!(request(&process.address, "GET", "/healthz", None).unwrap().0, 200);
    }
}
