//! Invalid input is refused with a one-line error and exit code 1.

use super::{
    alter_manifest, bundle, command, committed, copy, copy_unsigned, payment_guard, replace_in, sign,
};
use crate::harness::bundles::{key, write_folder};
use crate::harness::process::{Process, SECRET_MODES};
use gateway_domain::ids::Hex32;
use gateway_policy::bundle::pack;
use gateway_policy::{BundleFiles, PolicyEngine, TrustPolicy};
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn trust() -> String {
    committed("trust-development.json")
}

#[test]
fn folder_without_a_bundle_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for command in ["inspect", "test", "lint", "bench"] {
        let output = bundle(here, &[command, "."]).error_line();
        assert_eq!(output, "`.` is not a bundle: it has no `manifest.json`");
        let output = bundle(here, &[command, "nowhere"]).error_line();
        assert_eq!(output, "`nowhere` is not a bundle: it has no `manifest.json`");
    }
    fs::write(here.join("x.tar"), "not a tar, and shorter than a block").unwrap();
    let refused = bundle(here, &["inspect", "x.tar"]).error_line();
    assert!(refused.starts_with("`x.tar` is not a bundle's folder, and not an archive"), "{refused}");
    assert!(
        bundle(here, &["sign", "x.tar", "--key", "k"]).error_line().contains("the file `k` cannot be opened")
    );
    assert!(sign(here, "x.tar").error_line().contains("unpack it first"));
}

#[test]
fn invalid_policy_name_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a/b", "../a", "/tmp/a", "A", "a_b", "struct", ""] {
        let output = bundle(folder.path(), &["new", name]).error_line();
        assert!(output.starts_with(&format!("`{name}` is not a policy name")), "{output}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    bundle(folder.path(), &["new", "a"]).ok();
    assert_eq!(bundle(folder.path(), &["new", "a"]).error_line(), "`a` exists already");
}

#[test]
fn invalid_or_readable_signing_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    copy(&payment_guard(), &here.join("guard"));
    bundle(here, &["key", "new", "author.key"]).ok();
    assert_eq!(bundle(here, &["key", "new", "author.key"]).error_line(), "`author.key` exists already");
    fs::write(here.join("roots.json"), "other roots").unwrap();
    let output = bundle(here, &["key", "new", "other.key", "--roots", "roots.json"]).error_line();
    assert_eq!(output, "`roots.json` exists already");
    assert_eq!(fs::read(here.join("roots.json")).unwrap(), b"other roots");
    let path = here.join("author.key");
    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let sign_guard = || bundle(here, &["sign", "guard", "--key", "author.key"]);
    mode(0o644);
    assert_eq!(sign_guard().error_line(), format!("the file `author.key` has mode 0644; {SECRET_MODES}"));
    mode(0o600);
    sign_guard().ok();

    let text = fs::read_to_string(&path).unwrap();
    let seed = text.split('"').rev().nth(1).unwrap().to_owned();
    fs::write(&path, text.replace(&seed, &"ab".repeat(32))).unwrap();
    assert!(sign_guard().error_line().contains("does not belong to its public key"));
    fs::write(&path, text.replace(&seed, "secret")).unwrap();
    let output = sign_guard().error_line();
    assert!(output.contains("is not 64 hexadecimal characters") && !output.contains("secret"), "{output}");
    fs::write(&path, "hello").unwrap();
    let output = sign_guard().error_line();
    assert!(output.contains("key file `author.key` is not valid") && !output.contains("hello"), "{output}");
}

#[test]
fn bundle_that_cannot_load_is_neither_signed_nor_verified() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    copy(&payment_guard(), &here.join("guard"));
    let verify = |pin: &[&str]| bundle(here, &[&["verify", "guard", "--trust", &trust()], pin].concat());
    verify(&[]).ok();
    assert!(verify(&["--pin", &"0".repeat(64)]).error_line().contains("is not among the pinned ones"));
    assert!(verify(&["--pin", "x"]).error_line().contains("pin `x`"));

    bundle(here, &["key", "new", "author.key", "--roots", "roots.json"]).ok();
    let other = bundle(here, &["verify", "guard", "--trust", "roots.json"]).error_line();
    assert!(other.contains("role `author` has 0 of 1 signatures"), "{other}");

    let wasm = here.join("guard/policy.wasm");
    let mut bytes = fs::read(&wasm).unwrap();
    bytes[100] ^= 1;
    fs::write(&wasm, bytes).unwrap();
    let stale = sign(here, "guard").error_line();
    assert!(stale.contains("`operation-gateway bundle complete` writes their hashes"), "{stale}");
    for output in [stale, verify(&[]).error_line(), bundle(here, &["test", "guard"]).error_line()] {
        assert!(output.contains("`policy.wasm` was changed"), "{output}");
    }
}

