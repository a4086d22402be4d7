//! `operation-gateway bundle …`: the tools of policy authors and reviewers.
//!
//! Each command is a function that returns a report, which is printed as lines or as JSON. A bundle without trusted
//! signatures is loaded by the same checks as in the gateway: see `trial`.
//!
//! Start at `source`, which reads bundles, then `build`.

mod activate;
mod bench;
mod build;
mod cargo;
mod create;
mod diff;
mod document;
mod error;
mod inspect;
mod key;
mod layout;
mod lint;
mod rollback;
mod sign;
pub(crate) mod source;
mod template;
mod test;
pub(crate) mod trial;
mod verify;

pub(crate) use error::Error;

use crate::finish;
use clap::{Args, Subcommand};
use gateway_domain::time::EpochMs;
use gateway_service::output::{EXIT_FAILED, Lines, ToLines};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use verify::{LastActivation, Trust};

/// Exit code of an activation that replaced the folder and was not confirmed by the gateway.
const EXIT_NOT_CONFIRMED: u8 = 3;

/// The command line of `operation-gateway bundle`.
#[derive(Debug, Args)]
#[command(
    after_help = "DIR is a bundle's folder, the source folder of a policy, or an archive written by `pack`."
)]
pub struct Bundle {
    #[command(subcommand)]
    command: Command,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a new policy that builds and passes its tests
    New {
        /// Lower case letters, digits and `-`
        #[arg(value_name = "NAME")]
        name: String,
        /// The folder to create it in [default: the current folder]
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
    /// Build the component and complete the manifest; the folder does not affect the bytes
    Build {
        #[command(flatten)]
        build: build::Build,
        /// Write nothing; fail if the bundle has another component
        #[arg(long)]
        check: bool,
    },
    /// Complete the manifest of a bundle whose component was built by another tool
    Complete(Dir),
    /// Run a policy's own tests and every vector; list declared codes that no vector covers
    Test {
        #[command(flatten)]
        dir: Dir,
        /// Fail if no vector covers a declared code
        #[arg(long)]
        strict: bool,
        /// Print the answers to vectors that pass, too; JSON has them anyway
        #[arg(long)]
        answers: bool,
    },
    /// Measure fuel, memory and time of every vector
    Bench {
        #[command(flatten)]
        dir: Dir,
        /// Timed evaluations of each vector
        #[arg(long, value_name = "N", default_value_t = 1000)]
        rounds: usize,
    },
    /// Create keys that sign bundles
    #[command(subcommand)]
    Key(KeyCommand),
    /// Sign a bundle, after every check of an activation except trusted signatures
    Sign {
        #[command(flatten)]
        dir: Dir,
        /// The key file
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Print the WIT interface between the gateway and a policy
    Wit,
    /// Check a bundle as an activation with these trust roots does; its sequence only with --active
    Verify {
        #[command(flatten)]
        dir: Dir,
        #[command(flatten)]
        trust: Trust,
        /// The bundle that is active now, whose sequence must be lower
        #[arg(long, value_name = "BUNDLE")]
        active: Option<PathBuf>,
    },
    /// Print a bundle's contents without verifying them
    Inspect(Dir),
    /// Print findings for a reviewer; with --json a report that can be signed
    Lint {
        #[command(flatten)]
        dir: Dir,
        /// Fail on warnings too
        #[arg(long)]
        strict: bool,
    },
    /// Print the differences between two bundles, and the vectors that they answer differently
    Diff {
        /// The current bundle
        #[arg(value_name = "OLD")]
        old: PathBuf,
        /// The bundle that would replace it
        #[arg(value_name = "NEW")]
        new: PathBuf,
    },
    /// Write a bundle as one file; the same files give the same bytes
    Pack {
        #[command(flatten)]
        dir: Dir,
        /// The archive, a .tar
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Verify a bundle and replace the folder that a gateway watches, atomically
    #[command(after_help = activate::EXIT_CODES)]
    Activate {
        #[command(flatten)]
        dir: Dir,
        /// The gateway's setting policy_bundle
        #[arg(long, value_name = "POLICY_BUNDLE")]
        into: PathBuf,
        #[command(flatten)]
        trust: Trust,
        #[command(flatten)]
        gateway: activate::GatewayArgs,
    },
    /// Sign a document that policies read, such as exchange rates (the gateway's setting policy_documents)
    #[command(
        after_help = "The trust roots name in `documents` who signs which document. The same command with another key adds a \
                      signature."
    )]
    Document {
        #[command(flatten)]
        unsigned: document::Unsigned,
        /// A key file; may be repeated, once for each signer
        #[arg(long = "key", value_name = "FILE", required = true)]
        keys: Vec<PathBuf>,
        /// The file to write, NAME.json
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Sign a record that makes a gateway return to an earlier bundle (its setting policy_activation)
    Rollback {
        #[command(flatten)]
        rollback: rollback::Rollback,
        /// A key file; may be repeated, once for each signer
        #[arg(long = "key", value_name = "FILE", required = true)]
        keys: Vec<PathBuf>,
        /// The record to write
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Add a signature to such a record
    Countersign {
        /// The record
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The key file
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Dir {
    /// The bundle
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Create a key with mode 0600 and print its public half
    New {
        /// The key file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Also write trust roots that trust this key alone
        #[arg(long, value_name = "FILE")]
        roots: Option<PathBuf>,
        /// The role of the key in these trust roots
        #[arg(long, value_name = "ROLE", default_value = "author")]
        role: String,
    },
}

/// Runs one command and prints its report. Exit code 1: it failed, or its report has findings. 3: an activation replaced
/// the folder, and the gateway did not confirm it.
#[must_use]
pub fn run(bundle: &Bundle, now: EpochMs) -> ExitCode {
    let done = report(bundle, now);
    let failed = if let Err(Error::NotConfirmed { .. }) = &done { EXIT_NOT_CONFIRMED } else { EXIT_FAILED };
    let code = |passed| if passed { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) };
    finish(done.map(|(lines, passed)| (lines, code(passed))).map_err(Into::into), failed)
}

/// Runs the command. Returns its report, and whether the bundle passed.
fn report(Bundle { command, json }: &Bundle, now: EpochMs) -> Result<(Lines, bool), Error> {
    let json = *json;
    match command {
        Command::New { name, into } => {
            success(json, &create::create(&name.parse()?, into.as_deref().unwrap_or(Path::new("")))?)
        }
        Command::Build { build, check: true } => success(json, &build::check(build)?),
        Command::Build { build, check: false } => success(json, &build::build(build)?),
        Command::Complete(Dir { dir }) => success(json, &build::complete(dir)?),
        Command::Test { dir, strict, answers } => {
            let tested = test::test(&dir.dir)?;
            let mut lines = Lines::new();
            if *answers && !json {
                tested.add_passing_to(&mut lines);
            }
            lines.append(&render(json, &tested)?);
            Ok((lines, tested.passed(*strict)))
        }
        Command::Bench { dir, rounds } => success(json, &bench::bench(&dir.dir, *rounds)?),
        Command::Key(KeyCommand::New { file, roots, role }) => {
            let public = key::create(file)?;
            if let Some(roots) = roots {
                key::write_roots(roots, role, &public)?;
            }
            success(json, &public)
        }
        Command::Sign { dir, key } => success(json, &sign::sign(&dir.dir, &key::load(key)?)?),
        Command::Wit => success(json, &template::Contract { wit: template::WIT }),
        Command::Verify { dir, trust, active } => {
            let last = active.as_deref().map(LastActivation::of_bundle).transpose()?;
            success(json, &verify::verify(source::read(&dir.dir)?, trust, last, now)?)
        }
        Command::Inspect(Dir { dir }) => success(json, &inspect::inspect(dir)?),
        Command::Lint { dir, strict } => {
            let report = lint::lint(&dir.dir, now)?;
            Ok((render(json, &report)?, report.passed(*strict)))
        }
        Command::Diff { old, new } => success(json, &diff::diff(old, new)?),
        Command::Pack { dir, file } => success(json, &layout::pack(&source::read(&dir.dir)?, file)?),
        Command::Activate { dir, into, trust, gateway } => {
            success(json, &activate::activate(&dir.dir, into, trust, gateway, now)?)
        }
        Command::Document { unsigned, keys, out } => {
            let keys = keys.iter().map(|file| key::load(file)).collect::<Result<Vec<_>, _>>()?;
            success(json, &document::sign(unsigned, &keys, out)?)
        }
        Command::Rollback { rollback, keys, out } => {
            let keys = keys.iter().map(|file| key::load(file)).collect::<Result<Vec<_>, _>>()?;
            success(json, &rollback::rollback(rollback, &keys, out)?)
        }
        Command::Countersign { file, key } => success(json, &rollback::countersign(file, &key::load(key)?)?),
    }
}

/// The report of a command that has no findings.
fn success(json: bool, report: &(impl ToLines + Serialize)) -> Result<(Lines, bool), Error> {
    Ok((render(json, report)?, true))
}

fn render(json: bool, report: &(impl ToLines + Serialize)) -> Result<Lines, Error> {
    let mut lines = Lines::new();
    if json {
        lines.add_json_pretty(report).map_err(Error::Json)?;
    } else {
        report.add_to(&mut lines);
    }
    Ok(lines)
}
