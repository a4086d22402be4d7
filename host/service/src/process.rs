//! The life of a process: its command line's errors, its settings, its listeners, and its end.

use crate::StartError;
use crate::approvers::Verifiers;
use crate::output::{self, EXIT_FAILED, EXIT_UNCHECKED, Lines, report_error, report_errors};
use crate::quota::Quotas;
use crate::rounds::{Cause, Rounds, until_stopped};
use crate::settings::process::Process;
use crate::settings::{Flags, ProcessSettings};
use crate::signals::Signals;
use crate::system_limits;
use crate::telemetry::{self, LogFormat};
use crate::traces::{self, Traces};
use crate::transport::{Limits, Server, Tls};
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
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Open files besides connections: a database, its journal, and its readers.
const FILES_OF_PROCESS: u64 = 64;

/// Threads besides those of the runtime: the log, metrics, traces, policies, and those of a database.
pub const THREADS_OF_PROCESS: usize = 16;

/// The same of a command.
const THREADS_OF_COMMAND: usize = 8;

/// Why a command failed, in one line.
pub type Fault = Box<dyn Error + Send + Sync>;

/// Runs a command with its settings.
pub fn with_settings<T: ProcessSettings>(flags: &Flags<T>, run: impl FnOnce(&T) -> ExitCode) -> ExitCode {
    match flags.resolve_here().and_then(|resolved| T::parse(&resolved)) {
        Ok(settings) => run(&settings),
        Err(faults) => report_errors(&faults, EXIT_UNCHECKED),
    }
}

/// Prints every setting with its value and its source, and checks them.
pub fn print_settings<T: ProcessSettings>(flags: &Flags<T>) -> ExitCode {
    let printed = flags.resolve_here().and_then(|resolved| {
        let mut lines = Lines::new();
        for (setting, text, source) in resolved.iter() {
            lines.add(format_args!("{} = {text:?} # {source}", setting.name));
        }
        // The exit code shows it.
        let _unwritten = output::print(&lines);
        T::parse(&resolved)
    });
    match printed {
        Ok(_) => ExitCode::SUCCESS,
        Err(faults) => report_errors(&faults, EXIT_UNCHECKED),
    }
}

/// Starts the log, and serves. `n_threads`: those that the process starts beside the runtime's.
pub fn start(
    (filter, format, traces): (&str, LogFormat, Option<&Traces>),
    n_threads: usize,
    serving: impl Future<Output = Result<(), StartError>>,
) -> ExitCode {
    // The log's threads and those of libraries have no error for it.
    if let Err(error) = system_limits::check_threads(system_limits::n_workers().saturating_add(n_threads)) {
        return report_error(&error, EXIT_FAILED);
    }
    if let Err(error) = telemetry::start_log(filter, format, traces) {
        return report_errors(&[error], EXIT_UNCHECKED);
    }
    let served = runtime().map_err(|error| StartError::new("async runtime", error));
    let served = served.and_then(|runtime| runtime.block_on(serving));
    traces::finish();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_error(&error, EXIT_FAILED),
    }
}

/// Runs an asynchronous command on this thread. An error is printed to standard error in one line; `failed` gives its exit code.
pub fn run<E>(command: impl Future<Output = Result<ExitCode, E>>, failed: impl FnOnce(&E) -> u8) -> ExitCode
where
    E: From<io::Error> + Into<Fault>,
{
    match small_runtime().map_err(E::from).and_then(|runtime| runtime.block_on(command)) {
        Ok(code) => code,
        Err(error) => {
            let code = failed(&error);
            report_error(error.into().as_ref(), code)
        }
    }
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

/// Parses the command line and runs the command of the program with this name. If its output could not be written, the exit code shows it.
pub fn main<C: Parser>(name: &'static str, run: impl FnOnce(C) -> ExitCode) -> ExitCode {
    output::set_name(name);
    // Dropped last.
    let _end_log = output::EndLog;
    std::panic::set_hook(Box::new(report_panic));
    let code = match C::try_parse() {
        Ok(command_line) => run(command_line),
        Err(error) => print_usage::<C>(&error),
    };
    output::finish(code)
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
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_UNCHECKED))
}

/// Logs a panic, with the calls that led to it if the environment wants them (`RUST_BACKTRACE`). A process without a log prints it on one line,
/// and the calls below it.
fn report_panic(panic: &PanicHookInfo<'_>) {
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
    lines.add(format_args!("{}: panicked at {place}: {text}", output::name()));
    lines.add_text(calls.as_deref().unwrap_or_default());
    let _no_reader = output::tell(&lines);
}

/// The listeners of a process, bound.
pub struct Listeners {
    name: &'static str,
    listener: TcpListener,
    admin: Option<TcpListener>,
    tls: Option<Arc<Tls>>,
    stopping: watch::Receiver<bool>,
}

