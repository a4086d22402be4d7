//! The life of a small process: its command line's errors, its listeners, and its end.

use crate::StartError;
use crate::file_limit;
use crate::quota::Quotas;
use crate::settings::process::Process;
use crate::settings::{Described, Flags, Resolved};
use crate::signals::Signals;
use crate::telemetry;
use crate::traces;
use crate::transport::{Limits, Server, Tls, until_stopped};
use axum::Router;
use gateway_domain::error_chain;
use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::Signal;
use tokio::sync::watch;

/// Exit code of a command that failed or has findings, and of a process that did not start.
pub const EXIT_FAILED: u8 = 1;
/// Exit code of invalid settings.
pub const EXIT_SETTINGS: u8 = 2;

/// Open files besides connections: a database, its journal, and its readers.
const FILES_OF_PROCESS: u64 = 64;

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
        let mut stdout = std::io::stdout().lock();
        for (setting, text, source) in resolved.iter() {
            let _reader_gone = writeln!(stdout, "{} = {text:?} # {source}", setting.name);
        }
        parse(&resolved)
    });
    match printed {
        Ok(_) => ExitCode::SUCCESS,
        Err(faults) => report_errors(name, &faults, EXIT_SETTINGS),
    }
}

/// Starts the log and the metrics, and serves.
pub fn start(
    name: &str,
    settings: &Process,
    serving: impl Future<Output = Result<(), StartError>>,
) -> ExitCode {
    let (filter, format, traces) = (&settings.log_filter, settings.log_format, settings.traces.as_ref());
    let log = match telemetry::start_log(filter, format, traces) {
        Ok(log) => log,
        Err(error) => return report_errors(name, &[error], EXIT_SETTINGS),
    };
    telemetry::start_metrics(telemetry::Metrics::default());
    let served = with_runtime(async {
        serving.await?;
        Ok(ExitCode::SUCCESS)
    });
    traces::finish();
    // Before the error, so that it is the last line.
    drop(log);
    exit_code(name, served)
}

/// Runs a command on an async runtime of its own.
pub fn run(name: &str, command: impl Future<Output = Result<ExitCode, Fault>>) -> ExitCode {
    exit_code(name, with_runtime(command))
}

fn with_runtime(command: impl Future<Output = Result<ExitCode, Fault>>) -> Result<ExitCode, Fault> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command)
}

fn exit_code(name: &str, result: Result<ExitCode, Fault>) -> ExitCode {
    result.unwrap_or_else(|error| report_errors(name, &[error_chain(error.as_ref())], EXIT_FAILED))
}

/// Prints one line for each error to standard error, and returns the exit code.
pub fn report_errors(name: &str, errors: &[String], code: u8) -> ExitCode {
    let mut stderr = std::io::stderr().lock();
    for error in errors {
        let _reader_gone = writeln!(stderr, "{name}: {error}");
    }
    ExitCode::from(code)
}

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
        file_limit::raise(n_connections.saturating_mul(2).saturating_add(FILES_OF_PROCESS))?;
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
