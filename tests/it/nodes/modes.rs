//! File modes of databases: the gateway refuses files that other users may read or write, and creates private ones.

use super::execute;
use crate::harness::process::{Process, SIGN, command, run};
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
    execute(&process, SIGN, &payment("one"));
    process.terminate();
    for name in ["gateway.db", "nodes/node-1.db"] {
        let path = folder.path().join(name);
        for mode in [0o644, 0o660] {
            chmod(&path, mode);
            let shown = path.display();
            let line = format!(
                "the database file `{shown}` has mode {mode:04o}; it must be 0600 or 0400: run `chmod 600 {shown}`"
            );
            let refused = Process::start_error(folder.path(), &[]);
            assert!(refused.ends_with(&line), "{refused}");
            let arguments = if name == "gateway.db" { ["ledger", "fsck"] } else { ["nodes", "check"] };
            let (code, out, err) = run(folder.path(), &[], &arguments);
            assert!(code > 0 && format!("{out}{err}").contains(&line), "{out}{err}");
        }
        chmod(&path, 0o600);
        let folder_of_file = path.parent().unwrap();
        chmod(folder_of_file, 0o777);
        let refused = Process::start_error(folder.path(), &[]);
        assert!(refused.ends_with(&format!("run `chmod o-w {}`", folder_of_file.display())), "{refused}");
        chmod(folder_of_file, 0o700);
    }
    Process::start(folder.path(), None, &[]);
}

#[test]
fn database_files_are_private_under_any_umask() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = command(folder.path(), &[]);
    let mut in_shell = Command::new("sh");
    in_shell
        .args(["-c", "umask 000; exec \"$0\" \"$@\""])
        .arg(gateway.get_program())
        .args(gateway.get_args());
    let process = Process::start_command(in_shell);
    execute(&process, SIGN, &payment("one"));
    let mut n_files = 0;
    for folder in [folder.path().to_owned(), folder.path().join("nodes")] {
        for entry in fs::read_dir(&folder).unwrap() {
            let (path, metadata) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
            let mode = metadata.permissions().mode() & 0o777;
            assert_eq!(mode, if metadata.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
            n_files += usize::from(path.to_str().unwrap().contains(".db"));
        }
    }
    assert!(n_files >= 4 * 4, "four databases, each with a write-ahead log, its index and a lock: {n_files}");
}
