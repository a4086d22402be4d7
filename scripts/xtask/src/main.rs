//! The project's own checks. `cargo xtask check` runs all of them; each is a subcommand of its own.
//!
//! Deliberately absent: running tests (`scripts/test` does) and changing files. A check reads and reports.
//! Start at [`CHECKS`]; each check is one file.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

mod arrows;
mod cargo;
mod deny;
mod error;
mod finding;
mod format;
mod lints;
mod tidy;
mod tree;

use error::Error;
use finding::Finding;
use std::process::ExitCode;
use std::time::Instant;

type Check = fn() -> Result<Vec<Finding>, Error>;

/// Name, what it does, and the check: the quick ones first.
const CHECKS: &[(&str, &str, Check)] = &[
    ("fmt", "every file is formatted", format::check),
    ("arrows", "crates depend on each other only as allowed", arrows::check),
    ("tidy", "sizes, forbidden words, bans that must stay", tidy::check),
    ("deny", "licences, sources and versions of dependencies", deny::check),
    ("clippy", "no lint fires", lints::clippy),
    ("doc", "the documentation builds without a warning", lints::doc),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["check"] => CHECKS.iter().collect(),
        [name] => CHECKS.iter().filter(|(known, ..)| known == name).collect(),
        _ => Vec::new(),
    };
    if asked.is_empty() {
        return usage();
    }
    let failed: Vec<&str> = asked.iter().filter(|check| !passes(check)).map(|(name, ..)| *name).collect();
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("xtask: failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

fn usage() -> ExitCode {
    println!("usage: cargo xtask <check>\n");
    println!("  {:8} all of these", "check");
    for (name, about, _) in CHECKS {
        println!("  {name:8} {about}");
    }
    ExitCode::from(2)
}

fn passes((name, about, check): &(&str, &str, Check)) -> bool {
    println!("xtask: {name}: {about}");
    let started = Instant::now();
    let found = match check() {
        Ok(found) => found,
        Err(error) => vec![Finding::error(error.chain())],
    };
    for finding in &found {
        println!("{finding}");
    }
    let failed = found.iter().any(Finding::is_error);
    let verdict = if failed { "FAILED" } else { "ok" };
    println!("xtask: {name}: {verdict} ({:.1} s)", started.elapsed().as_secs_f64());
    !failed
}
