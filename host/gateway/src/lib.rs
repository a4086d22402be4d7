//! The operation gateway: composition root and binary.
//!
//! Start at [`main`], then [`serve`], then [`compose`], the only place that knows which adapters there are.

pub mod approvers;
mod authentication;
mod cli;
mod clock;
pub mod compose;
mod counting;
pub mod evidence;
mod file_limit;
mod keys;
mod ledger;
mod node_key;
mod nodes;
mod records;
pub mod serve;
pub mod settings;
mod signals;
mod telemetry;
pub mod transport;

pub use clock::SystemClock;

use cli::{CliError, Invocation};
use settings::{Resolved, Settings};
use std::io::Write;
use std::process::ExitCode;

/// Exit code of a start that failed, as of a wrong setting: nothing was half-started.
const EXIT_SETTINGS: u8 = 2;
const EXIT_START: u8 = 1;

/// The process.
#[must_use]
pub fn main() -> ExitCode {
    let environment = std::env::vars_os();
    let environment =
        environment.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    match cli::invocation(std::env::args_os(), environment) {
        Ok(Invocation::Serve(resolved)) => with_settings(&resolved, run),
        Ok(Invocation::PrintSettings(resolved)) => print_settings(&resolved),
        Ok(Invocation::Records(records, resolved)) => {
            with_settings(&resolved, |settings| records::main(&records, settings))
        }
        Ok(Invocation::Bundle(matches)) => cli::bundle::run(&matches),
        Ok(Invocation::Verify(verify)) => evidence::verify_files(&verify),
        Ok(Invocation::Roots(resolved)) => with_settings(&resolved, evidence::print_roots),
        Ok(Invocation::Keys(asked, resolved)) => {
            with_settings(&resolved, |settings| keys::main(asked, settings))
        }
        Ok(Invocation::Approvers(command)) => approvers::main(&command),
        Ok(Invocation::Fsck(asked, resolved)) => {
            with_settings(&resolved, |settings| ledger::main(asked, settings))
        }
        Ok(Invocation::Nodes(asked, resolved)) => {
            with_settings(&resolved, |settings| nodes::main(asked, settings))
        }
        Err(CliError::Clap(error)) => error.exit(),
        Err(CliError::Settings(faults)) => complain(&faults, EXIT_SETTINGS),
    }
}

/// Does what needs settings, once they are known to be right.
fn with_settings(resolved: &Resolved, then: impl FnOnce(&Settings) -> ExitCode) -> ExitCode {
    match Settings::parse(resolved) {
        Ok(settings) => then(&settings),
        Err(faults) => complain(&faults, EXIT_SETTINGS),
    }
}

fn run(settings: &Settings) -> ExitCode {
    if let Err(fault) = telemetry::start(&settings.log, settings.log_format) {
        return complain(&[format!("setting `log` is no filter: {fault}")], EXIT_SETTINGS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return complain(&[format!("no threads: {error}")], EXIT_START),
    };
    match runtime.block_on(serve::serve(settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&[error.to_string()], EXIT_START),
    }
}

/// One line for each fault, to standard error.
fn complain(faults: &[String], code: u8) -> ExitCode {
    let mut stderr = std::io::stderr().lock();
    for fault in faults {
        let _nobody_reads = writeln!(stderr, "operation-gateway: {fault}");
    }
    ExitCode::from(code)
}

fn print_settings(resolved: &Resolved) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    for (setting, text, source) in resolved.iter() {
        let _nobody_reads = writeln!(stdout, "{} = {text:?} # {source}", setting.name);
    }
    with_settings(resolved, |_| ExitCode::SUCCESS)
}
