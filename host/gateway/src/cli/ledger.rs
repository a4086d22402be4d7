//! `operation-gateway ledger …` as the command line has it.

use clap::{Arg, ArgAction, ArgMatches, Command};

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fsck {
    pub(crate) json: bool,
}

pub(crate) fn command(with_settings: fn(Command) -> Command) -> Command {
    let fsck = Command::new("fsck")
        .about("Check that everything in the store agrees, also beside a running gateway")
        .after_help(
            "Exit code 0: nothing is wrong. 1: something is; each finding is one line, with table and row. \
             2: the database cannot be read.",
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON object a line"));
    Command::new("ledger")
        .about("The store's events, and what follows from them")
        .subcommand_required(true)
        .subcommand(with_settings(fsck))
}

/// The command that these matches name, if it is one of these.
pub(crate) fn parsed(matches: &ArgMatches) -> Option<Fsck> {
    let ("ledger", inner) = matches.subcommand()? else { return None };
    let (_, leaf) = inner.subcommand()?;
    Some(Fsck { json: leaf.get_flag("json") })
}
