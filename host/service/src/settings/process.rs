//! Settings of a process behind the gateway: its callers, its log and its end. The gateway has some of them too.

use super::{Reader, number};
use crate::quota::QuotaLimits;
use crate::settings;
use crate::telemetry::LogFormat;
use crate::traces::{self, Traces};
use crate::transport::{ClientAuth, Limits, TlsFiles};
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Simultaneous requests of a caller: each can have a body of some megabytes.
const REQUESTS: RangeInclusive<usize> = 1..=4096;

/// Requests of a caller in a second, and at once: no process answers more than the upper end.
const RATE: RangeInclusive<u32> = 1..=1_000_000;

settings! {
    /// The callers of the process, and their quotas. A gateway that executes 400 operations a second makes about ten calls for each, of
    /// some ten milliseconds; the defaults leave room for two such gateways.
    #[derive(Clone, Debug)]
    pub struct Callers("server", "Callers") {
        /// Address of /healthz, /readyz and /metrics, in plain HTTP; empty serves none of them beyond bind
        admin_bind = "", "ADDRESS:PORT" => admin_bind: Option<SocketAddr> = Reader::optional_address;
        /// The process's certificate chain, its own certificate first, PEM
        tls_certificate = "", "FILE" => tls: Option<TlsFiles> = mutual_tls;
        /// The certificate's private key, PEM, in a secret file
        tls_key = "", "FILE";
        /// Certificate authorities that sign callers' certificates, PEM
        tls_client_ca = "", "FILE";
        /// DNS names in the certificates of the callers that are served: the gateway's
        callers = "", "NAME,...";
        /// Requests of one caller that are answered at the same time; further ones get 429
        requests_max = "128", "REQUESTS" => requests_max: usize = number(REQUESTS);
        /// Requests a second that one caller may make on average
        caller_rate = "10000", "REQUESTS" => per_second: u32 = number(RATE);
        /// Requests that one caller may make at once after a pause; further ones get 429
        caller_burst = "20000", "REQUESTS" => burst: u32 = number(RATE);
    }
}

settings! {
    /// Log, files and end of the process.
    #[derive(Clone, Debug)]
    pub struct Running("process", "Process") {
        /// Interval between readings of approvers_file and policy_trust_roots
        watch_ms = "5000", "MILLISECONDS" => watch: Duration = Reader::duration;
        /// How long a stopping process waits for requests in progress
        shutdown_within_ms = "30000", "MILLISECONDS" => shutdown_within: Duration = Reader::duration;
        /// What is logged, as tracing filter directives
        log = "info", "FILTER" => log_filter: String = Reader::text;
        /// auto is pretty in a terminal and JSON elsewhere
        log_format = "auto", "auto|pretty|json" => log_format: LogFormat = log_format;
    }
}

settings! {
    /// Traces, which a collector receives.
    #[derive(Clone, Debug)]
    pub struct TraceSettings("traces", "Traces") {
        /// OpenTelemetry collector that gets the traces (OTLP, protobuf over plain HTTP); empty for no traces
        otlp_endpoint = "", "http://HOST:PORT" => collector: Option<String> = collector;
        /// Share of traces that are recorded; behind the gateway, of those that no caller decided on
        trace_ratio = "0.1", "0..1" => ratio: f64 = ratio;
        /// The process's name in the traces; empty for the program's name
        trace_service = "", "NAME" => service: String = Reader::any_text;
    }
}

/// The settings of [`Callers`], [`Limits`], [`Running`], [`TraceSettings`], and `bind`.
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

impl Process {
    /// Its log and traces.
    #[must_use]
    pub fn log(&self) -> (&str, LogFormat, Option<&Traces>) {
        (&self.log_filter, self.log_format, self.traces.as_ref())
    }

    /// Reads them. `program` is its name in traces.
    pub fn read(reader: &mut Reader<'_>, program: &str) -> Self {
        let limits = Limits::read(reader);
        limits.check(reader);
        let bind = reader.address("bind");
        let Callers { admin_bind, tls, requests_max, per_second, burst } = Callers::read(reader);
        let quota = QuotaLimits { requests_max, per_second, burst };
        let Running { watch, shutdown_within, log_filter, log_format } = Running::read(reader);
        let traces = TraceSettings::read(reader).traces(program, true);
        Self { bind, admin_bind, tls, quota, limits, watch, shutdown_within, log_filter, log_format, traces }
    }
}

impl TraceSettings {
    /// The traces of this program; `None` without a collector.
    #[must_use]
    pub fn traces(self, program: &str, follows_caller: bool) -> Option<Traces> {
        let Self { collector, ratio, service } = self;
        let service = if service.is_empty() { program.to_owned() } else { service };
        collector.map(|collector| Traces { collector, ratio, service, follows_caller })
    }
}

// A credential in a URL must not be in a message.
fn collector(reader: &mut Reader<'_>, name: &str) -> Option<String> {
    let url = reader.resolved.text(name);
    let address = traces::collector_address(url);
    if address.is_none() && !url.is_empty() {
        reader.fault(name, "must be `http://HOST:PORT`, without credentials");
    }
    address
}

fn ratio(reader: &mut Reader<'_>, name: &str) -> f64 {
    let ratio: f64 = reader.value(name, "a number from 0 to 1", 0.0);
    if !(0.0..=1.0).contains(&ratio) {
        reader.fault(name, "must be a number from 0 to 1");
    }
    ratio
}

/// Reads the setting `log_format`.
pub fn log_format(reader: &mut Reader<'_>, name: &str) -> LogFormat {
    let words = [("auto", LogFormat::Auto), ("pretty", LogFormat::Pretty), ("json", LogFormat::Json)];
    reader.one_of(name, &words, LogFormat::Json)
}

/// The files of mutual TLS, from the settings `tls_certificate`, `tls_key`, `tls_client_ca` and `callers`: all of them or none.
fn mutual_tls(reader: &mut Reader<'_>, name: &str) -> Option<TlsFiles> {
    let names = callers(reader);
    let files = [name, "tls_key", "tls_client_ca"].map(|name| reader.path(name));
    match files {
        [Some(certificate), Some(key), Some(authorities)] if !names.is_empty() => {
            Some(TlsFiles { certificate, key, clients: ClientAuth::Named(authorities, names) })
        }
        [None, None, None] if names.is_empty() => None,
        _ => {
            reader.fault(name, "must be given together with `tls_key`, `tls_client_ca` and `callers`");
            None
        }
    }
}

fn callers(reader: &mut Reader<'_>) -> Vec<ServerName<'static>> {
    let names = reader.list("callers").map(|name| ServerName::try_from(name.to_owned()));
    names.collect::<Result<_, _>>().unwrap_or_else(|_| {
        reader.fault("callers", "must be DNS names, separated by commas");
        Vec::new()
    })
}
