//! Settings of a process behind the gateway: its callers, its log and its end.

use super::{Reader, Section, setting};
use crate::quota::QuotaLimits;
use crate::telemetry::LogFormat;
use crate::traces::Traces;
use crate::transport::{Limits, TlsFiles};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Simultaneous requests of a caller: each can have a body of some megabytes.
const REQUESTS: RangeInclusive<usize> = 1..=4096;

/// Requests of a caller in a second, and at once: no process answers more than the upper end.
const RATE: RangeInclusive<u32> = 1..=1_000_000;

/// The callers of the process, and their quotas. A gateway that executes 400 operations a second makes about ten calls for each, of
/// some ten milliseconds; the defaults leave room for two such gateways.
pub const CALLERS: Section = Section {
    name: "server",
    heading: "Callers",
    settings: &[
        setting(
            "admin_bind",
            "",
            "ADDRESS:PORT",
            "Address of /healthz, /readyz and /metrics, in plain HTTP; empty serves none of them beyond bind",
        ),
        setting(
            "tls_certificate",
            "",
            "FILE",
            "The process's certificate chain, its own certificate first, PEM",
        ),
        setting("tls_key", "", "FILE", "The certificate's private key, PEM, in a secret file"),
        setting("tls_client_ca", "", "FILE", "Certificate authorities that sign callers' certificates, PEM"),
        setting(
            "callers",
            "",
            "NAME,...",
            "DNS names in the certificates of the callers that are served: the gateway's",
        ),
        setting(
            "requests_max",
            "128",
            "REQUESTS",
            "Requests of one caller that are answered at the same time; further ones get 429",
        ),
        setting("caller_rate", "10000", "REQUESTS", "Requests a second that one caller may make on average"),
        setting(
            "caller_burst",
            "20000",
            "REQUESTS",
            "Requests that one caller may make at once after a pause; further ones get 429",
        ),
    ],
};

/// Log, files and end of the process.
pub const PROCESS: Section = Section {
    name: "process",
    heading: "Process",
    settings: &[
        setting(
            "watch_ms",
            "5000",
            "MILLISECONDS",
            "Interval between readings of approvers_file and policy_trust_roots",
        ),
        setting(
            "shutdown_within_ms",
            "30000",
            "MILLISECONDS",
            "How long a stopping process waits for requests in progress",
        ),
        setting("log", "info", "FILTER", "What is logged, as tracing filter directives"),
        setting("log_format", "auto", "auto|pretty|json", "auto is pretty in a terminal and JSON elsewhere"),
    ],
};

/// The settings of [`CALLERS`], [`CONNECTIONS`](super::server::CONNECTIONS), [`PROCESS`], [`TRACES`](super::server::TRACES), and `bind`.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Process {
    pub bind: SocketAddr,
    pub admin_bind: Option<SocketAddr>,
    /// Given for `serve`; the other commands need none.
    pub tls: Option<TlsFiles>,
    pub quota: QuotaLimits,
    pub limits: Limits,
    pub watch: Duration,
    pub shutdown_within: Duration,
    pub log_filter: String,
    pub log_format: LogFormat,
    pub traces: Option<Traces>,
}

impl Reader<'_> {
    /// The settings of [`Process`]. `program` is its name in traces.
    pub fn process(&mut self, program: &str) -> Process {
        let limits = self.connections();
        self.check_connections(&limits);
        Process {
            bind: self.value("bind", "an address and a port", SocketAddr::from(([127, 0, 0, 1], 0))),
            admin_bind: self.optional_address("admin_bind"),
            tls: self.mutual_tls(),
            quota: QuotaLimits {
                requests_max: self.number("requests_max", REQUESTS),
                per_second: self.number("caller_rate", RATE),
                burst: self.number("caller_burst", RATE),
            },
            limits,
            watch: self.duration("watch_ms"),
            shutdown_within: self.duration("shutdown_within_ms"),
            log_filter: self.text("log"),
            log_format: self.log_format(),
            traces: self.traces(program, true),
        }
    }
}
