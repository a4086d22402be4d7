//! `operation-gateway approvers …` as the command line has it.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::PathBuf;

/// What was asked for.
#[derive(Debug)]
pub(crate) enum Approvers {
    /// Say what is in a registry.
    Check { file: PathBuf },
    /// Make an approver's key, or show its public half.
    Key { file: PathBuf },
    /// Sign an approval.
    Sign(Sign),
}

/// An approval to be signed.
#[derive(Debug)]
pub(crate) struct Sign {
    pub(crate) key: PathBuf,
    pub(crate) operation: PathBuf,
    pub(crate) subject_id: String,
    pub(crate) roles: Vec<String>,
    pub(crate) approved_at_ms: Option<i64>,
    /// Sign without asking.
    pub(crate) confirmed: bool,
}

pub(crate) fn command() -> Command {
    Command::new("approvers")
        .about("Whose approvals are believed, and approving with a key of one's own")
        .subcommand_required(true)
        .subcommand(
            Command::new("check")
                .about("Check a registry of approvers, and say what is in it")
                .arg(path("file").value_name("FILE").required(true)),
        )
        .subcommand(
            Command::new("key")
                .about(
                    "Make an Ed25519 key, mode 0600, where there is none, and print its line for a registry",
                )
                .arg(path("file").value_name("FILE").required(true)),
        )
        .subcommand(sign())
}

fn sign() -> Command {
    let text = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("sign")
        .about("Approve: print the body of `POST …/approve`, signed")
        .after_help(
            "What is approved is printed to standard error first, and signed when `yes` is typed at the terminal. The intent hash, the key's id and the statement are made from what \
             the operation says, never taken from it: nothing is signed when they differ.",
        )
        .arg(path("key").long("key").value_name("FILE").help("Ed25519 seed, hexadecimal, mode 0600").required(true))
        .arg(
            path("operation")
                .long("operation")
                .value_name("FILE")
                .help("The operation, as `GET` or a submission answers it")
                .required(true),
        )
        .arg(text("subject", "NAME").help("Who approves").required(true))
        .arg(text("role", "ROLE").help("In which role; may be given again").action(ArgAction::Append).required(true))
        .arg(
            text("approved-at-ms", "EPOCH MILLISECONDS")
                .help("When; now, when it is left out")
                .value_parser(value_parser!(i64)),
        )
        .arg(
            Arg::new("yes")
                .long("yes")
                .help("Sign without asking; needed where there is no terminal")
                .action(ArgAction::SetTrue),
        )
}

fn path(name: &'static str) -> Arg {
    Arg::new(name).value_parser(value_parser!(PathBuf))
}

/// The command that these matches name, if it is one of these.
pub(crate) fn parsed(matches: &ArgMatches) -> Option<Approvers> {
    let ("approvers", inner) = matches.subcommand()? else { return None };
    let (name, leaf) = inner.subcommand()?;
    let file = || leaf.get_one::<PathBuf>("file").cloned();
    match name {
        "check" => Some(Approvers::Check { file: file()? }),
        "key" => Some(Approvers::Key { file: file()? }),
        _ => Some(Approvers::Sign(Sign {
            key: leaf.get_one::<PathBuf>("key")?.clone(),
            operation: leaf.get_one::<PathBuf>("operation")?.clone(),
            subject_id: leaf.get_one::<String>("subject")?.clone(),
            roles: leaf.get_many("role")?.cloned().collect(),
            approved_at_ms: leaf.get_one("approved-at-ms").copied(),
            confirmed: leaf.get_flag("yes"),
        })),
    }
}
