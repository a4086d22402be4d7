//! `deny`: licences, sources and versions of what we depend on, by the rules in `deny.toml`.
//!
//! cargo-deny does the work. `scripts/test` builds it where there is none; `cargo xtask check` alone does without.

use crate::cargo;
use crate::error::Error;
use crate::finding::Finding;

/// Nothing is fetched: the advisory database is not looked at.
const DENY: [&str; 4] = ["deny", "--offline", "--config", "deny.toml"];

const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Several versions of a package cost build time and nothing else: `cargo deny check bans` lists them.
const QUIET: [&str; 4] = ["check", "--hide-inclusion-graph", "--allow", "duplicate"];

/// The main workspace needs every licence in the list; the policy guest, a workspace of its own, only a few.
pub(crate) fn check() -> Result<Vec<Finding>, Error> {
    if cargo::output("cargo", &["deny", "--version"]).is_err() {
        return Ok(vec![Finding::warning("skipped: there is no cargo-deny here, `scripts/test` builds one")]);
    }
    let every_licence = ["--deny", "license-not-encountered"];
    let mut found = cargo::run(&[&DENY[..], &QUIET, &every_licence, &CHECKS].concat(), &[])?;
    let guest = ["--manifest-path", "policy-guest/Cargo.toml"];
    let some_licences = ["--allow", "license-not-encountered"];
    found.extend(cargo::run(&[&DENY[..], &guest, &QUIET, &some_licences, &CHECKS].concat(), &[])?);
    Ok(found)
}
