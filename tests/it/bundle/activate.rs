//! A bundle replaces another one in one step, or not at all.

use super::{bundle, committed, copy, payment_guard, value};
use crate::harness::bundles::until;
use crate::harness::port::Port;
use crate::harness::process::Process;
use serde_json::json;
use std::fs;
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
    assert!(activate("guard").refused().contains("signatures by trusted keys"));
    assert_eq!(manifest(), before);

    let key = committed("development-signing-key.json");
    let text = String::from_utf8(before.clone()).unwrap();
    let newer = text.replacen("\"version\": \"", "\"version\": \"9", 1);
    fs::write(here.join("guard/manifest.json"), newer).unwrap();
    bundle(here, &["sign", "guard", "--key", &key]).ok();
    activate("guard").ok();
    assert_ne!(manifest(), before);
    let mut left: Vec<_> =
        fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["active", "guard"], "nothing is left beside it");
}

#[test]
fn unreachable_gateway_is_reported_by_address() {
    let folder = tempfile::tempdir().unwrap();
    let trust = committed("trust-development.json");
    let guard = payment_guard();
    let activate = |url: &str| {
        let words =
            ["activate", guard.to_str().unwrap(), "--into", "active", "--trust", &trust, "--gateway", url];
        bundle(folder.path(), &words).refused()
    };
    assert_eq!(activate("https://gateway"), "`https://gateway` is not a URL of the form http://HOST:PORT");
    assert!(!folder.path().join("active").exists(), "wrong arguments are found before anything is done");
    // No server listens on port 1.
    let port = Port::held();
    let url = format!("http://{}", port.address);
    let output = activate(&url);
    assert!(output.starts_with(&format!("the gateway at `{url}` does not answer")), "{output}");
}

/// The bundle in `folder` as another signed release.
fn release(folder: &Path, version: &str, sequence: u64) -> String {
    let path = folder.join("manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["version"] = version.into();
    manifest["sequence"] = sequence.into();
    fs::write(&path, manifest.to_string()).unwrap();
    let _none_yet = fs::remove_dir_all(folder.join("signatures"));
    let key = committed("development-signing-key.json");
    let signed = bundle(folder, &["sign", ".", "--key", &key]).ok();
    value(&signed, "bundle hash").to_owned()
}

#[test]
fn running_gateway_activates_and_rolls_back() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let (trust, key) = (committed("trust-development.json"), committed("development-signing-key.json"));
    for name in ["first", "second"] {
        copy(&payment_guard(), &here.join(name));
    }
    let first = release(&here.join("first"), "1.0.1", 101);
    let second = release(&here.join("second"), "1.0.2", 102);
    let put = |from: &str, more: &[&str]| {
        bundle(here, &[&["activate", from, "--into", "active", "--trust", &trust], more].concat())
    };
    put("first", &[]).ok();
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
    let asked = ["--gateway", url.as_str(), "--wait", "100"];
    let output = put("second", &asked).ok();
    assert!(output.contains("active      the gateway uses it"), "{output}");

    let refused = put("first", &asked).refused();
    assert!(refused.contains("refuses the bundle: bundle sequence 101 is not above 102"), "{refused}");

    let words = ["rollback", "--to", &first, "--sequence", "103", "--reason", "second denies too much"];
    let output = bundle(here, &[&words[..], &["--key", &key, "--out", "record.json"]].concat()).ok();
    assert_eq!(value(&output, "back to"), first);
    let shown = until(&gateway.address, |it| it["active"]["bundle_hash"] != second.as_str());
    assert_eq!(
        (&shown["active"]["bundle_hash"], &shown["active"]["reason"]),
        (&json!(first), &json!("second denies too much"))
    );
}

#[test]
fn activation_record_requires_hash_and_reason_and_accepts_more_signatures() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for name in ["one", "two"] {
        bundle(here, &["key", "new", name]).ok();
    }
    let rollback = |to: &str, reason: &str| {
        let words =
            ["rollback", "--to", to, "--sequence", "7", "--reason", reason, "--key", "one", "--out", "r"];
        bundle(here, &words)
    };
    let hash = "ab".repeat(32);
    assert!(rollback("ab", "why").refused().contains("`ab` is not a bundle hash"));
    rollback(&hash, " ").refused();
    assert!(!here.join("r").exists());
    rollback(&hash, "why").ok();
    assert_eq!(rollback(&hash, "why").refused(), "`r` exists already");
    let output = bundle(here, &["countersign", "r", "--key", "two", "--json"]).ok();
    let output: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(output["signers"].as_array().unwrap().len(), 2);
    assert_eq!(output["record"]["bundle_hash"], hash.as_str());
    fs::write(here.join("r"), "{}").unwrap();
    assert!(
        bundle(here, &["countersign", "r", "--key", "two"]).refused().contains("not an activation record")
    );
}
