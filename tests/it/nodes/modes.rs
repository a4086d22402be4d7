//! Database files are private: the gateway refuses files with other modes and creates private ones.

use super::executed;
use crate::harness::process::{Process, command, tool};
use crate::harness::samples::payment;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn databases_that_other_users_can_read_or_write_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    executed(&process, "/v1/operations/sign", &payment("one"));
    process.terminate();
    for name in ["gateway.db", "nodes/node-1.db"] {
        let path = folder.path().join(name);
        for mode in [0o644, 0o660] {
            chmod(&path, mode);
            let shown = path.display();
            let line = format!(
                "the database file `{shown}` has mode {mode:04o}; it must be 0600 or 0400: run `chmod 600 {shown}`"
            );
            let refused = Process::refused(folder.path(), &[]);
            assert!(refused.ends_with(&line), "{refused}");
            let arguments = if name == "gateway.db" { ["ledger", "fsck"] } else { ["nodes", "check"] };
            let (code, out, err) = tool(folder.path(), &[], &arguments);
            assert!(code > 0 && format!("{out}{err}").contains(&line), "{out}{err}");
        }
        chmod(&path, 0o600);
        let within = path.parent().unwrap();
        chmod(within, 0o777);
        let refused = Process::refused(folder.path(), &[]);
        assert!(refused.ends_with(&format!("run `chmod o-w {}`", within.display())), "{refused}");
        chmod(within, 0o700);
    }
    Process::start(folder.path(), None, &[]);
}

#[test]
fn database_files_are_private_under_any_umask() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = command(folder.path(), &[]);
    let mut open = Command::new("sh");
    open.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(gateway.get_program()).args(gateway.get_args());
    let process = Process::listening(open);
    executed(&process, "/v1/operations/sign", &payment("one"));
    let mut n_files = 0;
    for within in [folder.path().to_owned(), folder.path().join("nodes")] {
        for entry in fs::read_dir(&within).unwrap() {
            let (path, metadata) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
            let mode = metadata.permissions().mode() & 0o777;
            assert_eq!(mode, if metadata.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
            n_files += usize::from(path.to_str().unwrap().contains(".db"));
        }
    }
    assert!(n_files >= 4 * 4, "four databases, each with two files of its log and a lock: {n_files}");
}
