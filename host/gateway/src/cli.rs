//! The command line, made from the table of settings.

pub(crate) mod approvers;
pub(crate) mod bundle;
pub(crate) mod evidence;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod nodes;

use crate::records::{self, Records};
use crate::settings::{Resolved, SETTINGS, resolve};
use clap::{Arg, ArgMatches, Command};
use evidence::Evidence;
use std::collections::BTreeMap;

/// What was asked for.
pub(crate) enum Invocation {
    /// Serve the API.
    Serve(Resolved),
    /// Print every setting and where it came from.
    PrintSettings(Resolved),
    /// Look back at decisions.
    Records(Records, Resolved),
    /// A tool of policy authors and reviewers; settings have no part in it.
    Bundle(ArgMatches),
    /// Check evidence; settings have no part in it.
    Verify(evidence::Verify),
    /// Print what evidence is checked against.
    Roots(Resolved),
    /// Make, show or replace the deployment's keys.
    Keys(keys::Keys, Resolved),
    /// The registry of approvers, and approving with a key; settings have no part in it.
    Approvers(approvers::Approvers),
    /// Check the store.
    Fsck(ledger::Fsck, Resolved),
    /// Check what the nodes hold.
    Nodes(nodes::NodesCheck, Resolved),
}

/// Why nothing can be done with the command line; each line for a person.
pub(crate) enum CliError {
    /// clap's own message: usage faults, and `--help` and `--version`, which are not faults.
    Clap(Box<clap::Error>),
    /// Faults of the settings.
    Settings(Vec<String>),
}

/// Reads the command line and the environment.
///
/// # Errors
/// [`CliError`].
pub(crate) fn invocation(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Invocation, CliError> {
    let environment: Vec<_> = environment.into_iter().collect();
    let matches =
        command().try_get_matches_from(arguments).map_err(|error| CliError::Clap(Box::new(error)))?;
    if let Some(("bundle", leaf)) = matches.subcommand() {
        return Ok(Invocation::Bundle(leaf.clone()));
    }
    if let Some(command) = approvers::parsed(&matches) {
        return Ok(Invocation::Approvers(command));
    }
    let evidence = evidence::parsed(&matches);
    if let Some(Evidence::Verify(verify)) = evidence {
        return Ok(Invocation::Verify(verify));
    }
    let prints = matches.subcommand_name() == Some("config");
    // Settings may stand before the command and after it; after it wins.
    let levels = [Some(&matches), records::leaf(&matches).or(matches.subcommand().map(|(_, leaf)| leaf))];
    let levels: Vec<&ArgMatches> = levels.into_iter().flatten().collect();
    let file = settings_file(&levels, &environment).map_err(|fault| CliError::Settings(vec![fault]))?;
    let resolved = resolve(&flags(&levels), environment, file.as_deref()).map_err(CliError::Settings)?;
    if let Some(records) = records::parsed(&matches) {
        return Ok(Invocation::Records(records, resolved));
    }
    if let Some(Evidence::Roots) = evidence {
        return Ok(Invocation::Roots(resolved));
    }
    if let Some(keys) = keys::parsed(&matches) {
        return Ok(Invocation::Keys(keys, resolved));
    }
    if let Some(fsck) = ledger::parsed(&matches) {
        return Ok(Invocation::Fsck(fsck, resolved));
    }
    if let Some(check) = nodes::parsed(&matches) {
        return Ok(Invocation::Nodes(check, resolved));
    }
    Ok(if prints { Invocation::PrintSettings(resolved) } else { Invocation::Serve(resolved) })
}

fn settings_file(levels: &[&ArgMatches], environment: &[(String, String)]) -> Result<Option<String>, String> {
    let variable = environment.iter().find(|(name, _)| name == "SVC_OPERATION_GATEWAY_CONFIG");
    let flag = levels.iter().rev().find_map(|level| level.get_one::<String>("config"));
    let path = flag.or(variable.map(|(_, value)| value));
    let Some(path) = path else { return Ok(None) };
    let read = std::fs::read_to_string(path);
    read.map(Some).map_err(|error| format!("settings file `{path}` cannot be read: {}", error.kind()))
}

fn flags(levels: &[&ArgMatches]) -> BTreeMap<String, String> {
    let given =
        |level: &ArgMatches, name: &str| Some((name.to_owned(), level.get_one::<String>(name)?.clone()));
    let of = |level: &&ArgMatches| {
        let level = *level;
        SETTINGS.iter().filter_map(|setting| given(level, setting.name)).collect::<Vec<_>>()
    };
    levels.iter().flat_map(of).collect()
}

fn command() -> Command {
    with_settings(Command::new("operation-gateway"))
        .version(env!("CARGO_PKG_VERSION"))
        .about("Signing operations with approvals, a signed policy, and threshold keys.")
        .after_help(
            "A flag wins over the environment, the environment over the file, the file over the default.",
        )
        .subcommand(with_settings(Command::new("serve")).about("Serve the API (also without a command)"))
        .subcommand(
            with_settings(Command::new("config")).about("Print every setting and where its value came from"),
        )
        .subcommands(records::commands(with_settings))
        .subcommand(evidence::command(with_settings))
        .subcommand(keys::command(with_settings))
        .subcommand(ledger::command(with_settings))
        .subcommand(nodes::command(with_settings))
        .subcommand(approvers::command())
        .subcommand(bundle::command())
}

fn with_settings(command: Command) -> Command {
    let file = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("TOML file of settings [SVC_OPERATION_GATEWAY_CONFIG]");
    command.arg(file).args(SETTINGS.iter().map(argument))
}

fn argument(setting: &'static crate::settings::Setting) -> Arg {
    let default = match setting.production {
        Some(production) if production == setting.development => format!("default `{production}`"),
        Some(production) => format!("default `{}`, in production `{production}`", setting.development),
        None => format!("default `{}`, in production none", setting.development),
    };
    Arg::new(setting.name).long(setting.flag()).value_name(setting.unit).help(format!(
        "{} ({default}) [{}]",
        setting.help,
        setting.variable()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_lists_every_setting() {
        command().debug_assert();
        let help = command().render_long_help().to_string();
        assert!(SETTINGS.iter().all(|setting| help.contains(&setting.variable())));
    }
}
