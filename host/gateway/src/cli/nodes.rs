//! `operation-gateway nodes …` as the command line has it.

use clap::{ArgMatches, Command};

/// `nodes check` was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodesCheck;

pub(crate) fn command(with_settings: fn(Command) -> Command) -> Command {
    let check = Command::new("check")
        .about("Check that every node holds its shares undamaged, also beside a running gateway")
        .after_help(
            "Prints `ok` for each node, or one line for each finding, with table and row. Exit code 0: all nodes are \
             sound. 1: one is not. 2: nothing can be said.",
        );
    Command::new("nodes")
        .about("The runtime nodes and what they hold")
        .subcommand_required(true)
        .subcommand(with_settings(check))
}

/// The command that these matches name, if it is one of these.
pub(crate) fn parsed(matches: &ArgMatches) -> Option<NodesCheck> {
    matches.subcommand().filter(|(name, _)| *name == "nodes").map(|_| NodesCheck)
}
