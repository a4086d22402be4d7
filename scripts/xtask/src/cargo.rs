//! Runs cargo and git, and reads their output.

use crate::report::{Error, Finding};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The workspace's root: two folders above this package.
pub(crate) fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root.pop();
    root
}

/// A program that runs in the workspace's root, preferably one of the tools that `scripts/test` installed there.
fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    let mut folders = vec![root().join("target/tools/bin")];
    folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    if let Ok(path) = std::env::join_paths(folders) {
        command.env("PATH", path);
    }
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// The command as text.
fn command_line(program: &str, arguments: &[&str]) -> String {
    format!("{program} {}", arguments.join(" "))
}

/// Runs cargo and passes its output on; returns a finding if it fails.
pub(crate) fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Vec<Finding>, Error> {
    let shown = command_line("cargo", arguments);
    let status = command("cargo", arguments).envs(environment.iter().copied()).status();
    match status {
        Ok(status) if status.success() => Ok(Vec::new()),
        Ok(status) => Ok(vec![Finding::error(format!("`{shown}` ended with {status}"))]),
        Err(source) => Err(Error::Run { command: shown, source }),
    }
}

/// The standard output of a program; if it fails, [`Error::Failed`] with its standard output and error.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Result<String, Error> {
    let shown = command_line(program, arguments);
    let output = command(program, arguments)
        .output()
        .map_err(|source| Error::Run { command: shown.clone(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let printed = [output.stdout, output.stderr].concat();
    Err(Error::Failed { command: shown, output: String::from_utf8_lossy(&printed).trim().to_owned() })
}

/// The packages of `cargo metadata`.
pub(crate) fn packages(arguments: &[&str]) -> Result<Vec<Value>, Error> {
    let mut all = vec!["metadata", "--format-version=1"];
    all.extend(arguments);
    let parsed: Result<Value, _> = serde_json::from_str(&output("cargo", &all)?);
    let mut metadata =
        parsed.map_err(|source| Error::Json { command: command_line("cargo", &all), source })?;
    match metadata.get_mut("packages").map(Value::take) {
        Some(Value::Array(packages)) => Ok(packages),
        _ => Ok(Vec::new()),
    }
}

/// A text member of a JSON object; empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A list member of a JSON object; empty if it is missing.
pub(crate) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
