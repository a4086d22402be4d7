//! A runtime node as a process of its own. It serves the node surface to the callers that its operator named, over mutual TLS,
//! and trusts none of them: the checks are those of [`gateway_node::Node`].
//!
//! Everything that it trusts is in its own files: its key-encryption key, the identities of the other nodes, the authorities, the
//! registry of approvers. It has no API of the product, no engine and no connection to other nodes in its tree.
//!
//! Start at [`main`], then [`serve`], then [`routes`].

mod commands;
mod peers;
pub mod routes;
mod serve;
pub mod settings;

pub use serve::{NodeService, open};

use clap::{Args, Parser, Subcommand};
use gateway_service::settings::Resolved;
use gateway_service::telemetry;
use settings::{Flags, Settings};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code of a command that failed or has findings, and of a node that did not start.
const EXIT_FAILED: u8 = 1;
/// Exit code of invalid settings.
const EXIT_SETTINGS: u8 = 2;

/// Why a command failed, in one line.
pub(crate) type Fault = Box<dyn Error + Send + Sync>;

/// A runtime node: holds one participant's shares of keys, verifies every decision itself, and signs.
#[derive(Debug, Parser)]
#[command(
    name = "runtime-node",
    version,
    after_help = "A flag wins over the environment, the environment over the file, the file over the default."
)]
struct Cli {
    #[command(flatten)]
    settings: Flags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the node surface (the default command)
    Serve(Flags),
    /// Print every setting with its value and the source of the value
    Config(Flags),
    /// Create the node's database and its key-encryption key, and print its identity
    Init(Flags),
    /// Print the node's identity: the public keys that the others pin
    Identity(Flags),
    /// Pin the identities of nodes, one JSON file each, in the file of identities
    Pin(Pin),
    /// Check the node's database; it may be running
    Check(Flags),
    /// Encrypt the node's secrets with a new key-encryption key; the node must be stopped
    Rewrap(Flags),
}

#[derive(Debug, Args)]
pub(crate) struct Pin {
    /// Files that `identity` printed
    #[arg(value_name = "FILE", required = true)]
    pub(crate) identities: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Flags,
}

/// Parses the command line and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    let Cli { settings: before, command } = Cli::parse();
    let run_with = |after: &Flags, run: &dyn Fn(&Settings) -> ExitCode| {
        // Settings may be given before the command and after it; those after it win.
        match after.or(&before).resolve_here().and_then(|resolved| Settings::parse(&resolved)) {
            Ok(settings) => run(&settings),
            Err(faults) => report_errors(&faults, EXIT_SETTINGS),
        }
    };
    match &command {
        None => run_with(&before, &start),
        Some(Command::Serve(flags)) => run_with(flags, &start),
        Some(Command::Config(flags)) => match flags.or(&before).resolve_here() {
            Ok(resolved) => print_settings(&resolved),
            Err(faults) => report_errors(&faults, EXIT_SETTINGS),
        },
        Some(Command::Init(flags)) => run_with(flags, &|settings| run(commands::init(settings))),
        Some(Command::Identity(flags)) => run_with(flags, &|settings| run(commands::identity(settings))),
        Some(Command::Pin(pin)) => {
            run_with(&pin.settings, &|settings| run(async { commands::pin(settings, &pin.identities) }))
        }
        Some(Command::Check(flags)) => run_with(flags, &|settings| run(commands::check(settings))),
        Some(Command::Rewrap(flags)) => run_with(flags, &|settings| run(commands::rewrap(settings))),
    }
}

fn start(settings: &Settings) -> ExitCode {
    if let Err(fault) = telemetry::start_log(&settings.log_filter, settings.log_format) {
        return report_errors(&[format!("setting `log` is not a valid filter: {fault}")], EXIT_SETTINGS);
    }
    telemetry::start_metrics(&[], &[]);
    run(async {
        serve::serve(settings).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Runs a command on an async runtime of its own.
fn run(command: impl Future<Output = Result<ExitCode, Fault>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(Fault::from).and_then(|runtime| runtime.block_on(command)) {
        Ok(code) => code,
        Err(error) => report_errors(&[gateway_domain::error_chain(error.as_ref())], EXIT_FAILED),
    }
}

fn print_settings(resolved: &Resolved) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    for (setting, text, source) in resolved.iter() {
        let _reader_gone = writeln!(stdout, "{} = {text:?} # {source}", setting.name);
    }
    match Settings::parse(resolved) {
        Ok(_) => ExitCode::SUCCESS,
        Err(faults) => report_errors(&faults, EXIT_SETTINGS),
    }
}

/// Prints one line for each error to standard error, and returns the exit code.
fn report_errors(errors: &[String], code: u8) -> ExitCode {
    let mut stderr = std::io::stderr().lock();
    for error in errors {
        let _reader_gone = writeln!(stderr, "runtime-node: {error}");
    }
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_well_formed_and_lists_every_setting() {
        let mut command = Cli::command();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        assert!(settings::TABLE.all().all(|setting| help.contains(&settings::TABLE.variable(setting.name))));
    }
}
