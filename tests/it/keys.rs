//! `operation-gateway keys`: `generate`, `show` and `rotate`. After a rotation, earlier signatures and sealed data remain valid.

use crate::harness::process::{Process, SIGN, command, drive, request, run, stdout};
use crate::harness::samples::{self, approval, payment, publication};
use crate::harness::secrets::make_private;
use crate::harness::wire::eventually;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

/// The files of the authority's key, the log's key and the key of the nodes' secrets.
fn key_files(folder: &Path) -> [PathBuf; 3] {
    ["authority.key", "log.key", "nodes/node.key"].map(|name| folder.join(name))
}

/// The output of `operation-gateway keys`, which must succeed without an error message and print no secret.
#[track_caller]
fn run_keys(folder: &Path, overrides: &[(&str, &str)], arguments: &[&str]) -> String {
    let out = stdout(run(folder, overrides, &[&["keys"], arguments].concat()));
    for file in key_files(folder).iter().filter(|file| file.exists()) {
        assert!(!out.contains(fs::read_to_string(file).unwrap().trim_end()), "{out}");
    }
    out
}

/// The public key on the line of `keys show` for this setting.
fn public_key<'a>(out: &'a str, setting: &str) -> &'a str {
    let line = out.lines().find(|line| line.split(' ').next() == Some(setting));
    line.unwrap().split(' ').nth(1).unwrap()
}

/// Submits a payment and approves it twice; returns its path.
fn admit(process: &Process, name: &str) -> String {
    let view = drive(&process.address, SIGN, &payment(name), &[]).unwrap();
    assert_eq!(view["state"], "admitted");
    samples::path(&view, "")
}

/// Executes and publishes an admitted payment; returns its evidence.
fn publish(process: &Process, path: &str) -> Value {
    process.post(&format!("{path}/execute"), None);
    let view = process.post(&format!("{path}/publish"), Some(&publication()));
    assert_eq!(view["state"], "published");
    process.get(&format!("{path}/evidence"))
}

fn stop(process: Process) {
    assert!(process.terminate().0.success());
}

#[test]
fn keys_generate_creates_private_files_once_and_show_prints_public_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, error) = run(folder.path(), &[], &["keys", "show"]);
    assert!(code == 1 && error.contains("authority.key"), "{error}");
    let made = run_keys(folder.path(), &[], &["generate"]);
    assert_eq!(made.lines().filter(|line| line.starts_with("created: ")).count(), 3, "{made}");
    let contents = key_files(folder.path()).map(|file| {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
        fs::read(&file).unwrap()
    });
    let again = run_keys(folder.path(), &[], &["generate"]);
    assert_eq!(again.lines().filter(|line| line.starts_with("existing: ")).count(), 3, "{again}");
    assert_eq!(key_files(folder.path()).map(|file| fs::read(file).unwrap()), contents);
    let listed = run_keys(folder.path(), &[], &["show"]);
    assert!(again.ends_with(&listed) && listed.lines().count() == 3, "{listed}");
    // The gateway and its trust roots use the keys shown.
    let process = Process::start(folder.path(), None, &[]);
    let log_key = request(&process.address, "GET", "/v1/log/key", None).unwrap();
    assert_eq!(log_key.0, 200);
    publish(&process, &admit(&process, "first"));
    stop(process);
    let (code, roots, _) = run(folder.path(), &[], &["evidence", "roots"]);
    let roots: Value = serde_json::from_str(&roots).unwrap();
    assert_eq!((code, roots["authorities"][0].as_str()), (0, Some(public_key(&listed, "authority_key"))));
    assert_eq!(roots["logs"][0].as_str(), Some(public_key(&listed, "log_key")));
}

#[test]
fn keys_of_processes_of_their_own_are_not_created_and_not_replaced_here() {
    let folder = tempfile::tempdir().unwrap();
    let public = "11".repeat(32);
    let remote = [
        ("authority_key", ""),
        ("authority_url", "https://authority.localhost:9400"),
        ("authority_public_key", public.as_str()),
        ("runtime_nodes", "https://a.localhost:1,https://b.localhost:1,https://c.localhost:1"),
        ("runtime_node_pins", "pins.json"),
        ("service_tls_certificate", "tls.pem"),
        ("service_tls_key", "tls.key"),
        ("service_tls_ca", "ca.pem"),
    ];
    let made = run_keys(folder.path(), &remote, &["generate"]);
    assert_eq!(made.lines().filter(|line| line.starts_with("created: ")).count(), 1, "{made}");
    let listed = run_keys(folder.path(), &remote, &["show"]);
    assert!(
        made.ends_with(&listed) && listed.lines().count() == 1 && listed.starts_with("log_key "),
        "{listed}"
    );
    for key in ["authority", "node"] {
        let (code, out, error) = run(folder.path(), &remote, &["keys", "rotate", key]);
        assert!(code == 1 && out.is_empty() && error.contains("processes of their own"), "{key}: {error}");
    }
}

