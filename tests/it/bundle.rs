//! `operation-gateway bundle …`, run as the real binary.

mod activate;
mod bad_inputs;
mod journey;
mod other_toolchains;
mod reports;
mod reproduced;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The folder of the default policy.
fn payment_guard() -> PathBuf {
    repository().join("bundles/payment-guard")
}

/// The path of a file in `bundles/`.
fn committed(name: &str) -> String {
    repository().join("bundles").join(name).to_str().unwrap().to_owned()
}

/// Runs `operation-gateway bundle` with these arguments in `folder`.
pub(crate) fn bundle(folder: &Path, arguments: &[&str]) -> CommandOutput {
    command(folder).args(arguments).output().unwrap().into()
}

/// Signs the bundle `name` in `folder` with the key that signs the committed bundles.
fn sign(folder: &Path, name: &str) -> CommandOutput {
    bundle(folder, &["sign", name, "--key", &committed("development-signing-key.json")])
}

/// Copies the default policy to `folder`, without its signatures.
fn copy_unsigned(folder: &Path) {
    copy(&payment_guard(), folder);
    std::fs::remove_dir_all(folder.join("signatures")).unwrap();
}

/// Replaces the first `from` in a file, which must contain it.
#[track_caller]
fn replace_in(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "no `{from}` in {}", file.display());
    std::fs::write(file, text.replacen(from, to, 1)).unwrap();
}

/// The manifest of the bundle in `folder`.
fn manifest(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("manifest.json")).unwrap()).unwrap()
}

/// Alters the manifest of the bundle in `folder`.
fn alter_manifest(folder: &Path, alter: impl FnOnce(&mut Value)) {
    let mut manifest = manifest(folder);
    alter(&mut manifest);
    std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
}

/// The command `operation-gateway bundle`, run in `folder`.
fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway-under-test"));
    command.arg("bundle").current_dir(folder).stdin(Stdio::null());
    command
}

/// The exit code and output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
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
    /// The standard output of a command that exited with 0.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    /// The error line of a command that exited with 1 and printed nothing else.
    #[track_caller]
    fn error_line(self) -> String {
        self.error_line_with_code(1)
    }

    /// The error line of a command that exited with this code and printed nothing else.
    #[track_caller]
    fn error_line_with_code(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        let line = self.stderr.strip_suffix('\n').unwrap().strip_prefix("operation-gateway: ").unwrap();
        assert!(!line.contains('\n') && !line.is_empty(), "{line}");
        line.to_owned()
    }

    /// The report of a command that exited with 1, since it found something.
    #[track_caller]
    fn findings(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(1), ""), "{}", self.stdout);
        self.stdout
    }
}

/// The first word after `name` on the line of a report that begins with `name`.
#[track_caller]
fn value<'a>(report: &'a str, name: &str) -> &'a str {
    let line = report.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no `{name}` in {report}")).split_whitespace().next().unwrap()
}

/// Copies a folder with all that is in it.
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
