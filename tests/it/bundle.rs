//! `operation-gateway bundle …`, run as the real binary.

mod activate;
mod bad_inputs;
mod journey;
mod other_toolchains;
mod reports;
mod reproduced;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn payment_guard() -> PathBuf {
    repository().join("bundles/payment-guard")
}

fn committed(name: &str) -> String {
    repository().join("bundles").join(name).to_str().unwrap().to_owned()
}

/// Runs `operation-gateway bundle` with these arguments in `folder`.
fn bundle(folder: &Path, words: &[&str]) -> CommandOutput {
    let mut command = command(folder);
    command.args(words).output().unwrap().into()
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway-under-test"));
    command.arg("bundle").current_dir(folder).stdin(Stdio::null());
    command
}

/// The exit code and output of a command.
#[derive(Debug)]
struct CommandOutput {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl CommandOutput {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    /// The one-line error message of a command that failed.
    #[track_caller]
    fn refused(self) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(1), ""), "{}", self.stderr);
        let line = self.stderr.strip_suffix('\n').unwrap().strip_prefix("operation-gateway: ").unwrap();
        assert!(!line.contains('\n') && !line.is_empty(), "{line}");
        line.to_owned()
    }

    /// The findings printed by a command that exited with 1.
    #[track_caller]
    fn found(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(1), ""), "{}", self.stdout);
        self.stdout
    }
}

/// The value on the report line that begins with `name`.
#[track_caller]
fn value<'a>(report: &'a str, name: &str) -> &'a str {
    let line = report.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no `{name}` in {report}")).split_whitespace().next().unwrap()
}

/// Copies a bundle, so that a test may change it.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}
