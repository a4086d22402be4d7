//! `fmt`: every file is formatted.

use crate::cargo;
use crate::error::Error;
use crate::finding::Finding;

/// Both workspaces: the policy guest has its own.
pub(crate) fn check() -> Result<Vec<Finding>, Error> {
    let mut found = cargo::run(&["fmt", "--all", "--check"], &[])?;
    found
        .extend(cargo::run(&["fmt", "--all", "--check", "--manifest-path", "policy-guest/Cargo.toml"], &[])?);
    Ok(found)
}
