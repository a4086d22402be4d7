//! `ledger archive`: beside a running gateway, killed at any moment, and verified offline.

use crate::harness::process::{EXECUTE, Process, SIGN, command, drive, error_line, publish_step, run};
use crate::harness::samples::payment;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A running gateway with two published payments and one that waits for approvals, and the roots of trust.
struct Filled {
    folder: tempfile::TempDir,
    process: Process,
    published: BTreeSet<String>,
    waiting: String,
}

impl Filled {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start(folder.path(), None, &[]);
        let pay = |key| {
            let view = drive(&process.address, SIGN, &payment(key), &[EXECUTE, publish_step()]).unwrap();
            view["operation_id"].as_str().unwrap().to_owned()
        };
        let published = ["one", "two"].map(pay).into();
        let (_, waiting) = process.call("POST", SIGN, Some(&payment("waiting")));
        let waiting = waiting["operation"]["operation_id"].as_str().unwrap().to_owned();
        let (code, roots, _) = run(folder.path(), &[], &["evidence", "roots"]);
        assert_eq!(code, 0);
        fs::write(folder.path().join("roots.json"), roots).unwrap();
        Self { folder, process, published, waiting }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn archive(&self, file: &Path, dates: &[&str]) -> (i32, String, String) {
        let arguments = [&["ledger", "archive", file.to_str().unwrap()], dates].concat();
        run(self.folder.path(), &[], &arguments)
    }

    fn verify(&self, file: &Path, more: &[&str]) -> (i32, String, String) {
        let roots = self.path("roots.json");
        let verify = ["evidence", "verify", file.to_str().unwrap(), "--trust", roots.to_str().unwrap()];
        run(self.folder.path(), &[], &[&verify, more].concat())
    }

    /// The operations in an archive that holds.
    fn verified(&self, file: &Path) -> BTreeSet<String> {
        let (code, out, err) = self.verify(file, &[]);
        assert!([0, 3].contains(&code) && !out.contains("FAIL") && err.is_empty(), "{code} {out} {err}");
        fs::read_to_string(file).unwrap().lines().map(id).collect()
    }
}

fn id(line: &str) -> String {
    let page: Value = serde_json::from_str(line).unwrap();
    page["operation_id"].as_str().unwrap().to_owned()
}

const ALL: [&str; 2] = ["--before", "2100-01-01"];

/// Runs `evidence audit` on the archive with the logs of all nodes.
fn audit(filled: &Filled, archive: &Path) -> (i32, String, String) {
    let roots = filled.path("roots.json").display().to_string();
    let mut arguments = vec!["evidence", "audit", archive.to_str().unwrap(), "--trust", &roots];
    let logs = ["0", "1", "2"].map(|node| {
        let (code, log, err) = run(filled.folder.path(), &[], &["nodes", "log", node]);
        assert_eq!(code, 0, "{err}");
        fs::write(filled.path(node), log).unwrap();
        format!("--nodes={}", filled.path(node).display())
    });
    arguments.extend(logs.iter().map(String::as_str));
    run(filled.folder.path(), &[], &arguments)
}

#[test]
fn archive_is_audited_against_the_logs_of_the_nodes() {
    let filled = Filled::start();
    let file = filled.path("archive.jsonl");
    assert!([0, 3].contains(&filled.archive(&file, &ALL).0));
    let (code, out, err) = audit(&filled, &file);
    assert!([0, 3].contains(&code) && !out.contains("FAIL"), "{code} {out} {err}");
    assert!(out.contains("ok    operations shown: 3, "), "{out}");
    let without: String =
        fs::read_to_string(&file).unwrap().lines().skip(1).map(|line| format!("{line}\n")).collect();
    fs::write(filled.path("cut.jsonl"), without).unwrap();
    let (code, out, err) = audit(&filled, &filled.path("cut.jsonl"));
    assert!(code == 1 && out.contains("FAIL  operations shown: "), "{code} {out} {err}");
}

