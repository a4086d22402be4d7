//! `runtime-node selftest` as an operator runs it: the real process.

use serde_json::Value;
use std::process::{Command, Output};

/// Runs the command with a temporary folder of its own, which must be empty afterwards.
fn selftest(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_runtime-node"));
    let output = command.arg("selftest").args(arguments).env("TMPDIR", folder.path()).output().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the databases were left behind");
    output
}

/// Attacks that a reader looks for, each in the protocol where it applies, for both signature profiles.
const CLASSES: [(&str, &str); 33] = [
    ("key generation", "no proof of possession"),
    ("key generation", "a false proof of possession"),
    ("key generation", "the proof of another participant"),
    ("key generation", "commitments and proof of another participant"),
    ("key generation", "commitments to a longer polynomial"),
    ("key generation", "commitments to a shorter polynomial"),
    ("key generation", "other commitments for each node"),
    ("key generation", "a wrong secret value"),
    ("key generation", "a commitment of low order, or off the curve"),
    ("key generation", "a second encoding of a point"),
    ("key generation", "messages of an earlier attempt"),
    ("key generation", "a message in the name of another"),
    ("key generation", "a message sealed for another node"),
    ("key generation", "commitments bound to another ceremony"),
    ("refresh", "a false proof of possession"),
    ("refresh", "other commitments for each node"),
    ("refresh", "the share of another key"),
    ("refresh", "commitments to a shorter polynomial"),
    ("reshare", "a false proof of possession"),
    ("reshare", "the proof of another participant"),
    ("reshare", "other commitments for each node"),
    ("reshare", "the root of another key"),
    ("reshare", "commitments to a shorter polynomial"),
    ("recovery", "a false proof of possession"),
    ("recovery", "the share of another key"),
    ("recovery", "a wrong sum for the recovering node"),
    ("recovery", "other commitments for each node"),
    ("recovery", "another contribution than the admitted one"),
    ("signing", "a second package for the same nonces"),
    ("signing", "the commitments of an earlier attempt"),
    ("signing", "a package over another message"),
    ("signing", "a package with a tweak"),
    ("signing", "a wrong signature share"),
];

#[test]
fn known_attacks_are_refused_and_each_protocol_completes_afterwards() {
    let output = selftest(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{text}");
    let (lines, last) = text.trim_end().rsplit_once('\n').unwrap();
    let n_lines = lines.lines().count();
    assert_eq!(last, format!("{n_lines} of {n_lines} ended as they must"));
    assert!(lines.lines().all(|line| line.starts_with("ok     ")), "{text}");
    for profile in ["frost-ed25519-sha512", "frost-secp256k1-sha256-tr"] {
        for (protocol, attack) in CLASSES {
            let line = format!("ok     {profile}, {protocol}: {attack}: ");
            assert_eq!(lines.matches(&line).count(), 1, "{line}");
        }
        for protocol in ["key generation", "refresh", "reshare", "recovery", "signing"] {
            let line = format!("ok     {profile}, {protocol}: an honest run after the attacks: ");
            assert_eq!(lines.matches(&line).count(), 1, "{line}");
        }
    }
}

#[test]
fn results_are_printed_as_one_json_document() {
    let output = selftest(&["--json"]);
    assert!(output.status.success());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let attacks = document["attacks"].as_array().unwrap();
    assert_eq!(document["ok"], true);
    let is_ok = |played: &Value| played["ok"] == true && !played["honest"].as_str().unwrap().is_empty();
    assert!(attacks.len() > 100 && attacks.iter().all(is_ok), "{document}");
}
