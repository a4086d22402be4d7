//! `fmt`, `deny`, `clippy` and `doc`: checks by cargo commands. All but `doc` also check the workspace `policy-guest`.

use crate::cargo;
use crate::report::{Error, Finding};

const GUEST: [&str; 2] = ["--manifest-path", "policy-guest/Cargo.toml"];

pub(crate) fn fmt() -> Result<Vec<Finding>, Error> {
    let fmt = ["fmt", "--all", "--check"];
    in_both(&fmt, &[])
}

/// Checks licences, sources and versions of dependencies by the rules in `deny.toml`; skipped if cargo-deny is not installed.
///
/// It works offline, and so does not check advisories. Duplicate versions are allowed: `cargo deny check bans` lists them.
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
    // A listed licence that the main workspace does not need is an error; the policy guest needs only some of them.
    let mut found = check("--deny", &[])?;
    found.extend(check("--allow", &GUEST)?);
    Ok(found)
}

pub(crate) fn clippy() -> Result<Vec<Finding>, Error> {
    in_both(&["clippy", "--workspace", "--all-targets", "--quiet"], &["--", "-D", "warnings"])
}

/// Documents libraries, examples and the binary xtask. With examples, cargo uses dev-dependencies, and so reuses the artefacts
/// of clippy.
pub(crate) fn doc() -> Result<Vec<Finding>, Error> {
    let arguments = ["doc", "--workspace", "--no-deps", "--quiet", "--lib", "--examples", "--bin", "xtask"];
    cargo::run(&arguments, &[("RUSTDOCFLAGS", "-D warnings")])
}

/// Runs a cargo command in both workspaces.
fn in_both(command: &[&str], rest: &[&str]) -> Result<Vec<Finding>, Error> {
    let mut found = cargo::run(&[command, rest].concat(), &[])?;
    found.extend(cargo::run(&[command, &GUEST, rest].concat(), &[])?);
    Ok(found)
}
