//! Approving from the command line, on the real process.

use crate::harness::approvers::Signers;
use crate::harness::custody;
use crate::harness::process::{Process, command, request, tool};
use crate::harness::samples::payment;
use gateway_domain::testing::approvers::registry;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

struct Person {
    name: &'static str,
    key: String,
}

impl Person {
    /// Creates a key; returns its entry for the registry.
    fn new(folder: &Path, name: &'static str) -> (Self, Value) {
        let key = folder.join(format!("{name}.key")).display().to_string();
        let (code, line, err) = tool(folder, &[], &["approvers", "key", &key]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        let entry: Value = serde_json::from_str(&line).unwrap();
        let seed = fs::read_to_string(&key).unwrap();
        assert!(!line.contains(seed.trim()) && !err.contains(seed.trim()));
        (
            Self { name, key },
            json!({ "subject_id": name, "tenants": ["default"], "roles": ["approver"], "keys": [entry] }),
        )
    }

    /// Signs approvals of a view with a key file.
    fn arguments(&self, folder: &Path, view: &Value) -> Vec<String> {
        let file = folder.join("view.json").display().to_string();
        fs::write(&file, view.to_string()).unwrap();
        let words = ["approvers", "sign", "--subject", self.name, "--role", "approver", "--key", &self.key];
        words.into_iter().chain(["--operation", &file]).map(str::to_owned).collect()
    }

    /// The approval body, and the text shown to the person.
    fn sign(&self, folder: &Path, view: &Value) -> (i32, String, String) {
        let arguments = self.arguments(folder, view);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).chain(["--yes"]).collect();
        tool(folder, &[], &arguments)
    }

    /// As [`Self::sign`], without `--yes`, at a terminal on which `typed` is entered.
    fn sign_at_terminal(&self, folder: &Path, view: &Value, typed: &str) -> (i32, String, String) {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let terminal = || Stdio::from(open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap());
        let mut command = command(folder, &[]);
        command.args(self.arguments(folder, view)).stdin(terminal()).stderr(terminal());
        let child = command.spawn().unwrap();
        // Closes the test's last handle of the terminal's other end.
        drop(command);
        let mut controller = File::from(controller);
        controller.write_all(typed.as_bytes()).unwrap();
        let mut screen = Vec::new();
        // Ends with an error when the terminal has no other user.
        let _ended = controller.read_to_end(&mut screen);
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(screen))
    }

    fn approves(&self, process: &Process, folder: &Path, view: &Value, approve: &str) -> Value {
        let (code, body, shown) = self.sign(folder, view);
        assert_eq!(code, 0, "{shown}");
        let seed = fs::read_to_string(&self.key).unwrap();
        assert!(!body.contains(seed.trim()) && !shown.contains(seed.trim()));
        assert!(shown.contains("approves operation"), "{shown}");
        process.post(approve, Some(&serde_json::from_str(&body).unwrap()))
    }
}

#[test]
fn command_line_approvals_with_key_files_admit_a_key_and_a_payment() {
    let folder = tempfile::tempdir().unwrap();
    let people = tempfile::tempdir().unwrap();
    let ((alice, first), (bob, second)) =
        (Person::new(people.path(), "alice"), Person::new(people.path(), "bob"));
    let file = people.path().join("approvers.json").display().to_string();
    fs::write(&file, registry(&[first, second])).unwrap();
    let (code, out, err) = tool(people.path(), &[], &["approvers", "check", &file]);
    assert!(code == 0 && out.ends_with("2 approvers\n") && out.matches("  valid").count() == 2, "{out}{err}");

    let given = [("signed_approvals", "required"), ("approvers_file", file.as_str())];
    let process = Process::start(folder.path(), None, &given);
    let create = process.post("/v1/custody/keys", Some(&custody::key("treasury-1")));
    let on_key = |action| custody::path(&create["operation"], action);
    // Alice signs from the answer to the submission, Bob from the operation's own path.
    alice.approves(&process, people.path(), &create, &on_key("/approve"));
    let view = process.get(&on_key(""));
    bob.approves(&process, people.path(), &view, &on_key("/approve"));
    process.post(&on_key("/execute"), None);

    let submitted = process.post("/v1/operations/sign", Some(&payment("command")));
    let operation = format!("/v1/operations/{}", submitted["operation"]["operation_id"].as_str().unwrap());
    let approve = format!("{operation}/approve");
    let (status, refused) = request(
        &process.address,
        "POST",
        &approve,
        Some(&json!({ "subject_id": "alice", "roles": ["approver"], "approved_at_ms": 1 })),
    )
    .unwrap();
    assert_eq!((status, &refused["error"]), (403, &json!("approver_not_permitted")));
    alice.approves(&process, people.path(), &submitted, &approve);
    let admitted = bob.approves(&process, people.path(), &submitted, &approve);
    assert_eq!(admitted["state"], "admitted");
    let executed = process.post(&format!("{operation}/execute"), None);
    assert_eq!(executed["state"], "executed");

    let (code, roots, err) = tool(folder.path(), &given, &["evidence", "roots"]);
    assert_eq!(code, 0, "{err}");
    let roots: Value = serde_json::from_str(&roots).unwrap();
    assert_eq!(
        (&roots["signed_approvals"], &roots["approvers"]["approvers"][1]["subject_id"]),
        (&json!("required"), &json!("bob"))
    );
    let evidence = process.get(&format!("{operation}/evidence"));
    let (trust, document) = (people.path().join("roots.json"), people.path().join("evidence.json"));
    fs::write(&trust, roots.to_string()).unwrap();
    fs::write(&document, evidence.to_string()).unwrap();
    let (trust, document) = (trust.display().to_string(), document.display().to_string());
    let (code, out, err) = tool(people.path(), &[], &["evidence", "verify", &document, "--trust", &trust]);
    assert!(code == 3 && out.contains("ok    approvals signed: 2 of 2 by their approvers"), "{out}{err}");
    assert!(
        out.contains(
            "--    signature: not checked: the signature exists, but is disclosed only after its publication"
        ),
        "{out}"
    );
}

