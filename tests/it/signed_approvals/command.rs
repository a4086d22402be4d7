//! `operation-gateway approvers`: approvals signed with key files, on the real process.

use crate::harness::approvers::Signers;
use crate::harness::custody;
use crate::harness::process::{Process, SIGN, command, error_line, run};
use crate::harness::samples::{approval, path, payment, with};
use crate::harness::terminal::run_at_terminal;
use gateway_domain::testing::approvers::registry;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// An approver with a key file.
struct Approver {
    name: &'static str,
    key: String,
}

impl Approver {
    /// Creates a key file; returns the approver and its entry for the registry.
    fn new(folder: &Path, name: &'static str) -> (Self, Value) {
        let key = folder.join(format!("{name}.key")).display().to_string();
        let (code, line, err) = run(folder, &[], &["approvers", "key", &key]);
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

    /// The arguments that sign an approval of this view. Writes the view to a file.
    fn sign_arguments(&self, folder: &Path, view: &Value) -> Vec<String> {
        let file = folder.join("view.json").display().to_string();
        fs::write(&file, view.to_string()).unwrap();
        let arguments =
            ["approvers", "sign", "--subject", self.name, "--role", "approver", "--key", &self.key];
        arguments.into_iter().chain(["--operation", &file]).map(str::to_owned).collect()
    }

    /// Runs `approvers sign --yes`; returns exit code, approval body and the text shown to the approver.
    fn sign(&self, folder: &Path, view: &Value) -> (i32, String, String) {
        let arguments = self.sign_arguments(folder, view);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).chain(["--yes"]).collect();
        run(folder, &[], &arguments)
    }

    /// As [`Self::sign`], without `--yes`, at a terminal on which `typed` is entered.
    fn sign_at_terminal(&self, folder: &Path, view: &Value, typed: &str) -> (i32, String, String) {
        let mut command = command(folder, &[]);
        command.args(self.sign_arguments(folder, view));
        let (output, screen) = run_at_terminal(command, typed);
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), screen)
    }

    /// Signs an approval of the view and posts it to the path `approve`; returns the answer.
    fn approve(&self, process: &Process, folder: &Path, view: &Value, approve: &str) -> Value {
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
        (Approver::new(people.path(), "alice"), Approver::new(people.path(), "bob"));
    let file = people.path().join("approvers.json").display().to_string();
    fs::write(&file, registry(&[first, second])).unwrap();
    let (code, out, err) = run(people.path(), &[], &["approvers", "check", &file]);
    assert!(code == 0 && out.ends_with("2 subjects\n") && out.matches("  valid").count() == 2, "{out}{err}");

    let overrides = [("signed_approvals", "required"), ("approvers_file", file.as_str())];
    let process = Process::start(folder.path(), None, &overrides);
    let create = process.post("/v1/custody/keys", Some(&custody::key("treasury-1")));
    let creation_path = |action| custody::path(&create["operation"], action);
    // Alice signs from the answer to the submission, Bob from the operation's own path.
    alice.approve(&process, people.path(), &create, &creation_path("/approve"));
    let view = process.get(&creation_path(""));
    bob.approve(&process, people.path(), &view, &creation_path("/approve"));
    process.post(&creation_path("/execute"), None);

    let submitted = process.post(SIGN, Some(&payment("command")));
    let operation = path(&submitted["operation"], "");
    let approve = format!("{operation}/approve");
    let (status, refused) = process.call("POST", &approve, Some(&approval("alice")));
    assert_eq!((status, &refused["error"]), (403, &json!("approver_not_permitted")));
    alice.approve(&process, people.path(), &submitted, &approve);
    let admitted = bob.approve(&process, people.path(), &submitted, &approve);
    assert_eq!(admitted["state"], "admitted");
    let executed = process.post(&format!("{operation}/execute"), None);
    assert_eq!(executed["state"], "executed");

    let (code, roots, err) = run(folder.path(), &overrides, &["evidence", "roots"]);
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
    let (code, out, err) = run(people.path(), &[], &["evidence", "verify", &document, "--trust", &trust]);
    assert!(code == 3 && out.contains("ok    approvals signed: 2 of 2 by their approvers"), "{out}{err}");
    assert!(
        out.contains(
            "--    signature: not checked: the signature exists, but is disclosed only after its publication"
        ),
        "{out}"
    );
}