#[test]
fn keys_generate_creates_nothing_when_something_is_missing_or_wrong() {
    let folder = tempfile::tempdir().unwrap();
    run_keys(folder.path(), &[], &["generate"]);
    let [authority, _, node] = key_files(folder.path());
    fs::set_permissions(&authority, fs::Permissions::from_mode(0o644)).unwrap();
    for arguments in [["generate"].as_slice(), &["show"], &["rotate", "authority"], &["rotate", "node"]] {
        let (code, out, error) = run(folder.path(), &[], &[&["keys"], arguments].concat());
        assert!(code == 1 && error.contains("0644"), "{arguments:?}: {out} {error}");
    }
    make_private(&authority);
    // The nodes have a database, so a new key is not created in place of the missing one.
    fs::rename(&node, folder.path().join("away")).unwrap();
    fs::write(folder.path().join("nodes/node-0.db"), "").unwrap();
    let (code, _, error) = run(folder.path(), &[], &["keys", "generate"]);
    assert!(code == 1 && error.contains("the key that encrypts their secrets is missing"), "{error}");
    assert!(!node.exists());
}

#[test]
fn operation_admitted_under_the_old_authority_key_executes_after_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let (before, waiting) = (admit(&process, "before"), admit(&process, "waiting"));
    let evidence_before = publish(&process, &before);
    stop(process);

    let old = public_key(&run_keys(folder.path(), &[], &["show"]), "authority_key").to_owned();
    let output = run_keys(folder.path(), &[], &["rotate", "authority"]);
    let overrides = [("authority_keys_previous", old.as_str())];
    assert!(output.contains(&format!("authority_keys_previous = \"{old}\"")), "{output}");
    let listed = run_keys(folder.path(), &overrides, &["show"]);
    let new = public_key(&listed, "authority_key").to_owned();
    assert_ne!(new, old);
    assert!(
        output.contains(&new) && listed.contains(&format!("authority_keys_previous {old}\n")),
        "{listed}"
    );
    assert_eq!(fs::metadata(&key_files(folder.path())[0]).unwrap().permissions().mode() & 0o7777, 0o600);

    let process = Process::start(folder.path(), None, &overrides);
    let evidence_waiting = publish(&process, &waiting);
    let after = admit(&process, "after");
    let evidence_after = publish(&process, &after);
    stop(process);

    // Evidence verifies if the roots list the key that signed its decision. The exit code is 3, since its approvals are unsigned.
    let verify = |evidence: &Value, overrides: &[(&str, &str)]| {
        let (code, roots, _) = run(folder.path(), overrides, &["evidence", "roots"]);
        assert_eq!(code, 0);
        let (file, trust) = (folder.path().join("evidence.json"), folder.path().join("roots.json"));
        fs::write(&file, evidence.to_string()).unwrap();
        fs::write(&trust, roots).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_gateway-under-test"))
            .args(["evidence", "verify", file.to_str().unwrap(), "--trust", trust.to_str().unwrap()])
            .output();
        output.unwrap().status.code().unwrap()
    };
    for evidence in [&evidence_before, &evidence_waiting, &evidence_after] {
        assert_eq!(verify(evidence, &overrides), 3);
    }
    assert_eq!((verify(&evidence_after, &[]), verify(&evidence_before, &[])), (3, 1));
}

/// Kills the process after the commit of a payment's decision, before a node receives it; returns the payment's path.
fn kill_after_decision(folder: &Path) -> String {
    // Eight commits of the key creation, then submission, approval, and the last approval with the decision.
    let mut process = Process::start(folder, Some("after-commit:11"), &[]);
    let submitted = process.post(SIGN, Some(&payment("decided")));
    let path = samples::path(&submitted["operation"], "");
    process.post(&format!("{path}/approve"), Some(&approval("alice")));
    let (address, approve) = (process.address.clone(), format!("{path}/approve"));
    let last = thread::spawn(move || request(&address, "POST", &approve, Some(&approval("bob"))));
    process.wait_for_line("failpoint ");
    process.kill();
    assert!(last.join().unwrap().is_err());
    path
}

/// Whether the operation's history has an event of this kind.
fn has_event(process: &Process, path: &str, kind: &str) -> bool {
    let audit = process.get(&format!("{path}/audit-replay"));
    audit["events"].as_array().unwrap().iter().any(|entry| entry["event"]["change"]["type"] == kind)
}

