//! The end of a process whose log is read, is not read, or has no reader any more.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use clap::Parser;
use gateway_service::StartError;
use gateway_service::output::EXIT_FAILED;
use gateway_service::process;
use gateway_service::quota::QuotaLimits;
use gateway_service::settings::process::Process;
use gateway_service::telemetry::{self, LogFormat};
use gateway_service::transport::Limits;
use std::io::{BufRead as _, BufReader, PipeReader, Read as _, pipe};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Environment variable of the child: what it does.
const CHILD: &str = "GATEWAY_SERVICE_TEST_CHILD";

/// Exit code of a child that ended with its error.
const ENDED: i32 = 17;

/// The counter of lost lines.
const LOST: &str = "operation_gateway_log_lines_dropped_total";

/// The command line of the test program, which the child does not read.
#[derive(Parser)]
struct Cli {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<String>,
}

/// A child with its standard output and its standard error in one pipe.
fn child(does: &str) -> (Child, PipeReader) {
    let (reader, writer) = pipe().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_is_a_process_that_ends", "--nocapture"]).env(CHILD, does);
    command.env_remove("RUST_BACKTRACE").stdout(writer.try_clone().unwrap()).stderr(writer);
    (command.spawn().unwrap(), reader)
}

fn wait(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("it did not end");
        }
        // Its output may not be read, so nothing else tells of the end.
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn log_that_is_not_read_delays_neither_a_panic_nor_the_end() {
    let (mut child, reader) = child("logs");
    assert_eq!(wait(&mut child).code(), Some(ENDED));
    drop(reader);
}

#[test]
fn log_whose_reader_is_gone_does_not_change_the_exit_code() {
    let (mut child, reader) = child("logs");
    // The test program prints before.
    let mut lines = BufReader::new(reader).lines();
    assert!(lines.any(|line| line.unwrap().contains("a line of the log")));
    drop(lines);
    assert_eq!(wait(&mut child).code(), Some(ENDED));
}

#[test]
fn panic_is_a_line_of_the_log_and_the_error_is_the_last_line() {
    let (mut child, mut reader) = child("panics");
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(wait(&mut child).code(), Some(ENDED), "{text}");
    let lines: Vec<_> = text.lines().collect();
    let panic = lines.iter().find(|line| line.contains("a bug")).unwrap();
    let panic: serde_json::Value = serde_json::from_str(panic).unwrap();
    assert_eq!(
        (&panic["level"], &panic["message"], &panic["target"]),
        (&"ERROR".into(), &"panicked: a bug".into(), &"panic".into())
    );
    assert!(panic["place"].as_str().unwrap().contains("tests/end.rs:"), "{panic}");
    assert_eq!(lines.last(), Some(&"child: the test: it ends"));
}

#[test]
fn panic_of_the_main_thread_is_written() {
    let (mut child, mut reader) = child("panics at the end");
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(!wait(&mut child).success());
    assert!(text.contains("\"message\":\"panicked: the last bug\""), "{text}");
}

/// Not a test by itself: the child process of the others.
#[test]
fn child_is_a_process_that_ends() {
    let Ok(does) = std::env::var(CHILD) else { return };
    let settings = settings();
    telemetry::start_metrics(telemetry::Metrics::default());
    let code = process::main("child", |_: Cli| process::start(settings.log(), 0, serve(&does)));
    // The test program itself would print its result to the same pipe.
    std::process::exit(if code == ExitCode::from(EXIT_FAILED) { ENDED } else { 1 });
}

async fn serve(does: &str) -> Result<(), StartError> {
    if does == "logs" {
        // More than the queue and a pipe hold.
        (0..20_000).for_each(|n| tracing::info!(n, "a line of the log"));
        let lost: u64 = ["queue", "write"].into_iter().map(n_lost).sum();
        assert!(lost > 0);
        let panicked = thread::spawn(|| panic!("{}", long())).join();
        assert!(panicked.is_err());
        return Err(StartError::new("the test", long()));
    }
    assert!(does != "panics at the end", "the last bug");
    let panicked = thread::spawn(|| panic!("a bug")).join();
    assert!(panicked.is_err());
    Err(StartError::new("the test", "it ends"))
}

/// More than a page: a full pipe may have room for a shorter line in its last page.
fn long() -> String {
    "x".repeat(10_000)
}

fn n_lost(reason: &str) -> u64 {
    let name = format!("{LOST}{{reason=\"{reason}\"}} ");
    telemetry::metrics().lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap()
}

fn settings() -> Process {
    let second = Duration::from_secs(1);
    Process {
        bind: ([127, 0, 0, 1], 0).into(),
        admin_bind: None,
        tls: None,
        quota: QuotaLimits { requests_max: 1, per_second: 1, burst: 1 },
        limits: Limits {
            connections_max: 1,
            connections_per_address_max: 1,
            handshake_within: second,
            header_within: second,
            idle_within: second,
            write_within: second,
            header_bytes_max: 1,
            headers_max: 1,
        },
        watch: second,
        shutdown_within: second,
        log_filter: "end=info".into(),
        log_format: LogFormat::Json,
        traces: None,
    }
}
