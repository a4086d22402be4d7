//! The command line of `operation-gateway`: its grammar, the commands that work on files and on the gateway's store ([`bundle`],
//! [`approvers`], [`evidence`], [`ledger`], [`records`]), and those that call a gateway ([`calls`]).
//!
//! The others: `serve`, `config`, and those that open keys or nodes as the gateway does (`keys`, `nodes`, `evidence roots`), are
//! parsed here and run by the crate `operation-gateway`.
//!
//! Deliberately absent: a clock (`now` is an argument), and the settings: [`Cli`] is generic over their flags.

#![expect(
    missing_docs,
    reason = "doc comments of arguments are help texts; the other names explain themselves"
)]

pub mod approvers;
pub mod bundle;
pub mod calls;
pub mod evidence;
mod exit;
pub mod ledger;
mod progress;
pub mod records;

use clap::{Args, Parser, Subcommand, ValueEnum};
use exit::{finish, with_path};
use gateway_service::package::{PackageCommand, version};
use std::path::PathBuf;

/// The name of the program.
pub const NAME: &str = "operation-gateway";

/// Signing operations with approvals, a signed policy, and threshold keys.
#[derive(Debug, Parser)]
#[command(
    name = NAME,
    version = version(),
    after_help = "A flag wins over the environment, the environment over the file, the file over the default."
)]
pub struct Cli<S: Args> {
    #[command(flatten)]
    pub settings: S,
    #[command(subcommand)]
    pub command: Option<Command<S>>,
}

/// A command. `S`: the flags of the gateway's settings, which may also be given before the command.
#[derive(Debug, Subcommand)]
pub enum Command<S: Args> {
    /// Serve the API (the default command)
    Serve(S),
    /// Print every setting with its value and the source of the value
    Config(S),
    /// Export recorded policy decisions
    #[command(subcommand)]
    Decisions(records::DecisionsCommand<S>),
    /// Submit, show, approve and publish operations of a gateway, over its API
    #[command(subcommand)]
    Op(calls::OpCommand),
    /// Create, show and change keys of a gateway, over its API
    #[command(subcommand)]
    Key(calls::KeyCommand),
    /// Evaluate the policy of a gateway, or past decisions again
    #[command(subcommand)]
    Policy(records::PolicyCommand<S>),
    /// Verify an operation's evidence offline, and print the roots of trust for it
    #[command(subcommand)]
    Evidence(evidence::EvidenceCommand<S>),
    /// Create, show and replace the deployment's keys; prints only public halves
    #[command(subcommand)]
    Keys(KeysCommand<S>),
    /// Check the gateway's store
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand<S>),
    /// Copy the gateway's SQLite database to a new file and check the copy; a gateway may be running
    #[command(
        after_help = "Keys and nodes are not in it: see host/docs/operations.md. Exit code 0: the copy is sound. 1: it has findings. \
                      2: no copy was made."
    )]
    Backup {
        /// The copy, which must not exist yet
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        settings: S,
    },
    /// Check a copy and put it in the place of the gateway's SQLite database; the gateway must be stopped
    #[command(
        after_help = "The database that is there is kept under another name. Exit code 0: the copy is in place. 2: nothing was \
                      changed."
    )]
    Restore {
        /// The copy, which stays
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        settings: S,
    },
    /// Check the runtime nodes
    #[command(subcommand)]
    Nodes(NodesCommand<S>),
    /// Check the registry of approvers, create approvers' keys, and sign approvals
    #[command(subcommand)]
    Approvers(approvers::ApproversCommand),
    /// Create, check, sign and activate policy bundles
    #[command(arg_required_else_help = true)]
    Bundle(bundle::Bundle),
    /// Check the deployment, and say what to do; a gateway may be running
    #[command(
        after_help = "Checks settings, files, certificates, keys, policy, the database, and the processes of nodes and authority. \
                      Writes nothing. Exit code 0: no finding is an error. 1: one is. 2: the check could not be made."
    )]
    Doctor {
        /// Print the findings as one JSON document
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        settings: S,
    },
    #[command(flatten)]
    Package(PackageCommand),
}

#[derive(Debug, Subcommand)]
pub enum KeysCommand<S: Args> {
    /// Create the keys that are missing; existing keys stay
    Generate(S),
    /// Print each public key and its file
    Show(S),
    /// Replace a key, as host/docs/operations.md describes
    Rotate {
        #[arg(value_name = "KEY")]
        key: RotatedKey,
        #[command(flatten)]
        settings: S,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RotatedKey {
    Authority,
    Node,
}

#[derive(Debug, Subcommand)]
pub enum NodesCommand<S: Args> {
    /// Check that every node holds its shares undamaged; a gateway may be running
    #[command(
        after_help = "Prints `ok` for each node, or one line for each finding, with table and row. Exit code 0: no node is \
                      damaged. 1: a node is damaged. 2: the check could not be made."
    )]
    Check(S),
    /// Print a node's log with its signed head, for `evidence verify --nodes`; a gateway may be running
    #[command(
        after_help = "Prints one JSON object on each line (host/docs/evidence.md). Exit code 0: the whole log was printed. 2: it \
                      cannot be read."
    )]
    Log {
        /// The node
        #[arg(value_name = "PARTICIPANT")]
        participant: u16,
        #[command(flatten)]
        settings: S,
    },
    /// Let a node continue that was restored from a backup; the gateway must be stopped
    #[command(
        after_help = "From then on the node signs only what is approved and decided later. Read \"Restoring a node\" in \
                      host/docs/operations.md first. Exit code 0: the node was readmitted. 2: it was not."
    )]
    Readmit {
        /// The node
        #[arg(value_name = "PARTICIPANT")]
        participant: u16,
        /// The number of entries that its log had at least, if a receipt or signed head shows more than the node was shown
        #[arg(long, value_name = "ENTRIES", default_value_t = 0)]
        size_at_least: u64,
        #[command(flatten)]
        settings: S,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[derive(Debug, Args)]
    struct NoSettings {}

    #[test]
    fn command_line_is_well_formed() {
        Cli::<NoSettings>::command().debug_assert();
    }
}