#[test]
fn archive_has_every_operation_that_ended_and_is_verified_offline() {
    let filled = Filled::start();
    let file = filled.path("archive.jsonl");
    let (code, out, err) = filled.archive(&file, &ALL);
    assert!([0, 3].contains(&code) && err.is_empty(), "{code} {out} {err}");
    assert!(out.ends_with(&format!("archived 3 operations in `{}`\n", file.display())), "{out}");
    // The third one created the key.
    let archived = filled.verified(&file);
    assert!(archived.is_superset(&filled.published) && archived.len() == 3, "{archived:?}");
    assert!(!archived.contains(&filled.waiting));
    assert!(out.contains("--    policy facts: not made in 3 of the documents"), "{out}");
    assert!(!filled.path("archive.jsonl.partial").exists());
    // The database has everything it had.
    let (code, out, _) = run(filled.folder.path(), &[], &["ledger", "fsck"]);
    assert_eq!((code, out.lines().last()), (0, Some("nothing is wrong")));
    for id in &filled.published {
        filled.process.get(&format!("/v1/operations/{id}/evidence"));
    }

    let exists = error_line(filled.archive(&file, &ALL), 2);
    assert!(exists.contains("exists already"), "{exists}");
    let other = filled.path("other.jsonl");
    for dates in [&["--before", "2020-01-01"][..], &["--before", "2100-01-01", "--from", "2099-12-31"]] {
        let none = error_line(filled.archive(&other, dates), 2);
        assert!(none.contains("no operation ended in this time"), "{none}");
    }
    assert!(!other.exists() && !filled.path("other.jsonl.partial").exists());

    // One operation alone, and one that is not in the archive.
    let one = filled.published.first().unwrap();
    let (_, out, _) = filled.verify(&file, &["--operation", one]);
    assert!(out.contains("1 documents") && !out.contains("FAIL"), "{out}");
    let absent = error_line(filled.verify(&file, &["--operation", &"0".repeat(64)]), 2);
    assert!(absent.contains("has no document"), "{absent}");

    // Altered in any document, and cut off.
    let text = fs::read_to_string(&file).unwrap();
    for line in 0..3 {
        let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
        lines[line] = lines[line].replacen("\"at_ms\":1", "\"at_ms\":2", 1);
        assert_ne!(lines.concat(), text);
        fs::write(&file, lines.concat()).unwrap();
        let (code, out, _) = filled.verify(&file, &[]);
        assert!(code == 1 && out.contains(&format!("FAIL  {}: ", id(&lines[line]))), "{out}");
    }
    fs::write(&file, &text[..text.len() - 1]).unwrap();
    let cut = error_line(filled.verify(&file, &[]), 2);
    assert!(cut.contains("line 3 is cut off"), "{cut}");
}

#[test]
fn killed_archive_leaves_no_file_or_a_verified_one_and_can_be_repeated() {
    let filled = Filled::start();
    let (mut n_killed, mut is_whole) = (0, false);
    let whole = filled.path("whole.jsonl");
    assert!([0, 3].contains(&filled.archive(&whole, &ALL).0));
    let all = filled.verified(&whole);
    for round in 0..100_u64 {
        let file = filled.path(&format!("{round}.jsonl"));
        let arguments = ["ledger", "archive", file.to_str().unwrap(), "--before", "2100-01-01"];
        let mut child = command(filled.folder.path(), &[]).args(arguments).spawn().unwrap();
        // Killed at every moment of its work, of which it tells nothing.
        std::thread::sleep(Duration::from_millis(round * 20));
        child.kill().unwrap();
        let ended = child.wait().unwrap().code().is_some();
        n_killed += u32::from(!ended);
        if file.exists() {
            assert_eq!(filled.verified(&file), all);
        }
        let repeated = filled.archive(&file, &ALL);
        assert!([0, 2, 3].contains(&repeated.0), "{repeated:?}");
        assert_eq!(filled.verified(&file), all);
        assert!(!filled.path(&format!("{round}.jsonl.partial")).exists() || repeated.0 == 2);
        if ended {
            is_whole = true;
            break;
        }
    }
    assert!(n_killed > 0 && is_whole, "{n_killed} killed");
}