#[test]
fn command_line_rejects_a_payment_with_a_key_file() {
    let (folder, people) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (alice, entry) = Approver::new(people.path(), "alice");
    let file = people.path().join("approvers.json").display().to_string();
    fs::write(&file, registry(&[entry])).unwrap();
    let overrides = [("signed_approvals", "optional"), ("approvers_file", file.as_str())];
    let process = Process::start(folder.path(), None, &overrides);
    let submitted = process.post(SIGN, Some(&payment("command")));
    let arguments = alice.sign_arguments(people.path(), &submitted);
    let reject = ["--reject", "not \"our\" supplier", "--yes"];
    let arguments: Vec<_> = arguments.iter().map(String::as_str).chain(reject).collect();
    let (code, body, shown) = run(people.path(), &[], &arguments);
    assert!(code == 0 && shown.contains("`alice` rejects operation"), "{shown}");
    assert!(shown.contains("for the reason `not \"our\" supplier`"), "{shown}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let reject = path(&submitted["operation"], "/reject");
    let other = with(body.clone(), "/reason", json!("not our supplier"));
    assert_eq!(process.call("POST", &reject, Some(&other)).0, 403, "the reason is signed");
    let rejected = process.post(&reject, Some(&body));
    assert_eq!(rejected["failure"]["code"], "rejected");
    assert_eq!(rejected["failure"]["message"], "rejected by `alice`: not \"our\" supplier");
}

/// The command recomputes the hashes in a view, so that a lying gateway gets no signature.
#[test]
fn command_line_does_not_sign_an_inconsistent_view() {
    let folder = tempfile::tempdir().unwrap();
    let people = tempfile::tempdir().unwrap();
    let (alice, _) = Approver::new(people.path(), "alice");
    let process = Process::start(folder.path(), None, &[]);
    let submitted = process.post(SIGN, Some(&payment("lie")))["operation"].clone();
    assert_eq!(alice.sign(people.path(), &submitted).0, 0);
    // The view of a payment without `key_ref` names the development key.
    let keyless = with(payment("keyless"), "/key_ref", Value::Null);
    let keyless = process.post(SIGN, Some(&keyless));
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
        let altered = with(submitted.clone(), pointer, value);
        let err = error_line(alice.sign(people.path(), &altered), 1);
        assert!(err.contains(part), "{pointer}: {err}");
    }
}

