//! `bundle activate` and `bundle rollback`.

use super::{
    CommandOutput, alter_manifest, bundle, command, committed, copy, copy_unsigned, manifest, payment_guard,
    sign, value,
};
use crate::harness::bundles::wait_until;
use crate::harness::certificates::Authority;
use crate::harness::port::Port;
use crate::harness::process::{Process, SECRET_MODES};
use crate::harness::wire::eventually;
use crate::harness::{modes, tls};
use gateway_auth::testing::{Behaviour, FakeProvider, Issuer};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[test]
fn refused_activation_leaves_the_folder_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let trust = committed("trust-development.json");
    let activate = |from: &str| bundle(here, &["activate", from, "--into", "active", "--trust", &trust]);
    copy(&payment_guard(), &here.join("guard"));
    activate("guard").ok();
    let manifest = || fs::read(here.join("active/manifest.json")).unwrap();
    let before = manifest();

    fs::remove_dir_all(here.join("guard/signatures")).unwrap();
    assert!(activate("guard").error_line().contains("signatures by trusted keys"));
    assert_eq!(manifest(), before);

    alter_manifest(&here.join("guard"), |manifest| manifest["sequence"] = 9_000.into());
    sign(here, "guard").ok();
    activate("guard").ok();
    assert_ne!(manifest(), before);
    let mut left: Vec<_> =
        fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["active", "guard"], "a temporary folder is left behind");
}

#[test]
fn unreachable_gateway_is_reported_by_address() {
    let folder = tempfile::tempdir().unwrap();
    let trust = committed("trust-development.json");
    let guard = payment_guard();
    let activate = |url: &str| {
        let arguments = ["activate", guard.to_str().unwrap(), "--into", "active", "--trust", &trust];
        bundle(folder.path(), &[&arguments[..], &["--gateway", url]].concat()).error_line()
    };
    let form = "is not a URL of the form https://HOST[:PORT] or http://HOST[:PORT]";
    assert_eq!(activate("ftp://gateway"), format!("`ftp://gateway` {form}"));
    // No server listens on a reserved port.
    let port = Port::reserve();
    let url = format!("http://{}", port.address);
    let output = activate(&url);
    assert!(output.starts_with(&format!("the gateway at `{url}` does not answer")), "{output}");
    assert!(!folder.path().join("active").exists(), "the gateway must be asked before anything is written");
}

/// Writes the default policy to `folder` as a signed release of this version and sequence; returns its hash.
fn release(folder: &Path, version: &str, sequence: u64) -> String {
    copy_unsigned(folder);
    alter_manifest(folder, |manifest| {
        manifest["version"] = version.into();
        manifest["sequence"] = sequence.into();
    });
    value(&sign(folder, ".").ok(), "bundle hash").to_owned()
}

#[test]
fn running_gateway_activates_and_rolls_back() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let (trust, key) = (committed("trust-development.json"), committed("development-signing-key.json"));
    let first = release(&here.join("first"), "1.0.1", 101);
    let second = release(&here.join("second"), "1.0.2", 102);
    let activate = |from: &str, gateway: &[&str]| {
        bundle(here, &[&["activate", from, "--into", "active", "--trust", &trust], gateway].concat())
    };
    activate("first", &[]).ok();
    let at = |name: &str| here.join(name).to_str().unwrap().to_owned();
    let (active, record) = (at("active"), at("record.json"));
    let settings = [
        ("policy_bundle", active.as_str()),
        ("policy_trust_roots", &trust),
        ("policy_activation", &record),
        ("policy_watch_ms", "20"),
    ];
    let gateway = Process::start(here, None, &settings);
    let url = format!("http://{}", gateway.address);
    let gateway_arguments = ["--gateway", url.as_str(), "--wait", "100"];
    let output = activate("second", &gateway_arguments).ok();
    assert!(output.contains("active      the gateway uses it"), "{output}");

    for arguments in [&gateway_arguments[..], &[]] {
        let refused = activate("first", arguments).error_line();
        assert!(refused.starts_with("bundle sequence 101 is not above 102"), "{refused}");
        assert_eq!(manifest(&here.join("active"))["sequence"], 102, "the folder was replaced");
    }
    // The active bundle again, for example with another signature.
    activate("second", &gateway_arguments).ok();

    let arguments = ["rollback", "--to", &first, "--sequence", "103", "--reason", "second denies too much"];
    let output = bundle(here, &[&arguments[..], &["--key", &key, "--out", "record.json"]].concat()).ok();
    assert_eq!(value(&output, "back to"), first);
    let shown = wait_until(&gateway.address, |it| it["active"]["bundle_hash"] != second.as_str());
    assert_eq!(
        (&shown["active"]["bundle_hash"], &shown["active"]["reason"]),
        (&json!(first), &json!("second denies too much"))
    );
    // The record's sequence is higher than that of the bundle in the folder, which only the gateway knows.
    release(&here.join("third"), "1.0.3", 103);
    let refused = activate("third", &gateway_arguments).error_line();
    assert!(refused.starts_with("bundle sequence 103 is not above 103"), "{refused}");
    assert_eq!(manifest(&here.join("active"))["sequence"], 102, "the folder was replaced");
}

