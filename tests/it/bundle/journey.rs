//! The steps of `host/docs/policy-authors.md`: from an empty folder to a policy decision.

use super::{CommandOutput, bundle, command, value};
use crate::harness::process::{Process, request};
use serde_json::json;
use std::fs;

#[test]
fn new_policy_is_built_signed_activated_and_previewed() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    bundle(here, &["new", "acme-limits"]).ok();
    let built = bundle(here, &["build", "acme-limits", "--locked"]).ok();
    let tested = bundle(here, &["test", "acme-limits", "--strict"]).ok();
    assert!(tested.contains("vectors     5 of 5 pass"), "{tested}");
    bundle(here, &["lint", "acme-limits", "--strict"]).ok();
    let key = bundle(here, &["key", "new", "author.key", "--roots", "roots.json"]).ok();
    let signed = bundle(here, &["sign", "acme-limits", "--key", "author.key"]).ok();
    assert_eq!(value(&signed, "key id"), value(&key, "key id"));
    let hash = value(&built, "bundle hash");
    let pinned = ["verify", "acme-limits", "--trust", "roots.json", "--pin", hash];
    assert_eq!(value(&bundle(here, &pinned).ok(), "bundle hash"), hash);

    bundle(here, &["pack", "acme-limits", "acme-limits.tar"]).ok();
    let activate = ["activate", "acme-limits.tar", "--into", "active", "--trust", "roots.json"];
    assert_eq!(value(&bundle(here, &activate).ok(), "bundle hash"), hash);

    let at = |name: &str| here.join(name).to_str().unwrap().to_owned();
    let settings = [
        ("policy_bundle", at("active")),
        ("policy_trust_roots", at("roots.json")),
        ("policy_pins", hash.to_owned()),
    ];
    let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
    let gateway = Process::start(here, None, &settings);
    let preview = |amount_minor: i64| {
        let body = json!({ "intent": {
            "idempotency_key": "try-1",
            "payment": { "from_account": "a", "to_account": "b", "amount_minor": amount_minor, "currency": "EUR" },
            "requested_participants": [0, 1, 2],
            "publication_mode": "manual",
            "client": { "client_id": "c", "subject_id": "alice", "roles": [], "scopes": ["operations.sign"] },
        }});
        let (status, answer) = request(&gateway.address, "POST", "/v1/policy/preview", Some(&body)).unwrap();
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let answer = preview(12_500);
    assert_eq!((&answer["decision"], &answer["bundle_hash"]), (&json!("ALLOW"), &json!(hash)));
    assert_eq!(answer["reasons"], json!(["amount_permitted: 12500 EUR"]));
    assert_eq!(preview(100_001)["decision"], "DENY");
}

#[test]
fn build_gives_the_same_bytes_in_another_folder() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let deep = other.path().join("a folder/that is deeper and has spaces");
    fs::create_dir_all(&deep).unwrap();
    let build = |folder: &std::path::Path, settings: &[(&str, &str)]| {
        bundle(folder, &["new", "acme"]).ok();
        let mut build = command(folder);
        build.args(["build", "acme", "--locked"]).envs(settings.iter().copied());
        CommandOutput::from(build.output().unwrap()).ok();
        let read = |name: &str| fs::read(folder.join("acme/bundle").join(name)).unwrap();
        (read("policy.wasm"), read("manifest.json"))
    };
    // Build settings of a machine must change nothing.
    let other_settings = [("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"), ("RUSTFLAGS", "-Copt-level=1")];
    let (first, second) = (build(one.path(), &[]), build(&deep, &other_settings));
    assert!(first == second, "{} and {} bytes", first.0.len(), second.0.len());
    let path = one.path().to_str().unwrap().as_bytes();
    assert!(!first.0.windows(path.len()).any(|window| window == path), "the component contains a path");

    let source = one.path().join("acme/policy/src/lib.rs");
    let changed = fs::read_to_string(&source).unwrap().replace("amount_permitted\"", "amount_tolerated\"");
    fs::write(source, changed).unwrap();
    let check = bundle(one.path(), &["build", "acme", "--locked", "--check"]);
    assert!(check.error_line().contains("the bundle has"), "the sources no longer give the component");
}
