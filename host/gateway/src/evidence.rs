//! `evidence verify` and `evidence roots`: what a reader needs, and what the deployment tells it beforehand.

mod rerun;
pub mod roots;

use crate::cli::evidence::Verify;
use crate::settings::Settings;
use gateway_domain::chain;
use gateway_evidence::verify::{Check, Report, Status};
use gateway_evidence::{Rerun, Roots, verify};
use rerun::Bundle;
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Something does not hold.
const EXIT_FAILS: u8 = 1;
/// Nothing can be said.
const EXIT_UNREADABLE: u8 = 2;

/// Largest file that is read, in bytes: thirty times what the gateway writes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Checks a document, and says of each check how it ended.
pub(crate) fn verify_files(asked: &Verify) -> ExitCode {
    ended(check(asked))
}

/// Prints this deployment's roots.
pub(crate) fn print_roots(settings: &Settings) -> ExitCode {
    ended(roots::print(settings).map(|text| (text, true)))
}

fn ended(done: Result<(String, bool), Box<dyn Error>>) -> ExitCode {
    match done {
        Ok((text, holds)) => {
            let _nobody_reads = std::io::stdout().lock().write_all(text.as_bytes());
            if holds { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILS) }
        }
        Err(error) => crate::complain(&[chain(error.as_ref())], EXIT_UNREADABLE),
    }
}

fn check(Verify { files, trust, bundle, json }: &Verify) -> Result<(String, bool), Box<dyn Error>> {
    let roots = Roots::parse(&read(trust)?).map_err(|error| named(trust, &error))?;
    let mut pages = Vec::new();
    for file in files {
        pages.push(gateway_evidence::parse(&read(file)?).map_err(|error| named(file, &error))?);
    }
    let bundle = bundle.as_deref().map(Bundle::load).transpose()?;
    let report = verify(pages, &roots, bundle.as_ref().map(|bundle| bundle as &dyn Rerun));
    let text = if *json { serde_json::to_string_pretty(&report)? + "\n" } else { lines(&report) };
    Ok((text, report.holds()))
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
            Status::Open(why) => line(&mut text, "--  ", name, why),
            Status::Fails(findings) => {
                for finding in findings {
                    line(&mut text, "FAIL", name, &finding.to_string());
                }
            }
        }
    }
    let verdict = if report.holds() { "everything that was checked holds" } else { "this does not hold" };
    text + verdict + "\n"
}

fn line(text: &mut String, mark: &str, name: &str, said: &str) {
    let _never = writeln!(text, "{mark}  {name}: {said}");
}
