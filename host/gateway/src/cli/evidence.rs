//! `operation-gateway evidence …` as the command line has it.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use gateway_domain::ids::OperationId;
use std::path::PathBuf;

/// What was asked for.
#[derive(Debug)]
pub(crate) enum Evidence {
    /// Check documents against roots; settings have no part in it.
    Verify(Verify),
    /// Print this deployment's roots.
    Roots,
}

/// What is checked, and against what.
#[derive(Debug)]
pub(crate) struct Verify {
    /// One document: of one in pages all of them.
    pub(crate) files: Vec<PathBuf>,
    /// The roots.
    pub(crate) trust: PathBuf,
    /// The bundles whose components run again.
    pub(crate) bundles: Vec<PathBuf>,
    /// The operation that the document has to be of.
    pub(crate) operation_id: Option<OperationId>,
    /// Whether the answer is one JSON object.
    pub(crate) json: bool,
}

pub(crate) fn command(with_settings: fn(Command) -> Command) -> Command {
    Command::new("evidence")
        .about("Check an operation's evidence offline")
        .subcommand_required(true)
        .subcommand(verify_command())
        .subcommand(with_settings(
            Command::new("roots")
                .about("Print what readers of this deployment's evidence must believe beforehand"),
        ))
}

fn verify_command() -> Command {
    let path = |name: &'static str| Arg::new(name).value_parser(value_parser!(PathBuf));
    Command::new("verify")
        .about("Check everything that an evidence file or an audit log says")
        .after_help(
            "Exit code 0: every check that applies was made and holds. 1: something does not hold; each is named with its place in the file. \
             2: nothing can be said: a file or the roots cannot be read. 3: nothing fails, and something could not be checked; each \
             is named with the reason.",
        )
        .arg(
            path("files")
                .value_name("FILE")
                .help("The document; of one in pages all of them")
                .required(true)
                .num_args(1..),
        )
        .arg(path("trust").long("trust").value_name("ROOTS").help("The roots, got another way").required(true))
        .arg(
            path("bundle")
                .long("bundle")
                .value_name("DIRECTORY")
                .help("Run the policy's component again, from this bundle; once for each bundle that decided")
                .action(ArgAction::Append),
        )
        .arg(
            Arg::new("operation")
                .long("operation")
                .value_name("ID")
                .value_parser(|text: &str| text.parse::<OperationId>())
                .help("The operation that this must be of"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON object"))
}

/// The command that these matches name, if it is one of these.
pub(crate) fn parsed(matches: &ArgMatches) -> Option<Evidence> {
    let ("evidence", inner) = matches.subcommand()? else { return None };
    let (name, leaf) = inner.subcommand()?;
    if name == "roots" {
        return Some(Evidence::Roots);
    }
    Some(Evidence::Verify(Verify {
        files: leaf.get_many("files")?.cloned().collect(),
        trust: leaf.get_one::<PathBuf>("trust")?.clone(),
        bundles: leaf.get_many("bundle").map(|given| given.cloned().collect()).unwrap_or_default(),
        operation_id: leaf.get_one("operation").copied(),
        json: leaf.get_flag("json"),
    }))
}
