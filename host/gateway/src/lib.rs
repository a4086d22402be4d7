//! The operation gateway: settings, composition, and the binary.
//!
//! Start at [`main`], then [`serve`], then [`compose`], which with `services` is all that names concrete adapters. The command line and the
//! commands that need none of these are in the crate `gateway-cli`.

pub mod approvers;
mod archive;
mod authentication;
pub mod authority;
pub mod compose;
mod doctor;
pub mod evidence;
mod gauges;
mod keys;
pub mod log_signer;
mod nodes;
mod replicas;
mod retention;
pub mod serve;
mod services;
pub mod settings;
mod webhooks;
mod witnesses;

pub use compose::SystemClock;
pub use services::OpenFleet;

use clap::CommandFactory;
use gateway_cli::evidence::EvidenceCommand;
use gateway_cli::ledger::LedgerCommand;
use gateway_cli::records::{self, DecisionsCommand, PolicyCommand, Trust};
use gateway_cli::{Cli, Command, KeysCommand, NAME, NodesCommand};
use gateway_engine::ports::ReadClock;
use gateway_service::output::EXIT_FAILED;
use gateway_service::process;
use settings::{Flags, Settings};
use std::process::ExitCode;

/// Threads of the database of an embedded node: one for each of its connections.
const THREADS_OF_NODE: usize = 6;

/// Parses the command line and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    process::main(NAME, run)
}

fn run(Cli { settings: before, command }: Cli<Flags>) -> ExitCode {
    let now = SystemClock.now();
    // Settings may be given before the command and after it; those after it win.
    let run_with =
        |after: &Flags, run: &dyn Fn(&Settings) -> ExitCode| process::with_settings(&after.or(&before), run);
    match &command {
        None => run_with(&before, &start),
        Some(Command::Serve(flags)) => run_with(flags, &start),
        Some(Command::Config(flags)) => process::print_settings(&flags.or(&before)),
        Some(Command::Decisions(DecisionsCommand::Export { settings, export })) => {
            run_with(settings, &|settings| records::export(&settings.general.database_url, export))
        }
        Some(Command::Policy(PolicyCommand::Explain { settings, explain })) => {
            run_with(settings, &|settings| {
                records::explain(&settings.general.database_url, &settings.policy.bundle, explain)
            })
        }
        Some(Command::Policy(PolicyCommand::Replay { settings, replay })) => {
            run_with(settings, &|settings| {
                records::replay(&settings.general.database_url, &settings.policy.bundle, replay)
            })
        }
        Some(Command::Policy(PolicyCommand::Preview(preview))) => gateway_cli::calls::run_preview(preview),
        Some(Command::Op(command)) => gateway_cli::calls::run_op(command, now),
        Some(Command::Key(command)) => gateway_cli::calls::run_key(command),
        Some(Command::Policy(PolicyCommand::Impact { settings, impact })) => {
            run_with(settings, &|settings| {
                let trust = Trust { roots: &settings.policy.trust_roots, now };
                let rules = services::deployment_rules(settings);
                records::impact(&settings.general.database_url, &trust, &rules, impact)
            })
        }
        Some(Command::Evidence(EvidenceCommand::Verify(verify))) => gateway_cli::evidence::run(verify, now),
        Some(Command::Evidence(EvidenceCommand::Audit(audit))) => {
            gateway_cli::evidence::run_audit(audit, now)
        }
        Some(Command::Evidence(EvidenceCommand::Roots { with_policy, settings })) => {
            run_with(settings, &|settings| evidence::print_roots(settings, *with_policy))
        }
        Some(Command::Keys(command)) => {
            let (KeysCommand::Generate(flags)
            | KeysCommand::Show(flags)
            | KeysCommand::Rotate { settings: flags, .. }) = command;
            run_with(flags, &|settings| keys::run(command, settings))
        }
        Some(Command::Ledger(LedgerCommand::Fsck { settings, json })) => {
            run_with(settings, &|settings| gateway_cli::ledger::fsck(&settings.general.database_url, *json))
        }
        Some(Command::Ledger(LedgerCommand::Archive { archive, settings })) => {
            run_with(settings, &|settings| archive::run(settings, archive, now))
        }
        Some(Command::Backup { file, settings }) => {
            run_with(settings, &|settings| gateway_cli::ledger::backup(&settings.general.database_url, file))
        }
        Some(Command::Restore { file, settings }) => {
            run_with(settings, &|settings| gateway_cli::ledger::restore(&settings.general.database_url, file))
        }
        Some(Command::Nodes(command)) => {
            let (NodesCommand::Check(flags)
            | NodesCommand::Log { settings: flags, .. }
            | NodesCommand::Readmit { settings: flags, .. }) = command;
            run_with(flags, &|settings| nodes::run(command, settings, now))
        }
        Some(Command::Approvers(command)) => gateway_cli::approvers::run(command, now),
        Some(Command::Doctor { json, settings }) => doctor::run(settings.or(&before).resolve_here(), *json),
        Some(Command::Package(package)) => process::run(
            async { package.run(Cli::<Flags>::command()).map(|()| ExitCode::SUCCESS) },
            |_: &std::io::Error| EXIT_FAILED,
        ),
        Some(Command::Bundle(bundle)) => gateway_cli::bundle::run(bundle, now),
    }
}

fn start(settings: &Settings) -> ExitCode {
    let n_nodes = if settings.nodes.remote.is_none() { usize::from(settings.nodes.count()) } else { 0 };
    let log = (&*settings.general.log_filter, settings.general.log_format, settings.traces.as_ref());
    let n_threads = process::THREADS_OF_PROCESS + n_nodes * THREADS_OF_NODE;
    process::start(log, n_threads, serve::serve(settings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn command_line_is_well_formed_and_lists_every_setting() {
        let mut command = Cli::<Flags>::command();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        assert!(settings::TABLE.all().all(|setting| help.contains(&settings::TABLE.variable(setting.name))));
    }

    #[test]
    fn version_shows_commit_and_hash_of_the_lock_file() {
        let version = Cli::<Flags>::command().render_version();
        let lock = include_bytes!("../../../Cargo.lock");
        let lock = gateway_domain::canonical::digest_bytes("", lock).to_string();
        let commit = option_env!("OPERATION_GATEWAY_COMMIT").map_or("unknown", |commit| &commit[..12]);
        let expected = format!("operation-gateway 0.1.0 (commit {commit}, lock {})\n", &lock[..12]);
        assert_eq!(version, expected);
    }

    #[test]
    fn short_help_lists_the_settings_to_start_with_and_no_others() {
        let help = Cli::<Flags>::command().render_help().to_string();
        for setting in settings::TABLE.all() {
            assert_eq!(
                help.contains(&format!("{}]", settings::TABLE.variable(setting.name))),
                settings::FIRST.contains(&setting.name),
                "{}",
                setting.name
            );
        }
    }

    #[test]
    fn a_flag_after_the_command_wins_over_one_before_it() {
        let arguments =
            ["operation-gateway", "--bind=127.0.0.1:1", "--log=debug", "config", "--bind=127.0.0.1:2"];
        let Cli { settings: before, command: Some(Command::Config(after)) } =
            Cli::<Flags>::parse_from(arguments)
        else {
            panic!()
        };
        let resolved = after.or(&before).resolve([]).unwrap();
        assert_eq!((resolved.text("bind"), resolved.text("log")), ("127.0.0.1:2", "debug"));
    }
}
