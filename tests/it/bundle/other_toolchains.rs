//! Bundles of policies that are built without our SDK.
//!
//! `policy-guest/examples/cargo-component/test.sh`, which CI runs, tests the same for `cargo component build`.

use super::{bundle, repository, value};
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn component_built_for_wasm32_wasip2_with_wit_bindgen_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let (here, target) = (folder.path(), folder.path().join("target"));
    let example = repository().join("policy-guest/examples/wit-bindgen");
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--locked", "--target", "wasm32-wasip2", "--target-dir"]).arg(&target);
    let built = build.current_dir(example).stdin(Stdio::null()).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let component = target.join("wasm32-wasip2/release/amount_limit.wasm");

    let draft = repository().join("policy-guest/examples/bundle");
    fs::create_dir_all(here.join("bundle/tests")).unwrap();
    for file in ["manifest.json", "tests/payments.json"] {
        fs::copy(draft.join(file), here.join("bundle").join(file)).unwrap();
    }
    let built = bundle(here, &["build", "bundle", "--component", component.to_str().unwrap()]).ok();
    let manifest = fs::read_to_string(here.join("bundle/manifest.json")).unwrap();
    assert!(manifest.contains("wasi:cli/stdout@0.2."), "{manifest}");
    let tested = bundle(here, &["test", "bundle", "--strict"]).ok();
    assert!(tested.contains("vectors     2 of 2 pass"), "{tested}");
    // The world without WASI.
    let pure = manifest.replace("svc:policy-wasi@2.x", "svc:policy@2.x");
    fs::write(here.join("bundle/manifest.json"), &pure).unwrap();
    let refused = bundle(here, &["test", "bundle"]).error_line();
    let (import, rest) = refused.split_once("`, which ").unwrap();
    assert!(import.starts_with("the component imports `wasi:cli/"), "{refused}");
    assert_eq!(
        rest,
        "only the world `svc:policy-wasi@2.x` provides: name it as `world` in `manifest.json`, or build the component without WASI"
    );
    fs::write(here.join("bundle/manifest.json"), &manifest).unwrap();
    bundle(here, &["key", "new", "author.key", "--roots", "roots.json"]).ok();
    bundle(here, &["sign", "bundle", "--key", "author.key"]).ok();
    let pinned = ["verify", "bundle", "--trust", "roots.json", "--pin", value(&built, "bundle hash")];
    bundle(here, &pinned).ok();
}

#[test]
fn component_file_that_is_no_component_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    bundle(here, &["new", "acme"]).ok();
    let before = fs::read(here.join("acme/bundle/manifest.json")).unwrap();
    fs::write(here.join("module.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let core = "`policy.wasm` is a core module of WebAssembly, not a component: build it with `operation-gateway bundle build` from \
                sources with the SDK, or for the target `wasm32-wasip2`, or turn it into one with `wasm-tools component new`";
    for (file, error) in [("module.wasm", core), ("missing.wasm", "`missing.wasm` cannot be read: ")] {
        let refused = bundle(here, &["build", "acme", "--component", file]).error_line();
        assert!(refused.starts_with(error), "{refused}");
        assert_eq!(fs::read(here.join("acme/bundle/manifest.json")).unwrap(), before);
        assert!(!here.join("acme/bundle/policy.wasm").exists());
    }
}
