//! A runtime node as a process of its own. It serves the node surface to the callers that its operator named, over mutual TLS,
//! and trusts none of them: the checks are those of [`gateway_node::Node`].
//!
//! Everything that it trusts is in its own files: its key-encryption key, the identities of the other nodes, the authorities, the
//! registry of approvers. It has no API of the product, no engine and no connection to other nodes in its tree.
//!
//! Start at [`main`], then [`open`], then [`routes`]. `selftest` plays known attacks against nodes of this program.

mod commands;
pub mod routes;
mod selftest;
mod serve;
pub mod settings;

pub use serve::{NodeService, open};

use clap::{Args, CommandFactory, Parser, Subcommand};
use gateway_service::output::EXIT_FAILED;
use gateway_service::package::{PackageCommand, version};
use gateway_service::process::{self, Fault};
use settings::{Flags, Settings};
use std::path::PathBuf;
use std::process::ExitCode;

const NAME: &str = "runtime-node";

/// A runtime node: holds one participant's shares of keys, verifies every decision itself, and signs.
#[derive(Debug, Parser)]
#[command(
    name = "runtime-node",
    version = version(),
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
    /// Print the node's log with its signed head, for `operation-gateway evidence verify --nodes`; it may be running
    Log(Flags),
    /// Let a node continue that was restored from a backup; the node must be stopped
    Readmit(Readmit),
    /// Encrypt the node's secrets with a new key-encryption key; the node must be stopped
    Rewrap(Flags),
    /// Play known attacks on threshold protocols against nodes of this program in a temporary folder; needs no settings
    Selftest(Selftest),
    #[command(flatten)]
    Package(PackageCommand),
}

#[derive(Debug, Args)]
pub(crate) struct Selftest {
    /// Print the results as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Pin {
    /// Files that `identity` printed
    #[arg(value_name = "FILE", required = true)]
    pub(crate) identities: Vec<PathBuf>,
    /// A fingerprint that a node's operator read out; may be repeated. If one is given, identities with others are not pinned
    #[arg(long = "fingerprint", value_name = "FINGERPRINT")]
    pub(crate) fingerprints: Vec<String>,
    #[command(flatten)]
    pub(crate) settings: Flags,
}

#[derive(Debug, Args)]
pub(crate) struct Readmit {
    /// The number of entries that its log had at least, if a receipt or signed head shows more than the node was shown
    #[arg(long, value_name = "ENTRIES", default_value_t = 0)]
    pub(crate) size_at_least: u64,
    #[command(flatten)]
    pub(crate) settings: Flags,
}

/// Parses the command line and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    process::main(NAME, run)
}

fn run(Cli { settings: before, command }: Cli) -> ExitCode {
    let run_with =
        |after: &Flags, run: &dyn Fn(&Settings) -> ExitCode| process::with_settings(&after.or(&before), run);
    let start = |settings: &Settings| {
        process::start(settings.process.log(), process::THREADS_OF_PROCESS, serve::serve(settings))
    };
    match &command {
        None => run_with(&before, &start),
        Some(Command::Serve(flags)) => run_with(flags, &start),
        Some(Command::Config(flags)) => process::print_settings(&flags.or(&before)),
        Some(Command::Init(flags)) => run_with(flags, &|settings| run_command(commands::init(settings))),
        Some(Command::Identity(flags)) => {
            run_with(flags, &|settings| run_command(commands::identity(settings)))
        }
        Some(Command::Pin(pin)) => run_with(&pin.settings, &|settings| {
            run_command(async { commands::pin(settings, &pin.identities, &pin.fingerprints) })
        }),
        Some(Command::Check(flags)) => run_with(flags, &|settings| run_command(commands::check(settings))),
        Some(Command::Log(flags)) => run_with(flags, &|settings| run_command(commands::log(settings))),
        Some(Command::Readmit(readmit)) => run_with(&readmit.settings, &|settings| {
            run_command(commands::readmit(settings, readmit.size_at_least))
        }),
        Some(Command::Rewrap(flags)) => run_with(flags, &|settings| run_command(commands::rewrap(settings))),
        Some(Command::Package(package)) => run_command(async {
            package.run(Cli::command())?;
            Ok(ExitCode::SUCCESS)
        }),
        Some(Command::Selftest(Selftest { json })) => run_command(selftest::run(*json)),
    }
}

fn run_command(command: impl Future<Output = Result<ExitCode, Fault>>) -> ExitCode {
    process::run(command, |_| EXIT_FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_well_formed_and_lists_every_setting() {
        let mut command = Cli::command();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        assert!(settings::TABLE.all().all(|setting| help.contains(&settings::TABLE.variable(setting.name))));
    }
}