#[test]
fn decision_of_the_old_authority_key_is_accepted_while_the_setting_lists_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = kill_after_decision(folder.path());
    let old = public_key(&run_keys(folder.path(), &[], &["show"]), "authority_key").to_owned();
    run_keys(folder.path(), &[], &["rotate", "authority"]);
    let process = Process::start(folder.path(), None, &[("authority_keys_previous", &old)]);
    eventually("the decision must be applied", || has_event(&process, &path, "admission_applied"));
    assert!(has_event(&process, &path, "decision_signed"));
    publish(&process, &path);
}

#[test]
fn decision_of_the_old_authority_key_is_refused_once_the_setting_drops_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = kill_after_decision(folder.path());
    run_keys(folder.path(), &[], &["rotate", "authority"]);
    let process = Process::start(folder.path(), None, &[]);
    eventually("the decision must be refused", || has_event(&process, &path, "failed"));
    assert!(
        has_event(&process, &path, "decision_signed") && !has_event(&process, &path, "admission_applied")
    );
    let (status, answer) = request(&process.address, "POST", &format!("{path}/execute"), None).unwrap();
    assert_eq!((status, answer["error"].as_str()), (409, Some("operation_failed")), "{answer}");
}

#[test]
fn node_key_rotation_keeps_all_shares() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let waiting = admit(&process, "waiting");
    let (code, _, error) = run(folder.path(), &[], &["keys", "rotate", "node"]);
    assert!(code == 1 && error.contains("already open in another process"), "{error}");
    stop(process);
    let old = fs::read(&key_files(folder.path())[2]).unwrap();
    // The refused rotation left no file behind.
    assert!(!folder.path().join("nodes/node.key.next").exists());
    let process = Process::start(folder.path(), None, &[]);
    stop(process);
    let output = run_keys(folder.path(), &[], &["rotate", "node"]);
    assert!(output.starts_with("3 nodes were encrypted again: key "), "{output}");
    let new = fs::read(&key_files(folder.path())[2]).unwrap();
    assert_ne!(new, old);
    let process = Process::start(folder.path(), None, &[]);
    publish(&process, &waiting);
    stop(process);
    // The old key no longer opens the databases.
    fs::write(&key_files(folder.path())[2], old).unwrap();
    assert!(Process::start_error(folder.path(), &[]).contains("sealed under another key"));
}

#[test]
fn node_key_rotation_leaves_databases_under_an_unknown_key_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let waiting = admit(&process, "waiting");
    stop(process);
    let [_, _, node] = key_files(folder.path());
    let right = fs::read(&node).unwrap();
    let wrong = "01".repeat(32);
    fs::write(&node, &wrong).unwrap();
    let (code, out, error) = run(folder.path(), &[], &["keys", "rotate", "node"]);
    assert!(code == 1 && out.is_empty(), "{out}");
    assert!(error.contains("participant 0: ") && error.contains("sealed under another key"), "{error}");
    assert_eq!(fs::read_to_string(&node).unwrap(), wrong);
    assert!(!folder.path().join("nodes/node.key.next").exists());
    fs::write(&node, right).unwrap();
    let process = Process::start(folder.path(), None, &[]);
    publish(&process, &waiting);
}

#[test]
fn killed_key_rotation_is_resumed() {
    for failpoint in ["after-rewrap:1", "after-rewrap:3", "before-node-key:1"] {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start(folder.path(), None, &[]);
        let waiting = admit(&process, "waiting");
        stop(process);
        kill_command_at(folder.path(), failpoint, &["keys", "rotate", "node"]);
        assert!(Process::start_error(folder.path(), &[]).contains("run `keys rotate node` again"));
        run_keys(folder.path(), &[], &["rotate", "node"]);
        let process = Process::start(folder.path(), None, &[]);
        publish(&process, &waiting);
        stop(process);
    }
    // A killed rotation of the authority's key leaves the old key in place.
    let folder = tempfile::tempdir().unwrap();
    run_keys(folder.path(), &[], &["generate"]);
    let old = fs::read(&key_files(folder.path())[0]).unwrap();
    kill_command_at(folder.path(), "before-authority-key:1", &["keys", "rotate", "authority"]);
    assert_eq!(fs::read(&key_files(folder.path())[0]).unwrap(), old);
    run_keys(folder.path(), &[], &["rotate", "authority"]);
    assert_ne!(fs::read(&key_files(folder.path())[0]).unwrap(), old);
}

/// Runs a subcommand until it stops at a failpoint, and kills it.
fn kill_command_at(folder: &Path, failpoint: &str, arguments: &[&str]) {
    let mut command = command(folder, &[]);
    let mut child = command.args(arguments).env("SVC_FAILPOINT", failpoint).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let is_there = lines.map_while(Result::ok).any(|line| line.starts_with("failpoint "));
    assert!(is_there, "{failpoint} was not passed");
    child.kill().unwrap();
    child.wait().unwrap();
}
