//! The gateway refuses to start with contradictory approval settings or an unusable approvers file.

use crate::harness::approvers::Signers;
use crate::harness::process::Process;
use crate::start::assert_nothing_was_created;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Starts the gateway with these settings, asserts that it fails and creates nothing, and returns its one-line error.
#[track_caller]
fn start_error(overrides: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let line = Process::start_error(folder.path(), overrides);
    assert_nothing_was_created(folder.path());
    line
}

#[test]
fn invalid_approval_settings_prevent_startup() {
    let signers = Signers::new();
    for rule in ["optional", "required"] {
        let line = start_error(&[("signed_approvals", rule)]);
        let expected = format!("setting `approvers_file` must be given while `signed_approvals` is `{rule}`");
        assert!(line.ends_with(&expected), "{line}");
    }
    let line = start_error(&[("approvers_file", signers.path())]);
    assert!(
        line.contains("setting `approvers_file` must be empty while `signed_approvals` is `off`"),
        "{line}"
    );
    let no_approvals = [&signers.settings("required")[..], &[("required_approvals", "0")]].concat();
    let line = start_error(&no_approvals);
    assert!(
        line.ends_with("`required_approvals` must be at least 1 while `signed_approvals` is `required`"),
        "{line}"
    );
    let line = start_error(&signers.settings("always"));
    assert!(
        line.ends_with("setting `signed_approvals` must be one of off, optional, required, not `always`"),
        "{line}"
    );
}

#[test]
fn unusable_approvers_file_prevents_startup() {
    let signers = Signers::new();
    let start = || start_error(&signers.settings("required")).replace(signers.path(), "FILE");
    let prefix = "operation-gateway: approvers file `FILE`: ";
    fs::set_permissions(signers.path(), fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(start(), format!("{prefix}has mode 0666: anybody may write to it"));
    fs::set_permissions(signers.path(), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(signers.path(), "{}").unwrap();
    assert!(start().starts_with(&format!("{prefix}not a registry of approvers: missing field `format`")));
    fs::remove_file(signers.path()).unwrap();
    assert_eq!(start(), format!("{prefix}cannot be opened: entity not found"));
}