/// The signer recomputes every value it can: a view that lies gets no signature.
#[test]
fn command_line_signs_nothing_that_differs_from_the_view() {
    let folder = tempfile::tempdir().unwrap();
    let people = tempfile::tempdir().unwrap();
    let (alice, _) = Person::new(people.path(), "alice");
    let process = Process::start(folder.path(), None, &[]);
    let submitted = process.post("/v1/operations/sign", Some(&payment("lie")))["operation"].clone();
    assert_eq!(alice.sign(people.path(), &submitted).0, 0);
    // A payment that named no key has one in its view.
    let keyless = crate::harness::samples::with(payment("keyless"), "/key_ref", Value::Null);
    let keyless = process.post("/v1/operations/sign", Some(&keyless));
    let (code, _, shown) = alice.sign(people.path(), &keyless);
    assert!(code == 0 && shown.contains("12500"), "{shown}");
    for (pointer, value, part) in [
        ("/intent/amount_minor", json!(1), "the intent does not have the stated hash"),
        ("/intent/to_account", json!("acct-mallory"), "the intent does not have the stated hash"),
        (
            "/intent/key_ref",
            json!("vault"),
            "the stated key id is not that of key `vault` of tenant `default`",
        ),
        (
            "/approval_statement/tenant",
            json!("other"),
            "the stated key id is not that of key `treasury-1` of tenant `other`",
        ),
        ("/approval_statement/key_id", json!("00".repeat(32)), "the stated key id is not"),
        (
            "/approval_statement/intent_hash",
            json!("00".repeat(32)),
            "the intent does not have the stated hash",
        ),
        ("/approval_statement/operation_id", json!("00".repeat(32)), "for another operation"),
        ("/approval_statement", Value::Null, "awaits approvals"),
    ] {
        let lie = crate::harness::samples::with(submitted.clone(), pointer, value);
        let (code, out, err) = alice.sign(people.path(), &lie);
        assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{pointer}: {err}");
        assert!(err.contains(part), "{pointer}: {err}");
    }
}

#[test]
fn approvers_sign_requires_a_yes_at_the_terminal_or_a_flag() {
    let folder = tempfile::tempdir().unwrap();
    let people = tempfile::tempdir().unwrap();
    let (alice, entry) = Person::new(people.path(), "alice");
    let public_key = &entry["keys"][0]["public_key"];
    let process = Process::start(folder.path(), None, &[]);
    let view = process.post("/v1/operations/sign", Some(&payment("confirm")))["operation"].clone();
    let shown = |screen: &str| {
        let stated = &view["approval_statement"];
        let parts = [&view["operation_id"], &stated["key_id"], &stated["intent_hash"], public_key];
        let parts = parts.map(|part| part.as_str().unwrap());
        let more = ["`alice` approves operation", "in the roles `approver`", "12500", "treasury-1", "acct-"];
        parts.into_iter().chain(more).all(|part| screen.contains(part))
    };
    // Without a terminal no confirmation is possible, whatever standard input contains.
    let arguments = alice.arguments(people.path(), &view);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (code, out, err) = tool(people.path(), &[], &arguments);
    assert!(code == 1 && out.is_empty() && shown(&err), "{err}");
    assert!(err.ends_with("nothing was signed; `--yes` signs without asking\n"), "{err}");
    for typed in ["no\n", "\n", "y\n", "YES\n", "yes please\n", "\u{4}"] {
        let (code, out, screen) = alice.sign_at_terminal(people.path(), &view, typed);
        assert!(code == 1 && out.is_empty() && shown(&screen), "{typed:?}: {screen}");
        assert!(screen.contains("not confirmed: nothing was signed"), "{screen}");
    }
    let (code, body, screen) = alice.sign_at_terminal(people.path(), &view, "yes\n");
    assert!(code == 0 && shown(&screen) && screen.contains("Type `yes` to sign: "), "{screen}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(&body["signature"]["public_key"], public_key);
}

#[test]
fn invalid_registry_is_a_one_line_error() {
    let (folder, signers) = (tempfile::tempdir().unwrap(), Signers::new());
    let check = || tool(folder.path(), &[], &["approvers", "check", signers.path()]);
    let (code, out, _) = check();
    assert!(code == 0 && out.contains("webauthn FBQUFBQUFBQUFBQUFBQUFA of approve.example"), "{out}");
    let twice = [signers.entries(), signers.entries()].concat();
    fs::write(signers.path(), registry(&twice)).unwrap();
    let (code, out, err) = check();
    assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{err}");
    assert!(err.contains("approvers `alice` and `alice` have the same key"), "{err}");
    assert!(!signers.folder().join("alice.key").exists());
}
