//! `bundle activate` and `bundle rollback`.

use super::{alter_manifest, bundle, committed, copy, copy_unsigned, payment_guard, replace_in, sign, value};
use crate::harness::bundles::wait_until;
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
    assert!(activate("guard").error_line().contains("signatures by trusted keys"));
    assert_eq!(manifest(), before);

    replace_in(&here.join("guard/manifest.json"), "\"version\": \"", "\"version\": \"9");
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
    assert_eq!(activate("https://gateway"), "`https://gateway` is not a URL of the form http://HOST:PORT");
    assert!(!folder.path().join("active").exists(), "arguments must be checked before anything is written");
    // No server listens on a reserved port.
    let port = Port::reserve();
    let url = format!("http://{}", port.address);
    let output = activate(&url);
    assert!(output.starts_with(&format!("the gateway at `{url}` does not answer")), "{output}");
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

    let refused = activate("first", &gateway_arguments).error_line();
    assert!(refused.contains("refuses the bundle: bundle sequence 101 is not above 102"), "{refused}");

    let arguments = ["rollback", "--to", &first, "--sequence", "103", "--reason", "second denies too much"];
    let output = bundle(here, &[&arguments[..], &["--key", &key, "--out", "record.json"]].concat()).ok();
    assert_eq!(value(&output, "back to"), first);
    let shown = wait_until(&gateway.address, |it| it["active"]["bundle_hash"] != second.as_str());
    assert_eq!(
        (&shown["active"]["bundle_hash"], &shown["active"]["reason"]),
        (&json!(first), &json!("second denies too much"))
    );
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
