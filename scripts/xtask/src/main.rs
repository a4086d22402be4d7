//! The project's own checks. `cargo xtask check` runs all of them; each is also a subcommand.
//!
//! Checks run no tests and change no files. Start at [`CHECKS`].

#![expect(clippy::print_stdout, reason = "it is a command-line tool")]

mod arrows;
mod cargo;
mod commands;
mod report;
mod tidy;
mod tree;

use report::{Error, Finding};
use std::process::ExitCode;
use std::time::Instant;

type Check = fn() -> Result<Vec<Finding>, Error>;

/// Name, description and function of each check, the quick ones first.
const CHECKS: &[(&str, &str, Check)] = &[
    ("fmt", "every file is formatted", commands::fmt),
    ("arrows", "crates depend on each other only as allowed, files not in circles", arrows::check),
    ("tidy", "file sizes, forbidden words, tests of the threat model, mutations", tidy::check),
    ("deny", "licences, sources and versions of dependencies", commands::deny),
    ("clippy", "no lint fires", commands::clippy),
    ("doc", "the documentation builds without a warning", commands::doc),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let requested = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["check"] => CHECKS.iter().collect(),
        [name] => CHECKS.iter().filter(|(known, ..)| known == name).collect(),
        _ => Vec::new(),
    };
    if requested.is_empty() {
        return usage();
    }
    let failed: Vec<&str> =
        requested.iter().filter(|check| !run_check(check)).map(|(name, ..)| *name).collect();
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

/// Runs a check and prints its findings; returns whether none of them is an error.
fn run_check((name, about, check): &(&str, &str, Check)) -> bool {
    println!("xtask: {name}: {about}");
    let started = Instant::now();
    let found = match check() {
        Ok(found) => found,
        Err(error) => vec![Finding::error(error.to_string())],
    };
    for finding in &found {
        println!("{finding}");
    }
    let failed = found.iter().any(Finding::is_error);
    let verdict = if failed { "FAILED" } else { "ok" };
    println!("xtask: {name}: {verdict} ({:.1} s)", started.elapsed().as_secs_f64());
    !failed
}