#[test]
fn lower_or_equal_sequence_than_the_active_bundle_fails_verification() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let trust = committed("trust-development.json");
    for (name, version, sequence) in [("old", "1.0.1", 101), ("same", "1.0.2", 101), ("new", "1.0.3", 102)] {
        release(&here.join(name), version, sequence);
    }
    let verify =
        |name: &str, active: &str| bundle(here, &["verify", name, "--trust", &trust, "--active", active]);
    assert_eq!(
        verify("old", "new").error_line(),
        "bundle sequence 101 is not above 102, which has been activated already: raise `sequence` in `manifest.json`, \
         or return to an earlier bundle with `bundle rollback`"
    );
    assert!(verify("same", "old").error_line().starts_with("bundle sequence 101 is not above 101"));
    assert!(verify("new", "old").ok().ends_with("follows     sequence 101\n"));
    assert!(verify("new", "new").ok().ends_with("follows     itself: it is the active bundle\n"));
    let missing = verify("new", "nowhere").error_line();
    assert_eq!(missing, "`nowhere` is not a bundle: it has no `manifest.json`");

    let activate = |name: &str| bundle(here, &["activate", name, "--into", "active", "--trust", &trust]);
    activate("new").ok();
    assert!(activate("old").error_line().starts_with("bundle sequence 101 is not above 102"));
    assert_eq!(manifest(&here.join("active"))["sequence"], 102, "the folder was replaced");
    // No gateway has activated a folder without a valid manifest.
    fs::write(here.join("active/manifest.json"), "{}").unwrap();
    activate("old").ok();
}

#[test]
fn folder_that_was_replaced_without_confirmation_exits_with_3() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let trust = committed("trust-development.json");
    let first = release(&here.join("first"), "1.0.1", 101);
    let second = release(&here.join("second"), "1.0.2", 102);
    copy(&here.join("first"), &here.join("active"));
    let active = here.join("active").to_str().unwrap().to_owned();
    let settings = |watch_ms| {
        [("policy_bundle", active.as_str()), ("policy_trust_roots", &trust), ("policy_watch_ms", watch_ms)]
    };
    let activate = |gateway: &Process| {
        let url = format!("http://{}", gateway.address);
        let arguments = ["activate", "second", "--into", "active", "--trust", &trust, "--gateway", &url];
        let line = bundle(here, &[&arguments[..], &["--wait", "1"]].concat()).error_line_with_code(3);
        assert_eq!(manifest(&here.join("active"))["sequence"], 102);
        line.replace(&url, "URL")
    };
    let replaced = format!("`active` has the bundle `{second}` now, but its activation is not confirmed: ");
    let data = tempfile::tempdir().unwrap();
    // This gateway reads the folder only on SIGHUP.
    let gateway = Process::start(data.path(), None, &settings("0"));
    let inactive =
        format!("bundle `{second}` is not active at the gateway `URL` after 1 s; the active one: `{first}`");
    assert_eq!(activate(&gateway), format!("{replaced}{inactive}"));
    drop(gateway);

    fs::remove_dir_all(here.join("active")).unwrap();
    copy(&here.join("first"), &here.join("active"));
    let data = tempfile::tempdir().unwrap();
    let gateway = Process::start(
        data.path(),
        None,
        &[&settings("20")[..], &[("policy_pins", first.as_str())]].concat(),
    );
    let refused = activate(&gateway);
    assert!(
        refused.starts_with(&format!("{replaced}the gateway at `URL` refuses the bundle: ")),
        "{refused}"
    );
    assert!(refused.ends_with("is not among the pinned ones"), "{refused}");
}

