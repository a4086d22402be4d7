//! Modules that are initialized when their bundle is built.

use crate::BundleFiles;
use crate::snapshot::{SnapshotError, initialized};
use crate::testing::module;

const IMPORTS: &str = r#"(import "svc:policy/facts@2.0.0" "get" (func $get (param i32 i32 i32)))
    (import "svc:bundle/data@1.0.0" "get" (func $look_up (param i32 i32 i32 i32 i32)))
    (import "svc:bundle/log@1.0.0" "write" (func $log (param i32 i32)))"#;

/// A module whose initialization is `body`. At 1024 is the name of a data file, at 1100 a fault.
fn guest(body: &str) -> Vec<u8> {
    let extra = format!(
        r#"(data (i32.const 1024) "policies.cedar") (data (i32.const 1100) "\54\04\00\00\07\00\00\00missing")
        (func $deep (param i32) (result i32) (call $deep (local.get 0)) (drop) (call $deep (local.get 0)))
        (func (export "initialize-policy") (result i32) {body})"#
    );
    module(IMPORTS, 1, &extra, "i32.const 0")
}

fn files(text: &str) -> BundleFiles {
    BundleFiles::new([("data/policies.cedar".to_owned(), text.as_bytes().to_vec())]).unwrap()
}

const LOOK_UP: &str =
    "(call $look_up (i32.const 1024) (i32.const 14) (i32.const 0) (i32.const 0) (i32.const 2048))
    (if (result i32) (i32.load8_u (i32.const 2048)) (then (i32.const 0)) (else (i32.const 1100)))";

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn same_module_and_data_give_the_same_bytes_with_the_memory_after_initialization() {
    let module = guest(LOOK_UP);
    let snapshot = |text: &str| initialized(&module, &files(text)).unwrap().into_owned();
    assert_eq!(snapshot("permit one"), snapshot("permit one"));
    assert_ne!(snapshot("permit one"), snapshot("permit two"));
    assert!(
        contains(&snapshot("permit one"), "permit one") && !contains(&snapshot("x"), "initialize-policy")
    );
}

#[test]
fn module_without_initialization_is_unchanged() {
    let module = module(IMPORTS, 1, "", "i32.const 0");
    assert_eq!(initialized(&module, &files("x")).unwrap(), module);
}

#[test]
fn failing_initialization_names_the_cause() {
    let refused = |body: &str, files: &BundleFiles| initialized(&guest(body), files).unwrap_err();
    let missing = refused(LOOK_UP, &BundleFiles::new([]).unwrap());
    assert!(matches!(&missing, SnapshotError::Refused(fault) if fault == "missing"), "{missing}");
    let some = files("x");
    let deep = refused("(call $deep (i32.const 0))", &some);
    assert!(matches!(deep, SnapshotError::Stack(_)), "{deep}");
    for stopped in [
        "unreachable",
        "(call $log (i32.const 1024) (i32.const 8)) unreachable",
        "(drop (memory.grow (i32.const 1000))) (i32.const 0)",
        // Facts do not exist when a bundle is built.
        "(call $get (i32.const 0) (i32.const 0) (i32.const 2048)) (i32.const 0)",
    ] {
        let fault = refused(stopped, &some);
        assert!(matches!(fault, SnapshotError::Stopped { .. }), "{stopped}: {fault}");
        assert_eq!(fault.to_string().contains("it wrote `policies`"), stopped.contains("$log"), "{fault}");
    }
}
