//! A bundle takes the place of another in one step, or not at all.

use super::{bundle, committed, copy, payment_guard};
use std::fs;

#[test]
fn what_is_refused_leaves_the_folder_as_it_was() {
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
fn a_gateway_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let trust = committed("trust-development.json");
    let guard = payment_guard();
    let activate = |url: &str| {
        let words =
            ["activate", guard.to_str().unwrap(), "--into", "active", "--trust", &trust, "--gateway", url];
        bundle(folder.path(), &words).refused()
    };
    assert_eq!(activate("https://gateway"), "`https://gateway` is not a URL of the form http://HOST:PORT");
    assert!(!folder.path().join("active").exists(), "a wrong word is found before anything is done");
    // A port that was free a moment ago, and that nobody listens on.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = activate(&format!("http://{free}"));
    assert!(said.starts_with(&format!("the gateway at `http://{free}` does not answer")), "{said}");
}
