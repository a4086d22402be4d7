//! The life of a small process: its command line's errors, its listeners, and its end.

use crate::StartError;
use crate::output::{self, Lines};
use crate::quota::Quotas;
use crate::settings::process::Process;
use crate::settings::{Described, Flags, Resolved};
use crate::signals::Signals;
use crate::system_limits;
use crate::telemetry;
use crate::traces;
use crate::transport::{Limits, Server, Tls, until_stopped};
use axum::Router;
use clap::Parser;
use gateway_domain::error_chain;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::panic::PanicHookInfo;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::Signal;
use tokio::sync::watch;

/// Exit code of a command that failed or has findings, and of a process that did not start.
pub const EXIT_FAILED: u8 = 1;
/// Exit code of invalid settings.
pub const EXIT_SETTINGS: u8 = 2;

/// Open files besides connections: a database, its journal, and its readers.
const FILES_OF_PROCESS: u64 = 64;

/// Threads besides those of the runtime: the log, metrics, traces, policies, and a database, which hands each call to a thread.
pub const THREADS_OF_PROCESS: usize = 16;

/// The same of a command.
const THREADS_OF_COMMAND: usize = 8;

/// Why a command failed, in one line.
pub type Fault = Box<dyn Error + Send + Sync>;

/// The settings of flags given before and after a command; those after it win.
///
/// # Errors
/// One line for each fault.
pub fn settings<T: Described>(
    before: &Flags<T>,
    after: &Flags<T>,
    parse: impl FnOnce(&Resolved) -> Result<T, Vec<String>>,
) -> Result<T, Vec<String>> {
    after.or(before).resolve_here().and_then(|resolved| parse(&resolved))
}

/// Prints every setting with its value and its source.
pub fn print_settings<T: Described>(
    name: &str,
    flags: &Flags<T>,
    parse: impl FnOnce(&Resolved) -> Result<T, Vec<String>>,
) -> ExitCode {
    let printed = flags.resolve_here().and_then(|resolved| {
        print_values(&resolved);
        parse(&resolved)
    });
    match printed {
        Ok(_) => ExitCode::SUCCESS,
        Err(faults) => report_errors(name, &faults, EXIT_SETTINGS),
    }
}

/// Prints every setting with its value and its source.
pub fn print_values(resolved: &Resolved) {
    let mut lines = Lines::new();
    for (setting, text, source) in resolved.iter() {
        lines.add(format_args!("{} = {text:?} # {source}", setting.name));
    }
    // The exit code shows it.
    let _unwritten = output::print(&lines);
}

/// Starts the log and the metrics, and serves.
pub fn start(
    name: &str,
    settings: &Process,
    serving: impl Future<Output = Result<(), StartError>>,
) -> ExitCode {
    if let Err(error) = check_threads(THREADS_OF_PROCESS) {
        return report_errors(name, &[error.to_string()], EXIT_FAILED);
    }
    let (filter, format, traces) = (&settings.log_filter, settings.log_format, settings.traces.as_ref());
    if let Err(error) = telemetry::start_log(filter, format, traces) {
        return report_errors(name, &[error], EXIT_SETTINGS);
    }
    telemetry::start_metrics(telemetry::Metrics::default());
    let served = runtime().map_err(Fault::from).and_then(|runtime| {
        runtime.block_on(serving)?;
        Ok(ExitCode::SUCCESS)
    });
    traces::finish();
    exit_code(name, served)
}

/// Checks that the system lets a process that serves start its threads. The log's and those of libraries have no error for it.
///
/// # Errors
/// It does not.
pub fn check_threads(n_beside_runtime: usize) -> io::Result<()> {
    system_limits::check_threads(system_limits::n_workers().saturating_add(n_beside_runtime))
}

/// Runs a command on an async runtime of its own.
pub fn run(name: &str, command: impl Future<Output = Result<ExitCode, Fault>>) -> ExitCode {
    exit_code(name, runtime().map_err(Fault::from).and_then(|runtime| runtime.block_on(command)))
}

/// An async runtime with a thread for each processor.
///
/// # Errors
/// The system does not allow so many threads, or the runtime cannot start.
pub fn runtime() -> io::Result<Runtime> {
    let n_workers = system_limits::n_workers();
    system_limits::check_threads(n_workers + THREADS_OF_COMMAND)?;
    tokio::runtime::Builder::new_multi_thread().worker_threads(n_workers).enable_all().build()
}

/// An async runtime on this thread alone.
pub fn small_runtime() -> io::Result<Runtime> {
    system_limits::check_threads(THREADS_OF_COMMAND)?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn exit_code(name: &str, result: Result<ExitCode, Fault>) -> ExitCode {
    result.unwrap_or_else(|error| report_errors(name, &[error_chain(error.as_ref())], EXIT_FAILED))
}

/// Parses the command line and runs the command. The exit code is [`output::finish`]'s.
pub fn main<C: Parser>(name: &'static str, run: impl FnOnce(C) -> ExitCode) -> ExitCode {
    // Dropped last.
    let _end_log = output::EndLog;
    std::panic::set_hook(Box::new(move |panic| report_panic(name, panic)));
    let code = match C::try_parse() {
        Ok(command_line) => run(command_line),
        Err(error) => print_usage::<C>(&error),
    };
    output::finish(name, code)
}

/// Prints an error of the command line, or its help. An error repeats arguments, in which others may have put line feeds, so they are
/// escaped before.
fn print_usage<C: Parser>(error: &clap::Error) -> ExitCode {
    let mut lines = Lines::new();
    let escaped = std::env::args_os().map(|argument| output::escape(&argument.to_string_lossy()));
    match C::try_parse_from(escaped) {
        Err(error) => lines.add_text(&error.to_string()),
        Ok(_) => lines.add(error),
    }
    // The exit code shows it.
    let _unwritten = if error.use_stderr() { output::tell(&lines) } else { output::print(&lines) };
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_SETTINGS))
}

