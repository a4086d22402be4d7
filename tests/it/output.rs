//! What the programs print: complete or a failure, and nothing that a terminal interprets.

use crate::harness::cluster::Cluster;
use crate::harness::process::{command, run};
use gateway_domain::names::is_visible;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const GATEWAY: &str = env!("CARGO_BIN_EXE_gateway-under-test");

/// Text that clears the screen and adds a row.
const HOSTILE: &str = "bad\u{1b}[2J\nFAKE: every check holds\u{202e}";

/// How this text is printed.
const ESCAPED: &str = "bad\\u{1b}[2J\\u{a}FAKE: every check holds\\u{202e}";

/// Commands of each program that print something and end.
fn commands(folder: &Path, cluster: &Cluster) -> Vec<Command> {
    let bundle = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard");
    let roots = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/trust-development.json");
    let key = folder.join("approver.key").display().to_string();
    let gateway = [
        &["--help"][..],
        &["--version"],
        &["help", "serve"],
        &["config"],
        &["completions", "zsh"],
        &["doctor"],
        &["doctor", "--json"],
        &["keys", "generate"],
        &["keys", "show"],
        &["nodes", "check"],
        &["approvers", "key", &key],
        &["bundle", "wit"],
        &["bundle", "wit", "--json"],
        &["bundle", "inspect", bundle],
        &["bundle", "verify", bundle, "--trust", roots],
    ]
    .map(|arguments| {
        let mut command = command(folder, &[]);
        command.args(arguments);
        command
    });
    let node = [&["--help"][..], &["config"], &["identity"], &["check"], &["log"], &["completions", "bash"]];
    let node = node.map(|arguments| {
        let mut command = cluster.node_command(0);
        command.args(arguments);
        command
    });
    let authority = [&["--help"][..], &["config"], &["identity"], &["completions", "fish"]];
    let authority = authority.map(|arguments| {
        let mut command = cluster.authority_command(0);
        command.args(arguments);
        command
    });
    gateway.into_iter().chain(node).chain(authority).collect()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn output_that_is_lost_or_has_no_reader_is_not_success() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::prepare(1, |port| port);
    run(folder.path(), &[], &["keys", "generate"]);
    for mut command in commands(folder.path(), &cluster) {
        let shown = format!("{:?}", command.get_args().last().unwrap());
        let full = File::options().write(true).open("/dev/full").unwrap();
        let Output { status, stderr, .. } = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
        let errors = text(stderr);
        let last = errors.lines().last().unwrap_or_default();
        assert!(last.contains(": standard output cannot be written: No space left"), "{shown}: {errors}");
        assert!(
            status.code() == Some(2) && errors.matches("cannot be written").count() == 1,
            "{shown}: {errors}"
        );

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let Output { status, stderr, .. } = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let errors = text(stderr);
        assert_eq!((status.code(), errors.as_str()), (Some(141), ""), "{shown}");
    }
}

/// Every line that the command prints must be ours.
#[track_caller]
fn check_lines(printed: &str, what: &str) {
    assert!(
        printed.chars().all(|character| character == '\n' || is_visible(character)),
        "{what}: {printed:?}"
    );
    assert!(!printed.lines().any(|line| line.starts_with("FAKE")), "{what}: {printed}");
    assert!(printed.contains("bad\\u{1b}[2J"), "{what}: {printed}");
}

#[test]
fn arguments_and_file_names_of_others_add_no_line_and_no_control_character() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = folder.path().join(HOSTILE);
    fs::write(&hostile, "{}").unwrap();
    let hostile = hostile.to_str().unwrap();
    for arguments in [
        &[HOSTILE][..],
        &["op", "show", HOSTILE, HOSTILE],
        &["approvers", "check", hostile],
        &["approvers", "key", hostile],
        &["evidence", "verify", hostile, "--trust", hostile],
        &["bundle", "inspect", hostile],
        &["bundle", "verify", hostile, "--trust", hostile],
        &["policy", "replay", HOSTILE],
        &["restore", hostile],
        &["config", "--bind", HOSTILE],
        &["nodes", "log", HOSTILE],
    ] {
        let (code, out, errors) = run(folder.path(), &[], arguments);
        assert_ne!(code, 0, "{arguments:?}");
        check_lines(&(out + &errors), arguments[0]);
    }
    let (code, _, errors) = run(folder.path(), &[], &[HOSTILE]);
    assert!(code == 2 && errors.contains(ESCAPED), "{errors}");
}

/// Runs the program as a user who has no process yet and may have so many.
fn limited(folder: &Path, n_threads: u32, arguments: &[&str]) -> Option<Output> {
    let program = folder.join("program");
    fs::copy(GATEWAY, &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if is_root { "setpriv" } else { "prlimit" });
    if is_root {
        // The limit does not hold for root.
        let user = 65_531;
        chown(folder, Some(user), None).unwrap();
        command.arg(format!("--reuid={user}")).args(["--clear-groups", "prlimit"]);
    }
    command.arg(format!("--nproc={n_threads}")).arg(&program).args(arguments).current_dir(folder);
    command.output().ok()
}

#[test]
fn too_few_threads_are_an_error_of_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("--database-url=sqlite://{}", folder.path().join("gateway.db").display());
    // The keys that are to be replaced. One thread is enough to make them.
    let Some(made) = limited(folder.path(), 2, &["keys", "generate"]) else {
        println!("skipped: util-linux is not installed");
        return;
    };
    assert!(made.status.success(), "{}", text(made.stderr));
    for arguments in [&["serve"][..], &["ledger", "fsck"], &["keys", "rotate", "node"]] {
        let output = limited(folder.path(), 2, &[arguments, &[&database]].concat()).unwrap();
        let errors = text(output.stderr);
        assert!(errors.contains("threads are needed"), "{arguments:?}: {errors}");
        assert_eq!((output.status.code().unwrap() > 0, errors.lines().count()), (true, 1), "{errors}");
    }
}

#[test]
fn roots_without_nodes_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &[], &["keys", "generate"]);
    let (code, out, errors) = run(folder.path(), &[], &["evidence", "roots"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(errors.contains("the nodes are unknown") && errors.lines().count() == 1, "{errors}");
}
