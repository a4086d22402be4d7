//! `operation-gateway keys …` as the command line has it.

use clap::{Arg, ArgMatches, Command};

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Make those that are missing.
    Generate,
    /// Print their public halves.
    Show,
    /// Replace the authority's.
    RotateAuthority,
    /// Replace what the nodes' secrets are sealed under.
    RotateNode,
}

pub(crate) fn command(with_settings: fn(Command) -> Command) -> Command {
    let rotate = Command::new("rotate")
        .about("Replace a key, as host/docs/operations.md tells")
        .arg(Arg::new("key").value_name("KEY").required(true).value_parser(["authority", "node"]));
    Command::new("keys")
        .about("The deployment's keys: files of its settings; only public halves are printed")
        .subcommand_required(true)
        .subcommand(with_settings(
            Command::new("generate").about("Make the keys that are missing; those that are there stay"),
        ))
        .subcommand(with_settings(Command::new("show").about("Print public keys, and which file each is in")))
        .subcommand(with_settings(rotate))
}

/// The command that these matches name, if it is one of these.
pub(crate) fn parsed(matches: &ArgMatches) -> Option<Keys> {
    let ("keys", inner) = matches.subcommand()? else { return None };
    let (name, leaf) = inner.subcommand()?;
    match (name, leaf.try_get_one::<String>("key").ok().flatten().map(String::as_str)) {
        ("generate", _) => Some(Keys::Generate),
        ("rotate", Some("authority")) => Some(Keys::RotateAuthority),
        ("rotate", _) => Some(Keys::RotateNode),
        (_, _) => Some(Keys::Show),
    }
}