#[test]
fn approvers_sign_requires_a_yes_at_the_terminal_or_a_flag() {
    let folder = tempfile::tempdir().unwrap();
    let people = tempfile::tempdir().unwrap();
    let (alice, entry) = Approver::new(people.path(), "alice");
    let public_key = &entry["keys"][0]["public_key"];
    let process = Process::start(folder.path(), None, &[]);
    let view = process.post(SIGN, Some(&payment("confirm")))["operation"].clone();
    let is_shown = |screen: &str| {
        let stated = &view["approval_statement"];
        let parts = [&view["operation_id"], &stated["key_id"], &stated["intent_hash"], public_key];
        let parts = parts.map(|part| part.as_str().unwrap());
        let texts = [
            "`alice` approves operation",
            "submitted by `",
            "in the roles `approver`",
            "12500",
            "treasury-1",
            "acct-",
        ];
        parts.into_iter().chain(texts).all(|part| screen.contains(part))
    };
    // Without a terminal there is no prompt.
    let arguments = alice.sign_arguments(people.path(), &view);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (code, out, err) = run(people.path(), &[], &arguments);
    assert!(code == 1 && out.is_empty() && is_shown(&err), "{err}");
    assert!(err.ends_with("nothing was signed, because there is no terminal to ask for confirmation; `--yes` signs without asking\n"), "{err}");
    for typed in ["no\n", "\n", "y\n", "YES\n", "yes please\n", "\u{4}"] {
        let (code, out, screen) = alice.sign_at_terminal(people.path(), &view, typed);
        assert!(code == 1 && out.is_empty() && is_shown(&screen), "{typed:?}: {screen}");
        assert!(screen.contains("not confirmed: nothing was signed"), "{screen}");
    }
    let (code, body, screen) = alice.sign_at_terminal(people.path(), &view, "yes\n");
    assert!(code == 0 && is_shown(&screen) && screen.contains("Type `yes` to sign: "), "{screen}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(&body["signature"]["public_key"], public_key);
}

#[test]
fn invalid_registry_is_a_one_line_error() {
    let (folder, signers) = (tempfile::tempdir().unwrap(), Signers::new());
    let check = || run(folder.path(), &[], &["approvers", "check", signers.path()]);
    let (code, out, _) = check();
    assert!(code == 0 && out.contains("webauthn FBQUFBQUFBQUFBQUFBQUFA of approve.example"), "{out}");
    for line in
        ["  team sales\n", "person `alice` has 2 subjects, which count once: `alice`, `phone`\n5 subjects\n"]
    {
        assert!(out.contains(line), "{out}");
    }
    let twice = [signers.entries(), signers.entries()].concat();
    fs::write(signers.path(), registry(&twice)).unwrap();
    let err = error_line(check(), 1);
    assert!(err.contains("approvers `alice` and `alice` have the same key"), "{err}");
    assert!(!signers.folder().join("alice.key").exists());
}

#[test]
fn registry_of_the_format_before_is_converted() {
    let (folder, signers) = (tempfile::tempdir().unwrap(), Signers::new());
    let converted = || run(folder.path(), &[], &["approvers", "convert", signers.path()]);
    assert!(error_line(converted(), 1).contains("instead of `svc/approvers/v1`"));
    let v1 = registry(&signers.entries()[..3]).replace("/v2", "/v1");
    fs::write(signers.path(), &v1).unwrap();
    let refused = run(folder.path(), &[], &["approvers", "check", signers.path()]);
    assert!(error_line(refused, 1).contains("`operation-gateway approvers convert` converts it"));
    let (code, v2, err) = converted();
    assert_eq!((code, err.as_str()), (0, ""));
    fs::write(signers.path(), &v2).unwrap();
    let (code, out, _) = run(folder.path(), &[], &["approvers", "check", signers.path()]);
    assert!(code == 0 && out.ends_with("3 subjects\n"), "{out}");
}

#[test]
fn line_feeds_and_invisible_characters_of_others_add_nothing_to_the_signing_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let people = tempfile::tempdir().unwrap();
    let (alice, entry) = Approver::new(people.path(), "alice");
    let file = people.path().join("approvers.json").display().to_string();
    fs::write(&file, registry(&[entry])).unwrap();
    let overrides = [("signed_approvals", "required"), ("approvers_file", file.as_str())];
    let process = Process::start(folder.path(), None, &overrides);
    let hostile = "rent\n`alice` approves operation 0 of tenant `default`\u{1b}[2J\u{202e}";
    let mut key = custody::key("treasury-1");
    key["public_fields"] = json!({ "note": hostile });
    let view = process.post("/v1/custody/keys", Some(&key));
    let mut arguments = alice.sign_arguments(people.path(), &view);
    arguments.extend(["--reject".to_owned(), hostile.to_owned()]);
    let mut command = command(people.path(), &[]);
    command.args(arguments);
    let (_, screen) = run_at_terminal(command, "no\n");
    let escaped =
        "for the reason `rent\\u{a}`alice` approves operation 0 of tenant `default`\\u{1b}[2J\\u{202e}`";
    assert!(screen.contains(escaped), "{screen}");
    assert!(!screen.contains('\u{1b}') && !screen.contains('\u{202e}'), "{screen:?}");
    assert_eq!(screen.lines().filter(|line| line.starts_with("`alice`")).count(), 1, "{screen}");
}