#[test]
fn expired_bundle_fails_verification() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    copy_unsigned(&here.join("guard"));
    alter_manifest(&here.join("guard"), |manifest| manifest["not_after_ms"] = 1_000.into());
    sign(here, "guard").ok();
    let output = bundle(here, &["verify", "guard", "--trust", &trust()]).error_line();
    assert!(output.contains("bundle expired at 1000 ms"), "{output}");
}

#[test]
fn bundle_that_fails_its_vectors_is_neither_signed_nor_verified() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    copy_unsigned(&here.join("guard"));
    replace_in(&here.join("guard/tests/custody.json"), "\"required\": 2", "\"required\": 3");
    let files = BundleFiles::read(&here.join("guard")).unwrap();
    // Completed and signed without the command line, which would refuse to.
    let files = pack::complete(&PolicyEngine::new().unwrap(), &files).unwrap();
    let files = files.with([pack::sign(&files, &key(1)).unwrap()]).unwrap();
    write_folder(&here.join("guard"), &files);
    let public = Hex32::new(key(1).verifying_key().to_bytes());
    let roots = serde_json::to_vec(&TrustPolicy::of_one("author", public)).unwrap();
    fs::write(here.join("roots.json"), roots).unwrap();
    for output in [sign(here, "guard"), bundle(here, &["verify", "guard", "--trust", "roots.json"])] {
        let output = output.error_line();
        assert!(output.contains("tests/custody.json"), "{output}");
    }
    let signatures = fs::read_dir(here.join("guard/signatures")).unwrap().count();
    assert_eq!(signatures, 1, "a signature was added");
}

#[test]
fn bundle_without_vectors_is_neither_signed_nor_verified_nor_activated() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    copy_unsigned(&here.join("guard"));
    fs::remove_dir_all(here.join("guard/tests")).unwrap();
    bundle(here, &["complete", "guard"]).ok();
    let files = BundleFiles::read(&here.join("guard")).unwrap();
    // Signed without the command line, which would refuse to.
    write_folder(&here.join("signed"), &files.with([pack::sign(&files, &key(1)).unwrap()]).unwrap());
    let public = Hex32::new(key(1).verifying_key().to_bytes());
    fs::write(here.join("roots.json"), serde_json::to_vec(&TrustPolicy::of_one("author", public)).unwrap())
        .unwrap();
    let no_vectors =
        "the bundle has no test vectors: add at least one to `tests/`, with the verdict that it must give";
    assert_eq!(sign(here, "guard").error_line(), no_vectors);
    assert!(!here.join("guard/signatures").exists(), "a signature was added");
    assert_eq!(bundle(here, &["verify", "signed", "--trust", "roots.json"]).error_line(), no_vectors);
    let activate = ["activate", "signed", "--into", "active", "--trust", "roots.json"];
    assert_eq!(bundle(here, &activate).error_line(), no_vectors);
    assert!(!here.join("active").exists());
    let at = |name: &str| here.join(name).to_str().unwrap().to_owned();
    let (policy, roots) = (at("signed"), at("roots.json"));
    let settings = [("policy_bundle", policy.as_str()), ("policy_trust_roots", &roots)];
    let refused = Process::start_error(here, &settings);
    assert!(refused.ends_with(no_vectors), "{refused}");
}

#[test]
fn missing_compiler_error_says_how_to_install_it() {
    let folder = tempfile::tempdir().unwrap();
    bundle(folder.path(), &["new", "a"]).ok();
    let output = command(folder.path()).args(["build", "a"]).env("PATH", folder.path()).output().unwrap();
    let line = super::CommandOutput::from(output).error_line();
    assert_eq!(line, "`cargo` is not installed, or not on PATH: see https://rustup.rs");
}

#[test]
fn sources_that_build_no_component_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    bundle(folder.path(), &["new", "a"]).ok();
    let output = bundle(folder.path(), &["build", "a/policy", "--into", "a/bundle"]).error_line();
    assert_eq!(output, "`a/policy` has no package that is a `cdylib`");
}
