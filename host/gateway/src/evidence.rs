//! `evidence verify` and `evidence roots`: what a reader needs, and what the deployment tells it beforehand.

mod rerun;
pub mod roots;

use crate::approvers::command::plain;
use crate::cli::evidence::Verify;
use crate::settings::Settings;
use gateway_domain::chain;
use gateway_evidence::verify::{Check, Report, Status};
use gateway_evidence::{Reader, Rerun, Roots, Verdict, verify};
use rerun::Bundles;
use serde_json::json;
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Something does not hold.
const EXIT_FAILS: u8 = 1;
/// Nothing can be said.
const EXIT_UNREADABLE: u8 = 2;
/// What was checked holds, and something that applies could not be checked.
const EXIT_NOT_CHECKED: u8 = 3;

/// Largest file that is read, in bytes: thirty times what the gateway writes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Checks a document, and says of each check how it ended.
pub(crate) fn verify_files(asked: &Verify) -> ExitCode {
    ended(check(asked))
}

/// Prints this deployment's roots.
pub(crate) fn print_roots(settings: &Settings) -> ExitCode {
    ended(roots::print(settings).map(|text| (text, Verdict::Holds)))
}

fn ended(done: Result<(String, Verdict), Box<dyn Error>>) -> ExitCode {
    match done {
        Ok((text, verdict)) => {
            let _nobody_reads = std::io::stdout().lock().write_all(text.as_bytes());
            match verdict {
                Verdict::Holds => ExitCode::SUCCESS,
                Verdict::Fails => ExitCode::from(EXIT_FAILS),
                Verdict::NotChecked => ExitCode::from(EXIT_NOT_CHECKED),
            }
        }
        Err(error) => crate::complain(&[chain(error.as_ref())], EXIT_UNREADABLE),
    }
}

fn check(asked: &Verify) -> Result<(String, Verdict), Box<dyn Error>> {
    let Verify { files, trust, bundles, operation_id, json } = asked;
    let roots = Roots::parse(&read(trust)?).map_err(|error| named(trust, &error))?;
    let mut pages = Vec::new();
    for file in files {
        pages.push(gateway_evidence::parse(&read(file)?).map_err(|error| named(file, &error))?);
    }
    let bundles = if bundles.is_empty() { None } else { Some(Bundles::load(bundles)?) };
    let rerun = bundles.as_ref().map(|bundles| bundles as &dyn Rerun);
    let report = verify(pages, &Reader { roots: &roots, rerun, operation_id: *operation_id });
    let verdict = report.verdict();
    let text = if *json {
        serde_json::to_string_pretty(&json!({ "verdict": verdict, "checks": report.checks }))? + "\n"
    } else {
        lines(&report)
    };
    Ok((text, verdict))
}

fn read(path: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let length = std::fs::metadata(path).map_err(|error| named(path, &error))?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("`{}` is larger than {FILE_BYTES_MAX} bytes", path.display()).into());
    }
    std::fs::read(path).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &(dyn Error + 'static)) -> Box<dyn Error> {
    format!("`{}`: {}", path.display(), chain(error)).into()
}

fn lines(report: &Report) -> String {
    let mut text = String::new();
    for Check { name, status } in &report.checks {
        match status {
            Status::Holds(seen) => line(&mut text, "ok  ", name, seen),
            Status::NotChecked(why) => line(&mut text, "--  ", name, &format!("not checked: {why}")),
            Status::Fails(findings) => {
                for finding in findings {
                    line(&mut text, "FAIL", name, &finding.to_string());
                }
            }
        }
    }
    text + match report.verdict() {
        Verdict::Holds => "every check that applies was made and holds\n",
        Verdict::Fails => "this does not hold\n",
        Verdict::NotChecked => "what was checked holds; what begins with -- was not checked\n",
    }
}

/// Texts of the document are escaped: they stay on one line and move no cursor.
fn line(text: &mut String, mark: &str, name: &str, said: &str) {
    let said = plain(&said.replace('\n', "\u{240a}"));
    let _never = writeln!(text, "{mark}  {name}: {said}");
}