/// Logs a panic, with the calls that led to it if the environment wants them (`RUST_BACKTRACE`). A process without a log prints it on one line,
/// and the calls below it.
fn report_panic(name: &str, panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let calls = Backtrace::capture();
    let calls = (calls.status() == BacktraceStatus::Captured).then(|| calls.to_string());
    if telemetry::log_panic(text, &place, calls.as_deref()) {
        return;
    }
    let mut lines = Lines::new();
    lines.add(format_args!("{name}: panicked at {place}: {text}"));
    lines.add_text(calls.as_deref().unwrap_or_default());
    let _no_reader = output::tell(&lines);
}

pub use output::report_errors;

/// The listeners of a process, bound, and its signals.
pub struct Listeners {
    name: &'static str,
    listener: TcpListener,
    admin: Option<TcpListener>,
    /// The certificates, which SIGHUP reads again.
    pub tls: Arc<Tls>,
    /// SIGHUP.
    pub hangups: Option<Signal>,
    /// Becomes true on SIGTERM or SIGINT.
    pub stopping: watch::Receiver<bool>,
    /// The quotas of the callers whom the settings name.
    pub quotas: Arc<Quotas>,
    limits: Limits,
    shutdown_within: Duration,
}

impl Listeners {
    /// Raises the limit of open files, reads the certificates, binds the addresses and registers the signals. `bind` is served over
    /// mutual TLS only, `admin_bind` in plain HTTP.
    ///
    /// # Errors
    /// [`StartError`], one line that names the part.
    pub async fn open(name: &'static str, settings: &Process) -> Result<Self, StartError> {
        let n_connections = u64::try_from(settings.limits.connections_max).unwrap_or(u64::MAX);
        system_limits::raise_files(n_connections.saturating_mul(2).saturating_add(FILES_OF_PROCESS))?;
        let signals = Signals::listen();
        let Some(files) = settings.tls.clone() else {
            let why = "must be given: this process serves only over mutual TLS";
            return Err(StartError::new("setting `tls_certificate`", why));
        };
        let quotas = Arc::new(Quotas::new(files.clients.names(), settings.quota));
        let tls = Arc::new(Tls::open(files).map_err(|error| StartError::new("tls", error))?);
        let listener = listen(settings.bind).await?;
        let admin = match settings.admin_bind {
            Some(admin) => Some(listen(admin).await?),
            None => None,
        };
        let stopping = signals.stop.watch();
        let (limits, shutdown_within) = (settings.limits, settings.shutdown_within);
        let hangups = signals.files;
        Ok(Self { name, listener, admin, tls, hangups, stopping, quotas, limits, shutdown_within })
    }

    /// The address that is served over mutual TLS.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves until the process is stopped, and then until the requests in progress are answered, at most for `shutdown_within`.
    pub async fn serve(self, router: Router, admin_router: Router) {
        let Self { name, listener, admin, tls, stopping, limits, shutdown_within, .. } = self;
        let server = Server::new(name, listener, router, limits, Some(tls));
        let admin = admin.map(|listener| Server::new("admin", listener, admin_router, limits, None));
        let serving = async {
            let admin = async {
                if let Some(admin) = admin {
                    admin.run(stopping.clone()).await;
                }
            };
            tokio::join!(server.run(stopping.clone()), admin);
        };
        let mut stopped = stopping.clone();
        let too_late = async {
            until_stopped(&mut stopped).await;
            tokio::time::sleep(shutdown_within).await;
        };
        tokio::select! {
            () = serving => {}
            () = too_late => {}
        }
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| StartError::new(format!("address `{address}`"), error))
}

/// Reads files again at intervals, and on SIGHUP, until the process stops.
pub async fn watch_files(
    every: Duration,
    mut hangups: Option<Signal>,
    mut stopping: watch::Receiver<bool>,
    mut read: impl FnMut(Cause),
) {
    let mut rounds = tokio::time::interval(every);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        let hangup = async {
            match &mut hangups {
                Some(hangups) => drop(hangups.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = until_stopped(&mut stopping) => return,
            _ = rounds.tick() => read(Cause::Interval),
            () = hangup => read(Cause::Hangup),
        }
    }
}

/// Why files are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The interval passed: only files that changed are read.
    Interval,
    /// The operator asked for it.
    Hangup,
}

/// Reads the certificates again, and logs the result.
pub fn reload_certificates(tls: &Tls) {
    match tls.reload() {
        Ok(()) => tracing::info!("reloaded certificates"),
        Err(error) => tracing::error!(
            error = error_chain(&error),
            "could not reload certificates; the current ones stay in use"
        ),
    }
}