#[test]
fn gateway_that_does_not_answer_for_a_while_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let trust = committed("trust-development.json");
    release(&here.join("first"), "1.0.1", 101);
    let second = release(&here.join("second"), "1.0.2", 102);
    copy(&here.join("first"), &here.join("active"));
    // It refused the bundle before, perhaps with fewer signatures.
    let refused =
        json!({ "offer": "bundle", "bundle_hash": second, "why": "too few signatures", "at_ms": 1 });
    let none = json!({ "active": null, "history": [], "refused": [refused] });
    let active = json!({ "bundle_hash": second, "activation_sequence": 102 });
    let active = json!({ "active": active, "history": [active], "refused": [] });
    let gateway = FakeProvider::start(Behaviour::Answers(200, none.to_string()));
    let url = format!("http://{}", gateway.address);
    let activate = |seconds: &str| {
        let arguments = ["activate", "second", "--into", "active", "--trust", &trust, "--gateway", &url];
        bundle(here, &[&arguments[..], &["--wait", seconds]].concat())
    };
    let output = std::thread::scope(|scope| {
        let running = scope.spawn(|| activate("100"));
        eventually("the folder was replaced", || manifest(&here.join("active"))["sequence"] == 102);
        let n_before = gateway.requests().len();
        eventually("the earlier refusal is no answer", || gateway.requests().len() > n_before + 1);
        gateway.behave(Behaviour::HangsUp);
        let n_before = gateway.requests().len();
        eventually("the gateway is asked again", || gateway.requests().len() > n_before + 1);
        gateway.behave(Behaviour::Answers(200, active.to_string()));
        running.join().unwrap()
    });
    assert!(output.ok().ends_with("active      the gateway uses it\n"));

    gateway.behave(Behaviour::Answers(200, none.to_string()));
    let line = std::thread::scope(|scope| {
        let running = scope.spawn(|| activate("1"));
        let n_before = gateway.requests().len();
        eventually("the gateway was asked before the swap", || gateway.requests().len() > n_before);
        gateway.behave(Behaviour::Answers(500, String::new()));
        running.join().unwrap().error_line_with_code(3)
    });
    let end = format!("but its activation is not confirmed: the gateway at `{url}` answers with 500");
    assert!(line.ends_with(&end), "{line}");
}

