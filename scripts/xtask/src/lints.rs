//! `clippy` and `doc`: the compiler's and rustdoc's own warnings are errors.
//!
//! Both stand on the same `check` artefacts of the dependencies, so the second one costs little.

use crate::cargo;
use crate::error::Error;
use crate::finding::Finding;

pub(crate) fn clippy() -> Result<Vec<Finding>, Error> {
    cargo::run(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"], &[])
}

pub(crate) fn doc() -> Result<Vec<Finding>, Error> {
    cargo::run(&["doc", "--workspace", "--no-deps", "--quiet"], &[("RUSTDOCFLAGS", "-D warnings")])
}
