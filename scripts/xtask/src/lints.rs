//! `clippy` and `doc`: the compiler's and rustdoc's own warnings are errors.
//!
//! Both stand on the same `check` artefacts of the dependencies, so the second one costs little.

use crate::cargo;
use crate::error::Error;
use crate::finding::Finding;

const CLIPPY: [&str; 4] = ["clippy", "--workspace", "--all-targets", "--quiet"];

const DENY_WARNINGS: [&str; 3] = ["--", "-D", "warnings"];

/// Both workspaces: the policy guest has its own.
pub(crate) fn clippy() -> Result<Vec<Finding>, Error> {
    let mut found = cargo::run(&[&CLIPPY[..], &DENY_WARNINGS].concat(), &[])?;
    let guest = ["--manifest-path", "policy-guest/Cargo.toml"];
    found.extend(cargo::run(&[&CLIPPY[..], &guest, &DENY_WARNINGS].concat(), &[])?);
    Ok(found)
}

/// With the examples, and so with what only tests depend on: otherwise dependencies would have other features than for
/// clippy, and half of them would be checked again. Binaries are left out but xtask; the others are one line each.
pub(crate) fn doc() -> Result<Vec<Finding>, Error> {
    let targets = ["--lib", "--examples", "--bin", "xtask"];
    let arguments = [&["doc", "--workspace", "--no-deps", "--quiet"], &targets[..]].concat();
    cargo::run(&arguments, &[("RUSTDOCFLAGS", "-D warnings")])
}
