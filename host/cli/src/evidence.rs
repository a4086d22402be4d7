//! `operation-gateway evidence verify`: checks an operation's evidence offline.

use crate::records::bundle::load_unverified;
use crate::records::replay;
use crate::{EXIT_FAILED, EXIT_UNCHECKED, Fault, escape, report_errors, with_path};
use clap::{Args, Subcommand};
use gateway_domain::error_chain;
use gateway_domain::ids::OperationId;
use gateway_domain::operation::Evaluation;
use gateway_evidence::verify::{Check, Report, Status};
use gateway_evidence::{Reader, RerunPolicy, Roots, Verdict, verify};
use gateway_policy::{Evaluator, PolicyEngine};
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code when no check fails, and one could not be made.
const EXIT_NOT_CHECKED: u8 = 3;

/// Largest file that is read, in bytes: thirty times the largest export of the gateway.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[derive(Debug, Subcommand)]
pub enum EvidenceCommand<S: Args> {
    /// Check everything that an evidence file or an audit log states
    #[command(
        after_help = "Exit code 0: every check that applies was made and holds. 1: a check fails; each failure is named with its \
                      place in the file. 2: nothing was checked: a file or the roots cannot be read. 3: no check fails, and one \
                      could not be made; each of these is named with the reason."
    )]
    Verify(Verify),
    /// Print the roots of trust that readers of this deployment's evidence need
    Roots(S),
}

#[derive(Debug, Args)]
pub struct Verify {
    /// The document; if it has several pages, all of them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The roots of trust, obtained from a trusted source
    #[arg(long = "trust", value_name = "ROOTS")]
    roots: PathBuf,
    /// Evaluate the policy again with this bundle; may be repeated, once for each bundle that decided
    #[arg(long = "bundle", value_name = "DIRECTORY")]
    bundles: Vec<PathBuf>,
    /// Fail unless the document is about this operation
    #[arg(long = "operation", value_name = "ID")]
    operation_id: Option<OperationId>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Checks a document and prints the result of each check.
#[must_use]
pub fn run(verify: &Verify) -> ExitCode {
    match check(verify) {
        Ok((text, verdict)) => {
            let _reader_gone = std::io::stdout().lock().write_all(text.as_bytes());
            match verdict {
                Verdict::Holds => ExitCode::SUCCESS,
                Verdict::Fails => ExitCode::from(EXIT_FAILED),
                Verdict::NotChecked => ExitCode::from(EXIT_NOT_CHECKED),
            }
        }
        Err(error) => report_errors(&[error_chain(error.as_ref())], EXIT_UNCHECKED),
    }
}

fn check(arguments: &Verify) -> Result<(String, Verdict), Fault> {
    let Verify { files, roots: roots_file, bundles, operation_id, json } = arguments;
    let roots = Roots::parse(&read(roots_file)?).map_err(|error| with_path(roots_file, &error))?;
    let mut pages = Vec::new();
    for file in files {
        pages.push(gateway_evidence::parse(&read(file)?).map_err(|error| with_path(file, &error))?);
    }
    let bundles = if bundles.is_empty() { None } else { Some(Bundles::load(bundles)?) };
    let rerun = bundles.as_ref().map(|bundles| bundles as &dyn RerunPolicy);
    let report = verify(pages, &Reader { roots: &roots, rerun, operation_id: *operation_id });
    let verdict = report.verdict();
    let text = if *json {
        serde_json::to_string_pretty(&json!({ "verdict": verdict, "checks": report.checks }))? + "\n"
    } else {
        text(&report)
    };
    Ok((text, verdict))
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    let length = std::fs::metadata(path).map_err(|error| with_path(path, &error))?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("`{}` is larger than {FILE_BYTES_MAX} bytes", path.display()).into());
    }
    std::fs::read(path).map_err(|error| with_path(path, &error))
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for Check { name, status } in &report.checks {
        match status {
            Status::Holds(seen) => push_line(&mut text, "ok  ", name, seen),
            Status::NotChecked(why) => push_line(&mut text, "--  ", name, &format!("not checked: {why}")),
            Status::Fails(findings) => {
                for finding in findings {
                    push_line(&mut text, "FAIL", name, &finding.to_string());
                }
            }
        }
    }
    text + match report.verdict() {
        Verdict::Holds => "every check that applies was made and holds\n",
        Verdict::Fails => "the evidence is not valid\n",
        Verdict::NotChecked => "every check that was made holds; those marked -- could not be made\n",
    }
}

/// Escapes texts of the document, so that they stay on one line and cannot move the cursor.
fn push_line(text: &mut String, mark: &str, name: &str, finding: &str) {
    let finding = escape(&finding.replace('\n', "\u{240a}"));
    let _never = writeln!(text, "{mark}  {name}: {finding}");
}

/// The bundles to evaluate with. Their signatures are not checked: the evidence has the bundle's hash, which covers every byte.
struct Bundles(Vec<Evaluator>);

impl Bundles {
    fn load(folders: &[PathBuf]) -> Result<Self, Fault> {
        let engine = PolicyEngine::new()?;
        Ok(Self(folders.iter().map(|folder| load_unverified(&engine, folder)).collect::<Result<_, _>>()?))
    }
}

impl RerunPolicy for Bundles {
    fn differences(&self, evaluation: &Evaluation) -> Result<Vec<String>, String> {
        let outcome = &evaluation.outcome;
        let Some(bundle) = self.0.iter().find(|bundle| outcome.bundle_hash == bundle.bundle_hash()) else {
            return Err(format!(
                "the bundle {} that decided was not given with --bundle",
                outcome.bundle_hash
            ));
        };
        if let Some(why) = replay::not_repeatable(outcome) {
            return Err(why);
        }
        let found = replay::differences(bundle, &evaluation.input, outcome).into_iter();
        Ok(found
            .map(|one| format!("{}: recorded `{}`, now `{}`", one.field, one.recorded, one.again))
            .collect())
    }
}