/// Writes the file `token` with this mode.
fn write_token(folder: &Path, text: &str, mode: u32) {
    fs::write(folder.join("token"), text).unwrap();
    fs::set_permissions(folder.join("token"), fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn unusable_token_or_certificates_are_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let (trust, guard) = (committed("trust-development.json"), payment_guard());
    // No server listens on a reserved port.
    let port = Port::reserve();
    let https = format!("https://{}", port.address);
    let refused = |url: &str, more: &[&str]| {
        let mut command = command(here);
        command.args(["activate", guard.to_str().unwrap(), "--into", "active", "--trust", &trust]);
        command.args(["--gateway", url]).args(more).env("OPERATION_GATEWAY_TOKEN", "s3cret");
        let line = CommandOutput::from(command.output().unwrap()).error_line();
        assert!(!here.join("active").exists(), "the folder was written: {line}");
        assert!(!line.contains("s3cret"), "the line has the token: {line}");
        line
    };
    let with_file = ["--token-file", "token"];
    write_token(here, "s3cret", 0o644);
    assert_eq!(refused(&https, &with_file), format!("the file `token` has mode 0644; {SECRET_MODES}"));
    write_token(here, "s3cret\nsecond line", 0o600);
    let form = "the token in `token` is not one line of 1 to 16384 visible ASCII characters";
    assert_eq!(refused(&https, &with_file), form);
    fs::write(here.join("none.pem"), "none").unwrap();
    let plain = "certificate authorities are for https, and `http://127.0.0.1:1/` is plain HTTP";
    assert_eq!(refused("http://127.0.0.1:1", &["--ca", "none.pem"]), plain);
    let none = "the certificates in `none.pem` cannot be used: it has no PEM certificate";
    assert_eq!(refused(&https, &["--ca", "none.pem"]), none);
    let elsewhere = refused("http://gateway.example", &[]);
    assert_eq!(
        elsewhere,
        "a token is not sent over plain HTTP to another machine: use an https URL in place of `http://gateway.example`, or give no token"
    );
}

#[test]
fn gateway_of_production_confirms_over_https_to_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let trust = committed("trust-development.json");
    release(&here.join("first"), "1.0.1", 101);
    release(&here.join("second"), "1.0.2", 102);
    copy(&here.join("first"), &here.join("active"));
    let (ours, other) = (Authority::new("ours"), Authority::new("theirs"));
    let files = tls::Files::write(here, &ours.server(), &ours);
    fs::write(here.join("ca.pem"), ours.pem()).unwrap();
    fs::write(here.join("other.pem"), other.pem()).unwrap();
    let issuer = Issuer::with_one("k1");
    let provider = FakeProvider::start(Behaviour::Answers(200, issuer.jwks().to_string()));
    let tokens = modes::settings(modes::Mode::Jwks, &provider, here);
    let active = here.join("active").to_str().unwrap().to_owned();
    let policy =
        [("policy_bundle", active.as_str()), ("policy_trust_roots", &trust), ("policy_watch_ms", "20")];
    let tokens: Vec<_> = tokens.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let gateway = Process::start(here, None, &[&policy[..], &tokens, &files.settings("off")].concat());

    let token = |scope: &str| issuer.token(&modes::claims(modes::test_caller("carol", scope)));
    let https = format!("https://{}", gateway.address);
    let run = |more: &[&str], variable: &str| {
        let arguments = ["activate", "second", "--into", "active", "--trust", &trust, "--gateway", &https];
        let mut command = command(here);
        command.args(arguments).args(["--wait", "100"]).args(more).env("OPERATION_GATEWAY_TOKEN", variable);
        CommandOutput::from(command.output().unwrap())
    };
    let with_file = ["--ca", "ca.pem", "--token-file", "token"];
    let refused = |more: &[&str], variable: &str| {
        let line = run(more, variable).error_line();
        assert_eq!(manifest(&here.join("active"))["sequence"], 101, "the folder was replaced: {line}");
        assert!(!line.contains(&token("operations.read")[..20]), "the line has the token: {line}");
        line.replace(&https, "URL")
    };
    let certificate = refused(&["--ca", "other.pem"], "");
    assert!(certificate.starts_with("the gateway at `URL` does not answer: "), "{certificate}");
    assert!(certificate.contains("certificate"), "{certificate}");
    // The system's authorities, which `--ca` replaces. This variable names their file.
    let with_system = |more: &[&str]| {
        let arguments = ["activate", "second", "--into", "active", "--trust", &trust, "--gateway", &https];
        let mut command = command(here);
        command.args(arguments).args(more).env("SSL_CERT_FILE", here.join("ca.pem"));
        CommandOutput::from(command.output().unwrap()).error_line()
    };
    assert!(refused(&[], "").starts_with("the gateway at `URL` does not answer: "));
    assert!(with_system(&[]).contains(" answers with 401"));
    assert!(with_system(&["--ca", "other.pem"]).contains(" does not answer: "));
    let without = refused(&["--ca", "ca.pem"], "");
    assert!(
        without.starts_with("the gateway at `URL` answers with 401: it needs a valid token"),
        "{without}"
    );
    write_token(here, &token("custody.read"), 0o600);
    assert!(refused(&with_file, "").contains("answers with 403: the token needs the scope `audit.read`"));

    // The file wins over the variable.
    write_token(here, &format!("{}\n", token("operations.read")), 0o600);
    let confirmed = run(&with_file, "another token").ok();
    assert!(confirmed.ends_with("active      the gateway uses it\n"), "{confirmed}");
    assert_eq!(manifest(&here.join("active"))["sequence"], 102);
    let again = run(&["--ca", "ca.pem"], &token("audit.read")).ok();
    assert!(again.contains("follows     itself: it is the active bundle"), "{again}");
}

#[test]
fn activation_record_requires_hash_and_reason_and_can_be_countersigned() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for name in ["one", "two"] {
        bundle(here, &["key", "new", name]).ok();
    }
    let rollback = |to: &str, reason: &str| {
        let arguments = ["rollback", "--to", to, "--sequence", "7", "--reason", reason];
        bundle(here, &[&arguments[..], &["--key", "one", "--out", "r"]].concat())
    };
    let hash = "ab".repeat(32);
    assert!(rollback("ab", "why").error_line().contains("`ab` is not a bundle hash"));
    rollback(&hash, " ").error_line();
    assert!(!here.join("r").exists());
    rollback(&hash, "why").ok();
    assert_eq!(rollback(&hash, "why").error_line(), "`r` exists already");
    let output = bundle(here, &["countersign", "r", "--key", "two", "--json"]).ok();
    let output: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(output["signers"].as_array().unwrap().len(), 2);
    assert_eq!(output["record"]["bundle_hash"], hash.as_str());
    fs::write(here.join("r"), "{}").unwrap();
    assert!(
        bundle(here, &["countersign", "r", "--key", "two"]).error_line().contains("not an activation record")
    );
}