impl Listeners {
    /// Binds the addresses. `bind` is served over TLS if there is any, `admin_bind` in plain HTTP.
    ///
    /// # Errors
    /// [`StartError`], one line that names the address.
    pub async fn bind(
        name: &'static str,
        bind: SocketAddr,
        admin_bind: Option<SocketAddr>,
        tls: Option<Arc<Tls>>,
        stopping: watch::Receiver<bool>,
    ) -> Result<Self, StartError> {
        let listener = listen(bind).await?;
        let admin = match admin_bind {
            Some(admin) => Some(listen(admin).await?),
            None => None,
        };
        Ok(Self { name, listener, admin, tls, stopping })
    }

    /// The address that is served.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// The address of the admin routes.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref()?.local_addr().ok()
    }

    /// Serves until the process is stopped, and then until the requests in progress are answered, at most for `shutdown_within`: clients
    /// that keep connections open cannot delay it.
    pub async fn serve(
        self,
        router: Router,
        admin_router: Router,
        limits: Limits,
        shutdown_within: Duration,
    ) {
        let Self { name, listener, admin, tls, mut stopping } = self;
        let server = Server::new(name, listener, router, limits, tls);
        let admin = admin.map(|listener| Server::new("admin", listener, admin_router, limits, None));
        let stopped = stopping.clone();
        let serving = async {
            let admin = async {
                if let Some(admin) = admin {
                    admin.run(stopped.clone()).await;
                }
            };
            tokio::join!(server.run(stopped.clone()), admin);
        };
        let too_late = async {
            until_stopped(&mut stopping).await;
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

/// What a process behind the gateway has before it opens its own parts: it serves over mutual TLS only.
pub struct Backend {
    /// Its listeners, bound.
    pub listeners: Listeners,
    /// The certificates, which SIGHUP reads again.
    pub tls: Arc<Tls>,
    /// When its files are read again.
    pub rounds: Rounds,
    /// Becomes true on SIGTERM or SIGINT.
    pub stopping: watch::Receiver<bool>,
    /// The quotas of the callers whom the settings name.
    pub quotas: Arc<Quotas>,
}

impl Backend {
    /// Starts the metrics, raises the limit of open files, registers the signals, reads the certificates and binds the addresses.
    pub async fn open(name: &'static str, settings: &Process) -> Result<Self, StartError> {
        telemetry::start_metrics(telemetry::Metrics::default());
        let n_connections = u64::try_from(settings.limits.connections_max).unwrap_or(u64::MAX);
        system_limits::raise_files(n_connections.saturating_mul(2).saturating_add(FILES_OF_PROCESS))?;
        let signals = Signals::listen();
        let Some(files) = settings.tls.clone() else {
            let why = "must be given: this process serves only over mutual TLS";
            return Err(StartError::new("setting `tls_certificate`", why));
        };
        let quotas = Arc::new(Quotas::new(files.clients.names(), settings.quota));
        let tls = Arc::new(Tls::open(files).map_err(|error| StartError::new("tls", error))?);
        let stopping = signals.stop.watch();
        let (served, until) = (Some(Arc::clone(&tls)), stopping.clone());
        let listeners = Listeners::bind(name, settings.bind, settings.admin_bind, served, until).await?;
        let rounds = Rounds::every_or_on(Some(settings.watch), signals.files, stopping.clone());
        Ok(Self { listeners, tls, rounds, stopping, quotas })
    }
}

/// The certificates and the registry of approvers, which follow their files.
pub struct Followed {
    /// The certificates, if the process has any.
    pub tls: Option<Arc<Tls>>,
    /// The registry, if signatures are verified.
    pub verifiers: Option<Verifiers>,
}

impl Followed {
    /// Reads them again in each round, after `also` has read other files, until the process stops.
    pub fn follow(mut self, mut rounds: Rounds, mut also: impl FnMut() + Send + 'static) -> JoinHandle<()> {
        tokio::spawn(async move {
            while let Some(cause) = rounds.next().await {
                also();
                self.read_again(cause);
            }
        })
    }

    /// Reads the registry again if its file changed; on SIGHUP also if it did not, and the certificates. If new certificates cannot be
    /// used, the current ones stay. If the registry cannot be used, no approval counts.
    pub fn read_again(&mut self, cause: Cause) {
        match cause {
            Cause::Interval => self.verifiers.iter_mut().for_each(Verifiers::reload_if_changed),
            Cause::Hangup => {
                self.verifiers.iter_mut().for_each(Verifiers::reload);
                if let Some(tls) = &self.tls {
                    log_reading("certificates", tls.reload().map_err(Into::into));
                }
            }
        }
    }
}

/// Logs the result of reading files again.
pub fn log_reading(what: &str, reading: Result<(), Fault>) {
    match reading {
        Ok(()) => tracing::info!("reloaded {what}"),
        Err(error) => tracing::error!(
            error = error_chain(error.as_ref()),
            "could not reload {what}; the current ones stay in use"
        ),
    }
}
