//! `fmt`, `deny`, `clippy` and `doc`: checks that a cargo command makes, in both workspaces. The policy guest is a
//! workspace of its own.

use crate::cargo;
use crate::report::{Error, Finding};

const GUEST: [&str; 2] = ["--manifest-path", "policy-guest/Cargo.toml"];

pub(crate) fn fmt() -> Result<Vec<Finding>, Error> {
    let fmt = ["fmt", "--all", "--check"];
    in_both(&fmt, &[])
}

/// Licences, sources and versions of dependencies, by the rules in `deny.toml`.
///
/// Offline, so without advisories. Duplicate versions are allowed: `cargo deny check bans` lists them. `scripts/test`
/// installs cargo-deny; without it the check is skipped.
pub(crate) fn deny() -> Result<Vec<Finding>, Error> {
    if cargo::output("cargo", &["deny", "--version"]).is_err() {
        return Ok(vec![Finding::warning(
            "skipped: cargo-deny is not installed; `scripts/test` installs it",
        )]);
    }
    let deny = ["deny", "--offline", "--config", "deny.toml"];
    let check = |level, guest: &[&str]| {
        let options = ["check", "--hide-inclusion-graph", "--allow", "duplicate", level];
        let checks = ["license-not-encountered", "bans", "licenses", "sources"];
        cargo::run(&[&deny, guest, &options, &checks].concat(), &[])
    };
    // The main workspace needs every licence in the list; the policy guest only a few of them.
    let mut found = check("--deny", &[])?;
    found.extend(check("--allow", &GUEST)?);
    Ok(found)
}

pub(crate) fn clippy() -> Result<Vec<Finding>, Error> {
    in_both(&["clippy", "--workspace", "--all-targets", "--quiet"], &["--", "-D", "warnings"])
}

/// With examples, and so with dev-dependencies, to reuse the `check` artefacts of clippy. Of the binaries only xtask: the
/// others are one line each.
pub(crate) fn doc() -> Result<Vec<Finding>, Error> {
    let arguments = ["doc", "--workspace", "--no-deps", "--quiet", "--lib", "--examples", "--bin", "xtask"];
    cargo::run(&arguments, &[("RUSTDOCFLAGS", "-D warnings")])
}

fn in_both(command: &[&str], rest: &[&str]) -> Result<Vec<Finding>, Error> {
    let mut found = cargo::run(&[command, rest].concat(), &[])?;
    found.extend(cargo::run(&[command, &GUEST, rest].concat(), &[])?);
    Ok(found)
}
